"""Which connections a door has room for."""

from rota.doors.guard.places import Admit, Full, OpenConnection, room_for
from rota.kit.time.instant import Instant


def seat(
    name: str, address: str = "a", *, idle: bool = True, asked: bool = False, since: float = 0
) -> OpenConnection[str]:
    return OpenConnection(name, address, idle, asked, Instant(since))


def test_there_is_room_while_places_are_left() -> None:
    assert room_for("a", [seat("1")], most=2, most_of_one=2) == Admit()


def test_the_oldest_connection_that_never_asked_makes_way() -> None:
    seats = [seat("1", asked=True, since=0), seat("2", since=2), seat("3", since=1), seat("4", idle=False, since=0)]
    assert room_for("b", seats, most=4, most_of_one=9) == Admit("3")


def test_an_address_that_has_its_share_gives_up_one_of_its_own() -> None:
    seats = [seat("1", "b", since=0), seat("2", "a", since=5), seat("3", "a", idle=False)]
    assert room_for("a", seats, most=9, most_of_one=2) == Admit("2")


def test_where_none_is_idle_the_new_one_is_refused() -> None:
    busy = [seat("1", "a", idle=False), seat("2", "b", idle=False)]
    assert isinstance(room_for("c", busy, most=2, most_of_one=2), Full)
    assert isinstance(room_for("a", busy, most=9, most_of_one=1), Full)


def test_a_trusted_proxy_has_no_share_of_its_own() -> None:
    busy = [seat("1", "a", idle=False)]
    assert room_for("a", busy, most=2, most_of_one=1, is_exempt=True) == Admit()
