"""The relay's core: fates, acks, spool, other relays, moves, room."""

from collections.abc import Iterable

import pytest

from rota.kit.record import replace
from rota.model.errors import Invalid
from rota.model.ids import Instant, NodeId
from rota.relay.core.core import Relay
from rota.relay.core.held import Emission, InboundLine, RefusedMessage, RelayLimits
from rota.relay.core.moves import Shipment
from rota.relay.core.outlet import Outlet
from rota.relay.core.records import RelayMap
from rota.sinks import Message
from tests.kit.sinks import message, numbers

T0 = Instant(1000.0)
HERE, THERE = NodeId("here"), NodeId("there")
ALONE = RelayMap(version=1, nodes=(HERE,))
BOTH = RelayMap(version=2, nodes=(HERE, THERE), before=(HERE,))
SINK = "memory://"


def at(seconds: float) -> Instant:
    return Instant(T0 + seconds)


def names(node: NodeId, count: int = 3) -> list[str]:
    """Resources whose home is `node` while both are there."""
    return [name for name in map(str, range(100)) if BOTH.home("room", name) == node][:count]


MINE, THEIRS = names(HERE)[0], names(THERE)[0]


def emission(number: int, resource: str = MINE, *, slot: int = 0, epoch: int = 1, exclusive: bool = False) -> Emission:
    return Emission(message(number, resource), SINK, slot, epoch, exclusive)


class Bench:
    """A relay with two hosts, and somebody who does what it asks for when told."""

    def __init__(self, relay_map: RelayMap | None = ALONE, limits: RelayLimits | None = None) -> None:
        self.relay = Relay(HERE, T0, limits or RelayLimits())
        if relay_map is not None:
            self.relay.map_changed(relay_map, T0)
        self.a, self.b = self.line("a"), self.line("b")
        self.sequence = 0

    def line(self, sender: str, *, is_peer: bool = False) -> InboundLine:
        line = InboundLine(sender, is_peer=is_peer)
        self.relay.join(line, None, T0)
        return line

    def hand(self, line: InboundLine, *emissions: Emission, now: Instant = T0) -> int:
        self.sequence += 1
        self.relay.took(line, self.sequence, emissions, 0.0, now)
        return self.sequence

    @property
    def outlet(self) -> Outlet:
        return self.relay.home.outlet(SINK)

    def publish(self) -> list[Message]:
        return self.outlet.to_publish(1000)

    def confirm(self, messages: Iterable[Message], now: Instant = T0) -> None:
        self.relay.home.confirmed(self.outlet, messages, now)


class TestFates:
    def test_a_message_is_acked_when_the_sink_has_confirmed_it(self) -> None:
        bench = Bench()
        batch = bench.hand(bench.a, emission(1), emission(2))
        published = bench.publish()
        assert numbers(published) == [1, 2]
        bench.confirm(published[:1])
        assert bench.a.acked == 0
        bench.confirm(published[1:])
        assert bench.a.acked == batch
        assert bench.a in bench.relay.take_touched().lines

    def test_acks_come_in_order(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        second = bench.hand(bench.a, emission(2))
        one, two = bench.publish()
        bench.confirm([two])
        assert bench.a.acked == 0
        bench.confirm([one])
        assert bench.a.acked == second

    def test_a_duplicate_waits_for_the_first_copy(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1, slot=0))
        second = bench.hand(bench.b, emission(1, slot=1))
        published = bench.publish()
        assert numbers(published) == [1]
        assert bench.b.acked == 0
        bench.confirm(published)
        assert bench.b.acked == second

    def test_a_rejection_is_reported_with_the_ack_to_all_who_handed_the_message_over(self) -> None:
        bench = Bench()
        first = bench.hand(bench.a, emission(1, slot=0), emission(2))
        second = bench.hand(bench.b, emission(1, slot=1))
        one, two = bench.publish()
        bench.relay.home.rejected(bench.outlet, one, "too large", T0)
        assert bench.relay.home.rejections == {"too large": 1}
        assert bench.b.acked == second
        assert bench.b.take_refused() == (RefusedMessage(second, one.id, "too large"),)
        assert bench.b.take_refused() == ()
        assert bench.a.take_refused() == ()
        bench.confirm([two])
        assert bench.a.acked == first
        assert bench.a.take_refused() == (RefusedMessage(first, one.id, "too large"),)

    def test_a_rejected_message_that_is_emitted_again_is_tried_again(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        bench.relay.home.rejected(bench.outlet, bench.publish()[0], "no queue", T0)
        bench.a.take_refused()
        again = bench.hand(bench.a, emission(1))
        assert bench.a.acked < again
        bench.confirm(bench.publish())
        assert bench.a.acked == again
        assert bench.a.take_refused() == ()

    def test_a_message_that_is_rejected_while_it_is_written_is_reported_once(self) -> None:
        bench = Bench()
        batch = bench.hand(bench.a, emission(1))
        (one,) = bench.publish()
        bench.relay.home.sink_is(bench.outlet, False)
        assert bench.outlet.to_spool(10) == [one]
        bench.relay.home.rejected(bench.outlet, one, "no queue", T0)
        bench.relay.home.spooled(bench.outlet, 1)
        assert bench.a.take_refused() == (RefusedMessage(batch, one.id, "no queue"),)
        assert bench.relay.is_idle

    def test_a_late_duplicate_is_acked_at_once_and_goes_nowhere(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        bench.confirm(bench.publish())
        late = bench.hand(bench.b, emission(1, slot=1))
        assert bench.b.acked == late
        assert bench.publish() == []
        tally = bench.relay.tallies()["room", MINE]
        assert (tally.unique, tally.duplicates, tally.last) == (1, 1, T0)

    def test_what_a_lost_line_handed_over_is_published_all_the_same(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        bench.relay.line_lost(bench.a)
        again = bench.line("a")
        batch = bench.hand(again, emission(1))
        bench.confirm(bench.publish())
        assert again.acked == batch
        assert bench.a not in bench.relay.take_touched().lines
        assert bench.relay.is_idle

    def test_a_batch_out_of_turn_is_invalid(self) -> None:
        bench = Bench()
        bench.relay.took(bench.a, 2, [], None, T0)
        assert bench.a.acked == 2
        with pytest.raises(Invalid, match="batch 2 follows 2"):
            bench.relay.took(bench.a, 2, [], None, T0)

    def test_those_that_come_again_on_line_after_line_do_not_pile_up(self) -> None:
        bench = Bench()
        for number in range(100):
            line = bench.line(f"a{number}")
            bench.hand(line, emission(1))
            bench.relay.line_lost(line)
        assert len(bench.relay.window.reserved[message(1).id].batches) <= 17


class TestWindow:
    def settled(self) -> Bench:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        bench.confirm(bench.publish())
        return bench

    def advance(self, bench: Bench, seconds: int, *speaking: InboundLine) -> None:
        """Let time pass; these have nothing, and say so."""
        for second in range(seconds):
            for line in speaking:
                bench.relay.took(line, line.last + 100, [], None, at(second))
            bench.relay.advance(at(second))

    def test_it_is_forgotten_after_a_while(self) -> None:
        bench = self.settled()
        self.advance(bench, 60, bench.a, bench.b)
        assert len(bench.relay.window) == 0

    def test_it_lasts_while_a_sender_holds_something_older(self) -> None:
        bench = self.settled()
        bench.relay.took(bench.b, 10, [], 5.0, T0)
        self.advance(bench, 300, bench.a)
        assert len(bench.relay.window) == 1

    def test_it_lasts_while_a_sender_says_nothing_for_it_may_be_frozen(self) -> None:
        bench = self.settled()
        bench.relay.took(bench.b, 10, [], None, T0)
        self.advance(bench, 300, bench.a)
        assert len(bench.relay.window) == 1
        bench.relay.line_lost(bench.b)
        bench.relay.advance(at(301))
        assert len(bench.relay.window) == 1, "what it may hold is as old as its last word, not as the break"

    def test_it_lasts_while_a_host_is_away_until_it_is_gone(self) -> None:
        bench = self.settled()
        bench.relay.line_lost(bench.b)
        self.advance(bench, 300, bench.a)
        assert len(bench.relay.window) == 1
        bench.relay.host_gone("b")
        bench.relay.advance(at(301))
        assert len(bench.relay.window) == 0

    def test_a_host_that_came_back_before_its_line_broke_is_not_away(self) -> None:
        bench = self.settled()
        again = bench.line("b")
        bench.relay.line_lost(bench.b)
        self.advance(bench, 60, bench.a, again)
        assert bench.relay.senders.is_quiet_here
        assert len(bench.relay.window) == 0

    def test_it_lasts_for_a_relay_that_has_not_come_yet(self) -> None:
        bench = self.settled()
        bench.relay.members_are([HERE, THERE], T0)
        self.advance(bench, 300, bench.a, bench.b)
        assert len(bench.relay.window) == 1
        late = InboundLine(THERE, is_peer=True)
        bench.relay.join(late, None, at(300))
        bench.relay.advance(at(301))
        assert len(bench.relay.window) == 0

    def published(self, bench: Bench, line: InboundLine, copy: Emission, seconds: int) -> int:
        """How many messages are published when this copy comes at that time, after a minute of ticks."""
        for second in range(max(0, seconds - 60), seconds + 1):
            bench.relay.advance(at(second))
        bench.relay.took(line, line.last + 1, [copy], None, at(seconds))
        found = bench.publish()
        bench.confirm(found, at(seconds))
        return len(found)

    def test_equal_messages_without_a_key_are_not_swallowed_while_a_relay_is_absent(self) -> None:
        """One replica, "door open" once a minute; a relay that never comes may hold copies, but none of this one's."""
        bench = Bench()
        bench.relay.members_are([HERE, THERE], T0)
        assert [self.published(bench, bench.a, emission(1), 60 * minute) for minute in range(10)] == [1] * 10

    def test_late_copies_of_another_replica_are_known_however_late_they_are(self) -> None:
        bench = Bench()
        bench.relay.members_are([HERE, THERE], T0)
        for minute in range(3):
            self.published(bench, bench.a, emission(1), 60 * minute)
        late = bench.line(THERE, is_peer=True)
        bench.relay.advance(at(180))
        assert [self.published(bench, late, emission(1, slot=1), 180) for _ in range(3)] == [0, 0, 0]

    def test_a_message_with_a_key_is_known_for_as_long_as_a_relay_is_absent(self) -> None:
        bench = Bench()
        bench.relay.members_are([HERE, THERE], T0)
        keyed = Emission(message(1, MINE, key="1"), SINK, 0, 1)
        assert [self.published(bench, bench.a, keyed, 60 * minute) for minute in range(3)] == [1, 0, 0]

    def test_a_peer_is_told_how_old_what_our_hosts_hold_may_be(self) -> None:
        bench = Bench(BOTH)
        bench.relay.took(bench.b, 10, [], None, at(1))
        bench.relay.took(bench.a, 10, [], None, at(1))
        assert bench.relay.ping(bench.relay.peer(THERE), at(2)).age == 1.0, "since their last word"
        bench.relay.took(bench.a, 11, [], 40.0, at(1))
        assert bench.relay.ping(bench.relay.peer(THERE), at(2)).age == 41.0


class TestExclusive:
    def test_an_earlier_epoch_is_not_listened_to(self) -> None:
        bench = Bench()
        bench.relay.fence("room", MINE, 5)
        batch = bench.hand(bench.a, emission(1, epoch=4, exclusive=True))
        assert bench.a.acked == batch
        assert bench.publish() == []
        assert bench.relay.home.rejections == {"earlier epoch": 1}
        assert [each.why for each in bench.a.take_refused()] == ["earlier epoch: a later task of room has taken over"]

    def test_a_later_epoch_ends_the_one_before_even_if_we_have_not_heard_of_it(self) -> None:
        bench = Bench()
        bench.relay.fence("room", MINE, 5)
        bench.hand(bench.a, emission(1, epoch=6, exclusive=True), emission(2, epoch=5, exclusive=True))
        assert numbers(bench.publish()) == [1]

    def test_others_are_not_asked_for_their_epoch(self) -> None:
        bench = Bench()
        bench.relay.fence("room", MINE, 5)
        bench.hand(bench.a, emission(1, epoch=1))
        assert numbers(bench.publish()) == [1]


class TestSpool:
    def spooled(self, bench: Bench, first: int) -> list[int]:
        written = numbers(bench.outlet.to_spool(1000))
        bench.relay.home.spooled(bench.outlet, first)
        return written

    def test_while_the_sink_is_down_what_it_has_and_what_waits_goes_to_disk_in_order(self) -> None:
        bench = Bench(limits=RelayLimits(window=2))
        batch = bench.hand(bench.a, *(emission(number) for number in range(5)))
        assert numbers(bench.publish()) == [0, 1]
        assert bench.outlet.to_spool(1000) == []
        bench.relay.home.sink_is(bench.outlet, False)
        assert bench.publish() == []
        assert numbers(bench.outlet.to_spool(1000)) == [0, 1, 2, 3, 4]
        assert bench.outlet.to_spool(1000) == [], "one trip at a time"
        assert bench.a.acked == 0
        bench.relay.home.spooled(bench.outlet, 1)
        assert bench.a.acked == batch

    def test_the_spool_goes_first_and_what_the_sink_had_is_not_sent_twice(self) -> None:
        bench = Bench(limits=RelayLimits(window=10))
        bench.hand(bench.a, emission(0))
        first = bench.publish()
        bench.relay.home.sink_is(bench.outlet, False)
        bench.hand(bench.a, emission(1), emission(2))
        assert self.spooled(bench, 1) == [0, 1, 2]
        bench.relay.home.sink_is(bench.outlet, True)
        live = bench.hand(bench.a, emission(3))
        assert bench.outlet.to_spool(1000) == [], "the end is near"
        assert bench.publish() == [], "the spool comes first"
        assert bench.outlet.to_read() == 3
        bench.relay.home.was_read(bench.outlet, [(1, first[0]), (2, message(1, MINE)), (3, message(2, MINE))], T0)
        assert numbers(bench.publish()) == [1, 2]
        bench.confirm([first[0], message(1, MINE)])
        assert bench.outlet.spent == [1, 2]
        assert numbers(bench.publish()) == [3]
        bench.confirm([message(2, MINE), message(3, MINE)])
        assert bench.a.acked == live
        assert bench.relay.is_idle

    def test_room_comes_back_for_equal_messages_of_a_long_outage(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        [sent] = bench.publish()
        bench.relay.home.sink_is(bench.outlet, False)
        self.spooled(bench, 1)
        for second in range(60):
            for line in (bench.a, bench.b):
                bench.relay.took(line, line.last + 100, [], None, at(second))
            bench.relay.advance(at(second))
        bench.relay.took(bench.a, bench.a.last + 1, [emission(1)], 0.0, at(60))
        assert self.spooled(bench, 2) == [1], "the first was forgotten, so this is another"
        bench.relay.home.sink_is(bench.outlet, True)
        bench.confirm([sent])
        bench.relay.home.was_read(bench.outlet, [(2, sent)], at(61))
        bench.confirm(bench.publish())
        assert bench.relay.is_idle
        assert bench.relay.held == 0

    def test_confirmed_while_being_written_is_let_go_of(self) -> None:
        bench = Bench()
        batch = bench.hand(bench.a, emission(0))
        published = bench.publish()
        bench.relay.home.sink_is(bench.outlet, False)
        assert numbers(bench.outlet.to_spool(10)) == [0]
        bench.confirm(published)
        assert bench.a.acked == batch
        bench.relay.home.spooled(bench.outlet, 7)
        assert bench.outlet.spent == [7]
        assert bench.outlet.unread == 0
        assert bench.relay.is_idle
        assert bench.relay.held == 0

    def test_a_full_disk_puts_messages_back_and_stops_lines(self) -> None:
        bench = Bench(limits=RelayLimits(messages=4))
        bench.relay.home.sink_is(bench.outlet, False)
        bench.hand(bench.a, emission(0), emission(1))
        assert len(bench.outlet.to_spool(10)) == 2
        bench.relay.home.spool_refused(bench.outlet)
        assert bench.outlet.to_spool(10) == []
        bench.hand(bench.a, emission(2), emission(3))
        assert bench.a.is_stopped
        assert not bench.b.is_stopped, "it has handed nothing over for this sink"
        assert bench.a.acked == 0
        bench.relay.home.spool_has_room(bench.outlet)
        assert self.spooled(bench, 1) == [0, 1, 2, 3]
        assert not bench.a.is_stopped
        assert bench.relay.held == 0

    def test_a_damaged_record_does_not_keep_a_move_from_finishing(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1, THEIRS), emission(2, THEIRS))
        bench.relay.home.sink_is(bench.outlet, False)
        self.spooled(bench, 1)
        bench.relay.home.sink_is(bench.outlet, True)
        bench.relay.members_are([HERE, THERE], T0)
        bench.relay.map_changed(replace(BOTH, version=2, before=(HERE,)), T0)
        bench.relay.home.spool_lost(bench.outlet, [1], "damaged")
        bench.relay.advance(at(1))
        assert bench.relay.moves.shipments == [], "the other one is still to be published"
        bench.relay.home.was_read(bench.outlet, [(2, emission(2, THEIRS).message)], at(1))
        bench.relay.advance(at(2))
        assert bench.relay.moves.shipments == []
        bench.confirm(bench.publish(), at(2))
        bench.relay.advance(at(3))
        assert [shipment.taker for shipment in bench.relay.moves.shipments] == [THERE]
        assert bench.relay.home.rejections == {"damaged": 1}

    def test_a_damaged_record_of_a_message_that_the_sink_has_under_way_costs_nothing(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        under_way = bench.publish()
        bench.relay.home.sink_is(bench.outlet, False)
        self.spooled(bench, 1)
        bench.relay.home.sink_is(bench.outlet, True)
        bench.relay.home.spool_lost(bench.outlet, [1], "damaged")
        bench.confirm(under_way)
        assert bench.relay.home.rejections == {}
        assert bench.relay.is_idle
        bench.hand(bench.a, emission(2))
        assert numbers(bench.publish()) == [2]

    def test_a_spool_that_could_not_be_opened_holds_up_no_live_message(self) -> None:
        bench = Bench()
        bench.relay.home.recovered(bench.outlet, [message(1, MINE)], T0)
        bench.relay.home.not_recovered(bench.outlet, {("room", MINE): 1})
        bench.hand(bench.a, emission(2))
        assert numbers(bench.publish()) == [2]
        bench.relay.home.recovered(bench.outlet, [message(1, MINE)], T0)
        assert bench.outlet.unread == 1

    def test_what_an_earlier_life_left_is_known_and_published_first(self) -> None:
        bench = Bench()
        left = [message(1, MINE), message(2, MINE)]
        bench.relay.home.recovered(bench.outlet, left, T0)
        again = bench.hand(bench.a, emission(1), emission(2))
        assert bench.a.acked == again
        bench.hand(bench.a, emission(3))
        assert bench.publish() == []
        bench.relay.home.was_read(bench.outlet, [(1, left[0]), (2, left[1])], T0)
        assert numbers(bench.publish()) == [1, 2]
        assert numbers(bench.publish()) == [3]

    def test_what_the_disk_lost_is_counted_and_does_not_block(self) -> None:
        bench = Bench()
        bench.relay.home.recovered(bench.outlet, [message(1, MINE), message(2, MINE)], T0)
        bench.relay.home.was_read(bench.outlet, [(1, message(1, MINE))], T0)
        bench.relay.home.spool_lost(bench.outlet, [2], "damaged on disk")
        bench.confirm(bench.publish())
        assert bench.relay.home.rejections == {"damaged on disk": 1}
        assert bench.relay.is_idle

    def test_an_equal_message_long_after_waits_for_the_first_ones_outcome(self) -> None:
        bench = Bench()
        bench.relay.home.recovered(bench.outlet, [message(1, MINE), message(1, MINE)], T0)
        bench.relay.home.was_read(bench.outlet, [(1, message(1, MINE)), (2, message(1, MINE))], T0)
        assert numbers(bench.publish()) == [1]
        assert bench.publish() == []
        bench.confirm([message(1, MINE)])
        assert numbers(bench.publish()) == [1]


class TestOtherRelays:
    def test_a_message_for_another_is_passed_on_and_acked_when_it_is(self) -> None:
        bench = Bench(BOTH)
        batch = bench.hand(bench.a, emission(1, THEIRS), emission(2, THEIRS))
        peer = bench.relay.peer(THERE)
        handed = bench.relay.hand_over(peer, 10, 2**20, T0)
        assert handed is not None
        assert numbers(each.message for each in handed.emissions) == [1, 2]
        assert bench.publish() == []
        bench.relay.acked(peer, handed.sequence)
        assert bench.a.acked == batch
        assert bench.relay.is_idle

    def test_what_a_peer_has_rejected_is_reported_to_whoever_handed_it_over(self) -> None:
        bench = Bench(BOTH)
        batch = bench.hand(bench.a, emission(1, THEIRS), emission(2, THEIRS))
        peer = bench.relay.peer(THERE)
        first, second = (bench.relay.hand_over(peer, 1, 2**20, T0) for _ in range(2))
        assert first is not None
        assert second is not None
        one = first.emissions[0].message
        bench.relay.acked(peer, second.sequence, [RefusedMessage(first.sequence, one.id, "too large")])
        assert bench.a.acked == batch
        assert bench.a.take_refused() == (RefusedMessage(batch, one.id, "too large"),)

    def test_a_batch_for_a_peer_has_bounded_bytes(self) -> None:
        bench = Bench(replace(BOTH, before=()))
        peer = bench.relay.peer(THERE)
        large = [message(number, THEIRS, payload=bytes(600_000)) for number in range(5)]
        bench.hand(bench.a, *(Emission(one, SINK, 0, 1) for one in large))
        counts = []
        while (handed := bench.relay.hand_over(peer, 10, 2**20, T0)) is not None:
            counts.append(len(handed.emissions))
        assert counts == [2, 2, 1], "the one that reaches the bytes still goes in"

    def test_after_a_break_everything_goes_again_in_order(self) -> None:
        bench = Bench(BOTH)
        for number in range(4):
            bench.hand(bench.a, emission(number, THEIRS))
        peer = bench.relay.peer(THERE)
        assert bench.relay.hand_over(peer, 2, 2**20, T0) is not None
        bench.relay.peer_broke(peer)
        handed = bench.relay.hand_over(peer, 10, 2**20, T0)
        assert handed is not None
        assert (handed.sequence, numbers(each.message for each in handed.emissions)) == (1, [0, 1, 2, 3])

    def test_another_version_of_the_map_is_refused(self) -> None:
        bench = Bench(BOTH)
        assert bench.relay.accepts(2)
        assert not bench.relay.accepts(1)
        assert not bench.relay.accepts(3)
        assert not Bench(None).relay.accepts(0)

    def test_lines_of_peers_are_over_when_the_map_changes(self) -> None:
        bench = Bench(BOTH)
        line = bench.line(THERE, is_peer=True)
        assert bench.relay.map_changed(RelayMap(version=3, nodes=(HERE, THERE)), T0) == [line]
        assert not line.is_open
        bench.relay.took(line, 1, [emission(1)], 0.0, T0)
        assert bench.publish() == []

    def test_an_older_map_is_not_heard(self) -> None:
        bench = Bench(BOTH)
        bench.relay.map_changed(ALONE, T0)
        assert bench.relay.accepts(2)

    def test_without_a_map_messages_wait(self) -> None:
        bench = Bench(None)
        bench.hand(bench.a, emission(1))
        assert bench.publish() == []
        bench.relay.map_changed(ALONE, T0)
        assert numbers(bench.publish()) == [1]

    def test_being_full_for_another_relay_does_not_stop_its_own_line(self) -> None:
        bench = Bench(BOTH, RelayLimits(messages=2))
        theirs = bench.line(THERE, is_peer=True)
        bench.hand(bench.a, emission(1, THEIRS), emission(2, THEIRS))
        bench.relay.took(theirs, 1, [emission(3)], 0.0, T0)
        assert bench.a.is_stopped
        assert not theirs.is_stopped


class TestMoves:
    def test_what_was_not_begun_goes_to_its_new_home_and_what_was_ends_here(self) -> None:
        bench = Bench(limits=RelayLimits(window=1))
        batch = bench.hand(bench.a, emission(1, THEIRS), emission(2, THEIRS), emission(3, MINE))
        begun = bench.publish()
        bench.relay.map_changed(BOTH, T0)
        assert bench.relay.moves.are_going_on
        assert bench.relay.moves.shipments == []
        peer = bench.relay.peer(THERE)
        handed = bench.relay.hand_over(peer, 10, 2**20, T0)
        assert handed is not None
        assert numbers(each.message for each in handed.emissions) == [2]
        bench.confirm(begun)
        [shipment] = bench.relay.moves.shipments
        assert (shipment.taker, shipment.version) == (THERE, 2)
        assert [excerpt.ids for excerpt in shipment.excerpts] == [begun[0].id]
        bench.relay.acked(peer, handed.sequence)
        bench.confirm(bench.publish())
        assert bench.a.acked == batch

    def test_a_taker_that_is_started_again_is_shipped_again(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1, THEIRS))
        begun = bench.publish()
        bench.relay.map_changed(BOTH, T0)
        bench.relay.moves.ship_again(THERE, T0)
        assert bench.relay.moves.shipments == []  # not before what was begun has ended
        bench.confirm(begun)
        [first] = bench.relay.moves.shipments
        bench.relay.moves.ship_again(THERE, T0)
        assert bench.relay.moves.shipments == [first]
        bench.relay.moves.shipments = []
        bench.relay.moves.ship_again(THERE, T0)
        assert bench.relay.moves.shipments == [first]

    def test_who_takes_nothing_over_is_shipped_nothing(self) -> None:
        bench = Bench(RelayMap(version=2, nodes=(HERE, THERE), before=(THERE,)))
        bench.relay.take_shipment(self.shipment(), T0)
        bench.relay.moves.ship_again(THERE, T0)
        assert (bench.relay.moves.shipments, bench.relay.moves.are_going_on) == ([], False)

    def test_a_copy_of_what_was_begun_waits_for_it_here(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1, THEIRS))
        begun = bench.publish()
        bench.relay.map_changed(BOTH, T0)
        copy = bench.hand(bench.b, emission(1, THEIRS, slot=1))
        assert bench.relay.peer(THERE).is_idle
        bench.confirm(begun)
        assert bench.b.acked == copy

    def taker(self) -> Bench:
        bench = Bench(None)
        bench.relay.map_changed(RelayMap(version=2, nodes=(HERE, THERE), before=(THERE,)), T0)
        return bench

    def shipment(self, *emissions: Emission, floor: int = 0) -> Shipment:
        giver = Relay(THERE, T0)
        giver.map_changed(RelayMap(version=1, nodes=(THERE,)), T0)
        line = InboundLine("host")
        giver.join(line, None, T0)
        giver.took(line, 1, emissions, 0.0, T0)
        if floor:
            giver.fence("room", MINE, floor)
        outlet = giver.home.outlet(SINK)
        giver.home.confirmed(outlet, outlet.to_publish(100), T0)
        giver.map_changed(RelayMap(version=2, nodes=(HERE, THERE), before=(THERE,)), T0)
        return giver.moves.shipments[0]

    def test_the_new_home_holds_messages_until_it_knows_which_have_been(self) -> None:
        bench = self.taker()
        batch = bench.hand(bench.a, emission(1), emission(2))
        assert bench.publish() == []
        assert bench.relay.take_shipment(self.shipment(emission(1)), T0)
        published = bench.publish()
        assert numbers(published) == [2]
        bench.confirm(published)
        assert bench.a.acked == batch
        assert not bench.relay.moves.are_going_on

    def test_epochs_move_too(self) -> None:
        bench = self.taker()
        assert bench.relay.take_shipment(self.shipment(floor=9), T0)
        bench.hand(bench.a, emission(1, epoch=8, exclusive=True))
        assert bench.relay.home.rejections == {"earlier epoch": 1}

    def test_what_was_shipped_lasts_for_a_relay_that_was_cut_off_from_the_giver(self) -> None:
        bench = self.taker()
        bench.relay.members_are([HERE, THERE, NodeId("third")], T0)
        bench.line(THERE, is_peer=True)
        shipped = replace(self.shipment(emission(1)), age=100.0)
        for second in range(40):
            bench.relay.advance(at(second / 2))
        assert bench.relay.take_shipment(shipped, at(20))
        for second in range(20, 300):
            bench.relay.advance(at(second))
        late = bench.line("third", is_peer=True)
        bench.relay.took(late, 1, [emission(1, slot=1)], 200.0, at(300))
        assert late.acked == 1
        assert bench.publish() == []

    def test_it_does_not_wait_for_ever(self) -> None:
        bench = self.taker()
        bench.hand(bench.a, emission(1))
        bench.relay.advance(at(29))
        assert bench.publish() == []
        bench.relay.advance(at(30))
        assert numbers(bench.publish()) == [1]
        assert bench.relay.moves.cut_short == 1

    def test_it_does_not_wait_for_the_dead(self) -> None:
        bench = self.taker()
        bench.relay.members_are([HERE, THERE], T0)
        bench.hand(bench.a, emission(1))
        bench.relay.members_are([HERE], T0)
        assert numbers(bench.publish()) == [1]

    def test_a_shipment_of_another_version_is_refused(self) -> None:
        bench = self.taker()
        bench.relay.map_changed(RelayMap(version=3, nodes=(HERE, THERE)), T0)
        assert not bench.relay.take_shipment(self.shipment(), T0)

    def test_a_gone_resource_is_let_go_of_when_nothing_of_it_is_left(self) -> None:
        bench = Bench()
        bench.hand(bench.a, emission(1))
        bench.relay.drop("room", MINE)
        assert ("room", MINE) in bench.relay.tallies()
        bench.confirm(bench.publish())
        bench.relay.drop("room", MINE)
        assert ("room", MINE) not in bench.relay.tallies()
