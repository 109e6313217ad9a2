"""The relay's core: where each message goes that is handed over, and when it is acked.

It knows no socket, disk or broker and reads no clock. Its caller reports what happened and when, asks `take_touched`
where something is to be done, does it (`InboundLine.acked`, `Outlet.to_publish`, `Outlet.to_spool`, `Outlet.to_read`,
`PeerRelay.take`), and reports how it went. The same calls give the same answers, so that the simulator can try them by
the thousand.

A message meets its copies at the relay that the map names; what becomes of it there is in `home`. Only when that is
known are its hand-overs acked, so its sender keeps it until it is safe. Elsewhere a message is passed on, and acked
when its home has acked it. An ack says which messages were rejected.

When the map changes, what was not begun goes to its new home at once; what was begun ends here. What is awaited from
the homes before, and owed to those that follow, is in `moves`.

A line whose messages find no room should not be read until there is room again; `InboundLine.is_stopped` says so. What
is passed on has room of its own, so that two relays that are full of messages for each other still take them in.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from rota.model.ids import Instant, NodeId
from rota.relay.core.dedup import DedupWindow, Tally
from rota.relay.core.held import (
    Emission,
    HeldMessage,
    InboundBatch,
    InboundLine,
    MemoryBudget,
    RefusedMessage,
    RelayLimits,
)
from rota.relay.core.held_phases import AFTER_HANDED_ON
from rota.relay.core.home import Home
from rota.relay.core.moves import RelayMoves, Shipment
from rota.relay.core.peers import HandOver, PeerRelay
from rota.relay.core.records import RelayMap
from rota.relay.core.senders import Senders, earliest
from rota.relay.core.touched import Touched, Touches

LIMITS = RelayLimits()


class Relay:
    """One node's relay."""

    def __init__(
        self, node: NodeId, now: Instant, limits: RelayLimits = LIMITS, window: DedupWindow[HeldMessage] | None = None
    ) -> None:
        self.node, self.limits = node, limits
        self.window: DedupWindow[HeldMessage] = DedupWindow(now) if window is None else window
        self.peers: dict[NodeId, PeerRelay] = {}
        self.senders = Senders()
        self.passed_on = 0
        self._touches = Touches()
        self.moves = RelayMoves(node, limits.hold, self.window, self.senders)
        self._places, self._place = self.moves.places, self.moves.place
        self.home = Home(node, limits, self.window, self.moves, self._touches)
        self._held_back: deque[HeldMessage] = deque()
        self._backroom = MemoryBudget.of(self.limits)
        self._members: frozenset[NodeId] = frozenset()

    # Lines

    def join(self, line: InboundLine, age: float | None, now: Instant) -> None:
        """A sender opens a line, to hand messages over. `age`: as in `took`."""
        self.senders.join(line, age, now)

    def took(
        self, line: InboundLine, sequence: int, emissions: Sequence[Emission], age: float | None, now: Instant
    ) -> None:
        """A batch came on a line.

        The oldest message that its sender may hold and has no ack for was emitted `age` seconds ago; None: it holds
        none. Senders report this at least each second, with an empty batch if they have nothing else: as long as one
        holds a copy of a message, its id must be remembered.
        """
        if not line.is_open:
            return  # it came on a line that is over; its sender hands it over again
        batch = line.take(sequence, len(emissions))
        line.hear(age, now)
        for emission in emissions:
            self._route(emission, batch, line.since, now)
        self._touches.go_on(line)

    def line_lost(self, line: InboundLine) -> None:
        """A line broke. What it handed over goes on; its sender reconnects and sends again what it has no ack for, or
        is gone."""
        self.senders.lost(line)

    def host_gone(self, sender: str) -> None:
        """A host will not come back, and neither will what it held."""
        self.senders.host_gone(sender)

    # The map

    def members_are(self, nodes: Iterable[NodeId], now: Instant) -> None:
        """The nodes that have relays. Each opens a line to every home, also if it has nothing to pass on.

        A relay without a line yet may hold messages that others have sent, so the window must cover it. A relay that is
        gone is not waited for, nothing is shipped to it, and what it held will not come.
        """
        members = frozenset(nodes) - {self.node}
        for node in sorted(self._members - members):
            self._stop_waiting([node], now)
            self.moves.is_taker_gone(node)
        self._members = members
        self._expect_peers(now)

    @property
    def map(self) -> RelayMap | None:
        """The map that this relay uses."""
        return self.moves.map

    def accepts(self, version: int) -> bool:
        """Does this relay use that version of the map? Hand-overs of relays that use another version are refused."""
        return self.map is not None and self.map.version == version

    def map_changed(self, relay_map: RelayMap, now: Instant) -> list[InboundLine]:
        """Use this map from now on. Returns the peers' lines, which end here because they belong to the old version."""
        if self.map is not None and relay_map.version <= self.map.version:
            return []
        over = [line for line in self.senders.lines if line.is_peer]
        for line in over:
            self.line_lost(line)
        self.moves.follow(relay_map, now)
        self._expect_peers(now)
        self._give_back(now)
        self.moves.plan(now)
        return over

    def take_shipment(self, shipment: Shipment, now: Instant) -> bool:
        """Take in what the giver of resources knows of them; False if it is for another version of the map."""
        if not self.accepts(shipment.version):
            return False
        self.window.take_in(shipment.excerpts, now)
        self.senders.absent_since(Instant(now - shipment.age))
        for kind, resource, epoch in shipment.floors:
            self.fence(kind, resource, epoch)
        self._stop_waiting([shipment.giver], now)
        return True

    # Exclusive resources

    def fence(self, kind: str, resource: str, epoch: int) -> None:
        """The resource's assignment has this epoch: messages of exclusive tasks of earlier epochs are refused from now
        on."""
        place = self._place(kind, resource)
        place.floor = max(place.floor, epoch)

    # Other relays

    def peer(self, node: NodeId) -> PeerRelay:
        """Another relay."""
        peer = self.peers.get(node)
        if peer is None:
            peer = self.peers[node] = PeerRelay(node, MemoryBudget.of(self.limits), window=self.limits.window)
        return peer

    def hand_over(self, peer: PeerRelay, most: int, most_bytes: int, now: Instant) -> HandOver | None:
        """The next batch for a peer, if there is something for it, and room."""
        return peer.take(most, most_bytes, self.age(peer, now))

    def ping(self, peer: PeerRelay, now: Instant) -> HandOver:
        """A batch without messages, for a peer that has got none for a second."""
        return peer.ping(self.age(peer, now))

    def age(self, peer: PeerRelay, now: Instant) -> float | None:
        """How old the oldest message may be that a peer still gets from this node; None if it can get none."""
        since = earliest(self._held_here(), peer.since)
        return None if since is None else max(0.0, now - since)

    def acked(self, peer: PeerRelay, sequence: int, refused: Iterable[RefusedMessage] = ()) -> None:
        """A peer has acked all batches up to this one, and rejected these of their messages."""
        reasons = {(each.sequence, each.id): each.why for each in refused}
        for number, batch in peer.acked(sequence):
            self.passed_on += len(batch)
            for held in batch:
                held.phase = AFTER_HANDED_ON[held.phase]
                self._touches.finish(held, reasons.get((number, held.emission.message.id)) if reasons else None)
        self._touches.resume(peer.budget)
        self._touches.peer(peer)

    def peer_broke(self, peer: PeerRelay) -> None:
        """The line to a peer broke, or the peer uses another map: everything without an ack is sent again."""
        peer.broke()
        self._touches.peer(peer)

    # Time

    def advance(self, now: Instant) -> None:
        """Time has passed: forget old messages, and stop waiting for what is overdue."""
        self.window.advance(now, earliest(self.senders.since(), self._held_here()))
        self._stop_waiting(self.moves.late(now), now)
        self.home.write_off(now)

    def take_touched(self) -> Touched:
        """The places where something is to be done, each once; a second call does not return them again."""
        return self._touches.take()

    @property
    def is_idle(self) -> bool:
        """Do all messages have their outcome, and are all spools empty?"""
        return (
            not self._held_back
            and all(outlet.is_idle for outlet in self.home.outlets.values())
            and all(peer.is_idle for peer in self.peers.values())
        )

    @property
    def is_safe(self) -> bool:
        """Would nothing be lost if this relay ended now? What is in spools is safe there."""
        return (
            not self._held_back
            and all(outlet.is_safe for outlet in self.home.outlets.values())
            and all(peer.is_idle for peer in self.peers.values())
        )

    @property
    def held(self) -> int:
        """Messages in memory."""
        return sum(budget.messages for budget in self._budgets())

    @property
    def elsewhere(self) -> int:
        """Messages in memory that other relays should get, or that are held back."""
        return self._backroom.messages + sum(peer.budget.messages for peer in self.peers.values())

    def tallies(self) -> Mapping[tuple[str, str], Tally]:
        """What was counted of each resource."""
        return self.window.tallies

    def drop(self, kind: str, resource: str) -> None:
        """A resource is gone: let go of its figures, unless something of it is on its way, or its epoch matters."""
        place = self._places.get((kind, resource))
        if place is not None and not place.unpublished and not place.floor:
            del self._places[kind, resource]
            self.window.drop_tally(kind, resource)

    # Inside: who may hold messages

    def _held_here(self) -> Instant | None:
        """Since when hosts of this node may hold messages, or this relay holds some back."""
        return earliest(self.senders.since_here(), self._held_back[0].since if self._held_back else None)

    def _expect_peers(self, now: Instant) -> None:
        """Update which peers may have messages for this relay: all of them while the map names it, otherwise none."""
        is_home = self.map is not None and self.node in self.map.nodes
        self.senders.expect_peers(self._members if is_home else (), now)

    # Inside: where a message goes

    def _route(self, emission: Emission, batch: InboundBatch, since: Instant, now: Instant) -> None:
        message = emission.message
        place = self._places.get((message.kind, message.resource)) or self._place(message.kind, message.resource)
        if place.home == self.node:
            if place.giver is None or place.giver not in self.moves.waited_for:
                self.home.arrive(emission, place, batch, since, now)
                return
        elif place.moves_to is not None and (first := self.window.reserved.get(message.id)) is not None:
            first.join(batch, emission.slot)  # the first copy has no outcome yet, so this one waits here too
            return
        self._send_on(HeldMessage(emission, place, batch, since))

    def _send_on(self, held: HeldMessage) -> None:
        """Route a message that has its home elsewhere, or whose home does not accept it yet."""
        home_node = held.place.home
        if home_node is None or home_node == self.node:
            self._held_back.append(held)
            self._backroom.add(held)
            budget = self._backroom
        else:
            peer = self.peer(NodeId(home_node))
            peer.put(held)
            self._touches.peer(peer)
            budget = peer.budget
        if budget.is_full:
            for batch in held.batches:
                self._touches.block(batch.line, budget)

    def _again(self, held: HeldMessage, now: Instant) -> None:
        """Route a message afresh."""
        place = held.place
        if place.home == self.node and place.giver not in self.moves.waited_for:
            held.phase = AFTER_HANDED_ON[held.phase]
            for batch in held.batches:
                self.home.arrive(held.emission, place, batch, held.since, now)
        else:
            self._send_on(held)

    # Inside: moves

    def _give_back(self, now: Instant) -> None:
        """Route everything afresh, in order, that neither a sink nor a spool has."""
        wandering = list(self.home.take_back())
        for peer in self.peers.values():
            wandering += peer.take_all()
        wandering += self._take_held_back()
        for held in wandering:
            self._again(held, now)
        for budget in self._budgets():
            self._touches.resume(budget)

    def _take_held_back(self) -> list[HeldMessage]:
        released = list(self._held_back)
        self._held_back.clear()
        for held in released:
            self._backroom.free(held)
        return released

    def _stop_waiting(self, givers: Iterable[str], now: Instant) -> None:
        """Expect no shipments from these givers any more: messages held back for them may go."""
        if self.moves.stop_waiting(givers):
            for held in self._take_held_back():
                self._again(held, now)
            self._touches.resume(self._backroom)

    # Inside: room

    def _budgets(self) -> list[MemoryBudget]:
        outlets, peers = self.home.outlets.values(), self.peers.values()
        return [self._backroom, *(outlet.budget for outlet in outlets), *(peer.budget for peer in peers)]
