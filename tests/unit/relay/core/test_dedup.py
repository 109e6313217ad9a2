"""Dedup: ids, the window, its figures, and what is shipped."""

import pytest

from rota.model.errors import Invalid
from rota.model.ids import Instant
from rota.relay.core.dedup import DedupWindow, Ids

T0 = Instant(1000.0)


def at(seconds: float) -> Instant:
    return Instant(T0 + seconds)


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


class TestIds:
    def test_equal_messages_have_equal_ids_of_128_bits(self) -> None:
        assert Ids("room", "7").of(None, b"hello") == Ids("room", "7").of(None, b"hello")
        assert len(Ids("room", "7").of("key", b"")) == 16

    def test_a_key_stands_for_the_payload(self) -> None:
        ids = Ids("room", "7")
        assert ids.of("1", b"one") == ids.of("1", b"other")
        assert ids.of("1", b"one") != ids.of("2", b"one")

    def test_a_key_is_not_taken_for_an_equal_payload(self) -> None:
        assert Ids("room", "7").of("hello", b"") != Ids("room", "7").of(None, b"hello")
        assert Ids("room", "7").of("", b"") != Ids("room", "7").of(None, b"")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param(("room", "7"), ("room", "8"), id="resource"),
            pytest.param(("room", "7"), ("hall", "7"), id="kind"),
            pytest.param(("ab", "c"), ("a", "bc"), id="where the names part"),
        ],
    )
    def test_resources_do_not_share_ids(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        assert Ids(*one).of(None, b"hello") != Ids(*other).of(None, b"hello")

    def test_an_id_stays_what_it_is(self) -> None:
        assert Ids("room", "7").of(None, b"hello").hex() == "7cd044a03e7578339264d32b06e19d63"
        assert Ids("room", "7").of("hello", b"").hex() == "026732cf0f5db0c62528c396f3d9b811"


class TestWindow:
    def test_a_settled_message_is_known_for_the_span(self) -> None:
        window = DedupWindow[str](T0)
        window.settle(name(1), window.tally("room", "7"), 0)
        assert window.is_known(name(1), 0)
        window.advance(at(29.9))
        assert window.is_known(name(1), 0)
        window.advance(at(60))
        assert not window.is_known(name(1), 0)
        assert len(window) == 0

    def test_a_message_settled_just_before_time_jumped_is_known_for_the_span(self) -> None:
        window = DedupWindow[str](T0)
        window.settle(name(1), window.tally("room", "7"), 0)  # at 99, say: nobody advanced since 0
        window.advance(at(100))
        window.advance(at(129))
        assert window.is_known(name(1), 0)

    def test_a_reservation_does_not_expire(self) -> None:
        window = DedupWindow[str](T0)
        window.reserved[name(1)] = "the first copy"
        window.advance(at(1000))
        assert window.reserved[name(1)] == "the first copy"
        assert not window.is_known(name(1), 0)

    def test_what_is_given_back_is_as_if_it_had_never_come(self) -> None:
        window = DedupWindow[str](T0)
        window.reserved[name(1)] = "the first copy"
        window.give_back(name(1))
        assert len(window) == 0

    def test_it_lasts_as_long_as_somebody_may_hold_a_copy(self) -> None:
        window = DedupWindow[str](T0)
        window.settle(name(1), window.tally("room", "7"), 0)
        for second in range(0, 300, 5):
            window.advance(at(second), oldest=at(3))
        assert window.is_known(name(1), 1)
        window.advance(at(301), oldest=None)
        assert not window.is_known(name(1), 1)

    def test_beyond_the_most_the_oldest_go_early_and_are_counted(self) -> None:
        window = DedupWindow[str](T0, most=10)
        tally = window.tally("room", "7")
        for number in range(20):
            window.settle(name(number), tally, 0)
            window.advance(at(number))
        assert window.remembered <= 10 + 8
        assert window.cut_short > 0
        assert not window.is_known(name(0), 0)
        assert window.is_known(name(19), 0)

    def test_a_window_without_span_is_invalid(self) -> None:
        with pytest.raises(Invalid, match="remembers nothing"):
            DedupWindow[str](T0, span=0)


class TestFigures:
    def test_what_one_replica_alone_sent_is_counted_when_it_is_forgotten(self) -> None:
        window = DedupWindow[str](T0)
        tally = window.tally("room", "7")
        window.settle(name(1), tally, 0)
        window.settle(name(2), tally, 0)
        window.settle(name(3), tally, None)  # another had sent it before it was settled
        window.is_known(name(1), 0)  # the same replica again
        window.is_known(name(2), 1)
        window.is_known(name(2), 1)
        assert tally.seen_by_one == 0
        window.advance(at(10))
        window.advance(at(60))
        assert tally.seen_by_one == 1

    def test_a_dropped_tally_begins_anew(self) -> None:
        window = DedupWindow[str](T0)
        window.tally("room", "7").unique = 5
        window.drop_tally("room", "7")
        assert window.tally("room", "7").unique == 0


class TestMoves:
    def test_the_taker_knows_what_the_giver_knew_and_for_as_long(self) -> None:
        giver, taker = DedupWindow[str](T0), DedupWindow[str](Instant(5.0))
        moving, staying = giver.tally("room", "7"), giver.tally("room", "8")
        giver.settle(name(1), moving, 0)
        giver.settle(name(2), staying, 0)
        giver.advance(at(20))
        giver.settle(name(3), moving, None)
        excerpts = giver.export(lambda tally: tally is moving, at(20))
        taker.take_in(excerpts, Instant(6.0))
        assert taker.is_known(name(1), 0)
        assert not taker.is_known(name(2), 0)
        assert taker.is_known(name(3), 0)
        taker.advance(Instant(50.0))
        taker.advance(Instant(90.0))
        assert len(taker) == 0
        assert taker.tally("room", "7").seen_by_one == 1
        assert giver.is_known(name(1), 0), "the giver still knows: it may have to tell another"

    def test_taking_in_twice_counts_once(self) -> None:
        giver, taker = DedupWindow[str](T0), DedupWindow[str](T0)
        giver.settle(name(1), giver.tally("room", "7"), 0)
        excerpts = giver.export(lambda tally: True, at(1))
        taker.take_in(excerpts, at(1))
        taker.take_in(excerpts, at(2))
        assert taker.remembered == 1

    def test_what_the_taker_has_under_way_stays_so(self) -> None:
        giver, taker = DedupWindow[str](T0), DedupWindow[str](T0)
        giver.settle(name(1), giver.tally("room", "7"), 0)
        taker.reserved[name(1)] = "mine"
        taker.take_in(giver.export(lambda tally: True, at(1)), at(1))
        assert taker.remembered == 0
