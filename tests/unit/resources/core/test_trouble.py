"""A node that fails a resource again and again is avoided for longer and longer; old troubles are forgotten."""

from datetime import UTC, datetime, timedelta

from rota.model.ids import NodeId, Revision
from rota.resources.core.records import Trouble
from rota.resources.core.trouble import FORGET, LONGEST, MOST, again, kept_until

NODE = NodeId("a")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def troubles(count: int, apart: timedelta = timedelta(minutes=1)) -> Trouble:
    found = None
    for number in range(count):
        found = again(found, NODE, NOW + number * apart, "it falls")
    assert found is not None
    return found


def test_each_time_in_a_row_doubles_the_time() -> None:
    waits = [kept_until(troubles(count), FIVE) - troubles(count).at for count in (1, 2, 3)]
    assert waits == [FIVE, 2 * FIVE, 4 * FIVE]


def test_it_never_takes_longer_than_a_day() -> None:
    many = troubles(100)
    assert many.strikes == MOST
    assert kept_until(many, FIVE) - many.at == LONGEST


def test_what_happened_long_ago_is_forgotten_bit_by_bit() -> None:
    before = troubles(3)
    assert again(before, NODE, before.at + FORGET, "").strikes == 3
    assert again(before, NODE, before.at + 2 * FORGET, "").strikes == 2
    assert again(before, NODE, before.at + 9 * FORGET, "").strikes == 1


def test_a_clock_that_was_set_back_forgives_nothing() -> None:
    before = troubles(2)
    assert again(before, NODE, before.at - timedelta(days=1), "").strikes == 3


def test_troubles_in_a_row_know_when_the_first_was_and_the_last_placement() -> None:
    third = again(troubles(2), NODE, NOW + FORGET, "it falls", Revision(7))
    assert (third.since, third.at, third.epoch) == (NOW, NOW + FORGET, 7)
    anew = again(third, NODE, third.at + 9 * FORGET, "it falls")
    assert (anew.since, anew.strikes) == (anew.at, 1)


def test_a_trouble_of_an_older_rota_counts_from_its_time() -> None:
    before = Trouble(node=NODE, at=NOW, why="", strikes=2)
    assert again(before, NODE, NOW + timedelta(minutes=1), "").since == NOW
