"""The relay's core: what becomes of each message that is handed over, and when it is acked.

It knows no socket, disk or broker and reads no clock. Whoever runs it says what happened and when, asks `take_touched`
where something is to be done, does it (`Line.acked`, `Outlet.to_publish`, `Outlet.to_spool`, `Outlet.to_read`,
`Peer.take`), and says how it went. The same calls give the same answers, so that the simulator can try them by the
thousand.

A message meets its copies at the relay that the map names. There the first copy is published and the others wait for
its fate: confirmed by the sink, on disk, or rejected. Only then are their hand-overs acked, so whoever sent them keeps
them until they are safe. Elsewhere a message is passed on, and acked when its home has acked it. An ack says which
messages were rejected. Those are not remembered: one that is emitted again is tried again.

When the map changes, what was not begun goes to its new home at once; what was begun ends here. What is awaited from
the homes before, and owed to those that follow, is in `moves`.

A line whose messages find no room should not be read until there is room again; `Line.is_stopped` says so. What is
passed on has room of its own, so that two relays that are full of messages for each other still take them in.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rota.model.ids import Instant, NodeId
from rota.model.relay import RelayMap
from rota.sinks.port import Message
from rota.workloads.resources.dedup import Tally, Window
from rota.workloads.resources.relay.held import Batch, Budget, Emission, Held, Line, Place, Refused
from rota.workloads.resources.relay.held_phases import AFTER_HANDED_ON, HeldPhase
from rota.workloads.resources.relay.moves import Moves, Shipment
from rota.workloads.resources.relay.outlet import Outlet
from rota.workloads.resources.relay.peers import HandOver, Peer
from rota.workloads.resources.relay.senders import Senders, earliest
from rota.workloads.resources.relay.touched import Touched, Touches


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a relay has in its hands at most."""

    messages: int = 50_000
    """In memory, for each sink and each other relay."""

    bytes: int = 64 * 2**20
    """As `messages`."""

    window: int = 1_000
    """Under way to a sink, or to another relay."""

    hold: float = 30.0
    """Seconds for which messages are held back for a planned move, at most."""


LIMITS = Limits()

EARLIER_EPOCH = "earlier epoch"
"""Why a message of an exclusive task is refused when a later one has taken over."""


class Relay:
    """One node's relay."""

    def __init__(self, node: NodeId, now: Instant, limits: Limits = LIMITS, window: Window[Held] | None = None) -> None:
        self.node, self.limits = node, limits
        self.window: Window[Held] = Window(now) if window is None else window
        self.outlets: dict[str, Outlet] = {}
        self.peers: dict[NodeId, Peer] = {}
        self.senders = Senders()
        self.rejections: Counter[str] = Counter()
        """Messages that can never be delivered, by reason."""

        self.published = self.spooled_count = self.passed_on = 0
        self._places: dict[tuple[str, str], Place] = {}
        self.moves = Moves(node, limits.hold, self.window, self.senders, self._places)
        self._held_back: deque[Held] = deque()
        self._backroom = self._budget()
        self._has_lost = False
        """Do places count messages as unpublished that a spool has lost?"""

        self._members: frozenset[NodeId] = frozenset()
        self._touches = Touches()

    # Lines

    def join(self, line: Line, age: float | None, now: Instant) -> None:
        """Somebody will hand messages over. `age`: as in `took`."""
        self.senders.join(line, age, now)

    def took(self, line: Line, sequence: int, emissions: Sequence[Emission], age: float | None, now: Instant) -> None:
        """A batch came on a line.

        The oldest message that its sender may hold and has no ack for was emitted `age` seconds ago; None: it holds
        none. Senders tell this at least each second, with an empty batch if they have nothing else: as long as one
        holds a copy of a message, its id must be remembered.
        """
        if not line.is_open:
            return  # it came on a line that is over; its sender hands it over again
        batch = line.take(sequence, len(emissions))
        line.hear(age, now)
        for emission in emissions:
            self._route(emission, batch, line.since, now)
        self._go_on(line)

    def line_lost(self, line: Line) -> None:
        """A line broke. What it handed over goes on; its sender comes back with what it has no ack for, or is gone."""
        self.senders.lost(line)

    def host_gone(self, sender: str) -> None:
        """A host will not come back, and neither will what it held."""
        self.senders.host_gone(sender)

    # The map

    def members_are(self, nodes: Iterable[NodeId], now: Instant) -> None:
        """The nodes that have relays. Each opens a line to every home, also if it has nothing to pass on.

        One that has not done so may hold messages that others have sent, and the window lasts for it. One that is gone
        is not waited for, nothing is shipped to it, and what it held will not come.
        """
        members = frozenset(nodes) - {self.node}
        for node in sorted(self._members - members):
            self._stop_waiting([node], now)
            self.moves.is_taker_gone(node)
        self._members = members
        self._expect_peers(now)

    @property
    def map(self) -> RelayMap | None:
        """The map that this relay goes by."""
        return self.moves.map

    def accepts(self, version: int) -> bool:
        """Does this relay go by that version of the map? Hand-overs of others are refused."""
        return self.map is not None and self.map.version == version

    def map_changed(self, relay_map: RelayMap, now: Instant) -> list[Line]:
        """Go by this map from now on. Returns the peers' lines, which are over: they go by another version."""
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
        """Know from now on what the giver knows; False if it is for another version of the map."""
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
        """The resource's assignment has this epoch: exclusive tasks of earlier ones are not listened to any more."""
        place = self._place(kind, resource)
        place.floor = max(place.floor, epoch)

    # Sinks and spools

    def outlet(self, sink: str) -> Outlet:
        """The outlet for a sink, opened if need be."""
        outlet = self.outlets.get(sink)
        if outlet is None:
            outlet = self.outlets[sink] = Outlet(sink, self._budget(), window=self.limits.window)
            self._touches.outlet(outlet)
        return outlet

    def recovered(self, outlet: Outlet, messages: Iterable[Message], now: Instant) -> None:
        """An earlier life left these in the spool: they are safe, and will be published from there."""
        for message in messages:
            place = self._place(message.kind, message.resource)
            place.unpublished += 1
            outlet.unread += 1
            self.window.settle(message.id, place.tally, None)
        self._touches.outlet(outlet)

    def not_recovered(self, outlet: Outlet, counts: Mapping[tuple[str, str], int]) -> None:
        """The spool could not be opened after all: so many messages of resources, by kind and id, are told again later.

        They stay known, for whoever sent them was acked. What is live does not wait for them.
        """
        for (kind, resource), count in counts.items():
            self._place(kind, resource).unpublished -= count
            outlet.unread -= count
        self._touches.outlet(outlet)

    def sink_is(self, outlet: Outlet, is_up: bool) -> None:
        """A sink works, or does not."""
        outlet.is_up = is_up
        self._touches.outlet(outlet)

    def confirmed(self, outlet: Outlet, messages: Iterable[Message], now: Instant) -> None:
        """The sink has these."""
        for message in messages:
            if (held := outlet.outcome(message.id)) is not None:
                self.published += 1
                if held.sequence is None:
                    self._settle(held)
                self._has_outcome(held.place, now)
        self._has_room(outlet)

    def rejected(self, outlet: Outlet, message: Message, why: str, now: Instant) -> None:
        """The sink can never deliver this one. It is counted, and reported to all who handed over a copy.

        Nobody can be told of one that was in the spool: its hand-overs were acked when it was safe there.
        """
        if (held := outlet.outcome(message.id)) is not None:
            self.rejections[why] += 1
            if held.sequence is None:
                self._refuse(held, why)
            self._has_outcome(held.place, now)
        self._has_room(outlet)

    def spooled(self, outlet: Outlet, first: int) -> None:
        """The spool has on disk what it was asked to write, numbered from `first`."""
        for held in outlet.spooled(first):
            self.spooled_count += 1
            if held.phase is not HeldPhase.DONE:  # else the sink was first
                self._settle(held)
        self._has_room(outlet)

    def spool_refused(self, outlet: Outlet) -> None:
        """The disk is full, or fails: messages wait in memory, and their lines with them."""
        outlet.spool_refused()

    def spool_has_room(self, outlet: Outlet) -> None:
        """The disk may be tried again."""
        outlet.spool_has_room()
        self._touches.outlet(outlet)

    def was_read(self, outlet: Outlet, records: Iterable[tuple[int, Message]], now: Instant) -> None:
        """The spool has read these back, in order."""
        outlet.was_read([(sequence, self._from_spool(outlet, message, now)) for sequence, message in records])
        self._touches.outlet(outlet)

    def spool_lost(self, outlet: Outlet, sequences: Sequence[int], why: str) -> None:
        """The spool has lost these; they are counted, and nothing more can be done for them.

        Of which resources they were is not known: `advance` finds out by what is left.
        """
        if count := outlet.lost(sequences):
            self.rejections[why] += count
            self._has_lost = True
        self._touches.outlet(outlet)

    # Other relays

    def peer(self, node: NodeId) -> Peer:
        """Another relay."""
        peer = self.peers.get(node)
        if peer is None:
            peer = self.peers[node] = Peer(node, self._budget(), window=self.limits.window)
        return peer

    def hand_over(self, peer: Peer, most: int, most_bytes: int, now: Instant) -> HandOver | None:
        """The next batch for a peer, if there is something for it, and room."""
        return peer.take(most, most_bytes, self.age(peer, now))

    def ping(self, peer: Peer, now: Instant) -> HandOver:
        """A batch without messages, for a peer that has got none for a second."""
        return peer.ping(self.age(peer, now))

    def age(self, peer: Peer, now: Instant) -> float | None:
        """How old the oldest message may be that a peer still gets from this node; None if it can get none."""
        since = earliest(self._held_here(), peer.since)
        return None if since is None else max(0.0, now - since)

    def acked(self, peer: Peer, sequence: int, refused: Iterable[Refused] = ()) -> None:
        """A peer has acked what it was handed, up to this batch; of these messages it says that they were rejected."""
        reasons = {(each.sequence, each.id): each.why for each in refused}
        for number, batch in peer.acked(sequence):
            self.passed_on += len(batch)
            for held in batch:
                held.phase = AFTER_HANDED_ON[held.phase]
                self._finish(held, reasons.get((number, held.emission.message.id)) if reasons else None)
        self._resume(peer.budget)
        self._touches.peer(peer)

    def peer_broke(self, peer: Peer) -> None:
        """The way to a peer broke, or it went by another map: all goes again."""
        peer.broke()
        self._touches.peer(peer)

    # Time

    def advance(self, now: Instant) -> None:
        """Time has passed: forget what is old, and wait no longer than we should."""
        self.window.advance(now, earliest(self.senders.since(), self._held_here()))
        self._stop_waiting(self.moves.late(now), now)
        if self._has_lost and not any(outlet.unread for outlet in self.outlets.values()):
            self._write_off(now)

    def take_touched(self) -> Touched:
        """Where something is to be done, each once; it is not told again."""
        return self._touches.take()

    @property
    def is_idle(self) -> bool:
        """Has everything its fate, and is nothing left in a spool?"""
        return (
            not self._held_back
            and all(outlet.is_idle for outlet in self.outlets.values())
            and all(peer.is_idle for peer in self.peers.values())
        )

    @property
    def is_safe(self) -> bool:
        """Would nothing be lost if this relay ended now? What is in spools is safe there."""
        return (
            not self._held_back
            and all(outlet.is_safe for outlet in self.outlets.values())
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
        """Since when hosts of this node may hold messages, or we hold some back."""
        return earliest(self.senders.since_here(), self._held_back[0].since if self._held_back else None)

    def _expect_peers(self, now: Instant) -> None:
        """Other relays have messages for us only while the map names us."""
        is_home = self.map is not None and self.node in self.map.nodes
        self.senders.expect_peers(self._members if is_home else (), now)

    # Inside: where a message goes

    def _route(self, emission: Emission, batch: Batch, since: Instant, now: Instant) -> None:
        message = emission.message
        place = self._places.get((message.kind, message.resource)) or self._place(message.kind, message.resource)
        if place.home == self.node:
            if place.giver is None or place.giver not in self.moves.waited_for:
                self._arrive(emission, place, batch, since, now)
                return
        elif place.moves_to is not None and (first := self.window.reserved.get(message.id)) is not None:
            first.join(batch, emission.slot)  # we are not done with the first copy, so this one waits here too
            return
        self._send_on(Held(emission, place, batch, since))

    def _arrive(self, emission: Emission, place: Place, batch: Batch, since: Instant, now: Instant) -> None:
        """A message at its home."""
        message_id, tally, window = emission.message.id, place.tally, self.window
        tally.last = now
        if emission.is_exclusive:
            if emission.epoch < place.floor:
                self.rejections[EARLIER_EPOCH] += 1
                batch.refuse(message_id, f"{EARLIER_EPOCH}: a later task of {place.tally.kind} has taken over")
                self._done(batch)
                return
            place.floor = emission.epoch
        first = window.reserved.get(message_id)
        if first is not None:
            tally.duplicates += 1
            first.join(batch, emission.slot)
        elif window.is_known(message_id, emission.slot, has_key=bool(emission.message.key)):
            tally.duplicates += 1
            self._done(batch)
        else:
            tally.unique += 1
            held = window.reserved[message_id] = Held(emission, place, batch, since)
            place.unpublished += 1
            outlet = self.outlets.get(emission.sink) or self.outlet(emission.sink)
            outlet.put(held)
            if not outlet.is_touched:
                self._touches.outlet(outlet)
            if outlet.budget.is_full:
                self._block(batch.line, outlet.budget)

    def _send_on(self, held: Held) -> None:
        """A message that is not for us, or not yet."""
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
                self._block(batch.line, budget)

    def _again(self, held: Held, now: Instant) -> None:
        """Find a message's way afresh."""
        place = held.place
        if place.home == self.node and place.giver not in self.moves.waited_for:
            held.phase = AFTER_HANDED_ON[held.phase]
            for batch in held.batches:
                self._arrive(held.emission, place, batch, held.since, now)
        else:
            self._send_on(held)

    def _place(self, kind: str, resource: str) -> Place:
        place = self._places.get((kind, resource))
        if place is None:
            place = self._places[kind, resource] = Place(self.window.tally(kind, resource))
            self.moves.locate(place)
        return place

    def _from_spool(self, outlet: Outlet, message: Message, now: Instant) -> Held:
        # Which replica sent it does not matter any more: it was remembered when it was spooled.
        place = self._place(message.kind, message.resource)
        return Held(Emission(message, outlet.sink, slot=0, epoch=0), place, None, now, HeldPhase.READ_BACK)

    # Inside: moves

    def _give_back(self, now: Instant) -> None:
        """Everything that was not begun finds its way afresh, in order."""
        wandering: list[Held] = []
        for outlet in self.outlets.values():
            for held in outlet.take_back(lambda held: held.place.home != self.node):
                self.window.give_back(held.emission.message.id)
                held.place.unpublished -= 1
                held.place.tally.unique -= 1
                wandering.append(held)
        for peer in self.peers.values():
            wandering += peer.take_all()
        wandering += self._take_held_back()
        for held in wandering:
            self._again(held, now)
        for budget in self._budgets():
            self._resume(budget)

    def _take_held_back(self) -> list[Held]:
        released = list(self._held_back)
        self._held_back.clear()
        for held in released:
            self._backroom.free(held)
        return released

    def _stop_waiting(self, givers: Iterable[str], now: Instant) -> None:
        """Nothing more is expected of these: what was held back for them may go."""
        if self.moves.stop_waiting(givers):
            for held in self._take_held_back():
                self._again(held, now)
            self._resume(self._backroom)

    def _has_outcome(self, place: Place, now: Instant) -> None:
        """The sink is done with a message of a resource."""
        place.unpublished -= 1
        if place.moves_to is not None:
            self.moves.has_outcome(place, now)

    def _write_off(self, now: Instant) -> None:
        """All spools are read: what is neither there nor in memory is lost, and nothing waits for it any more."""
        self._has_lost = False
        left = Counter(held.place for outlet in self.outlets.values() for held in outlet.unpublished)
        for place in self._places.values():
            for _ in range(place.unpublished - left[place]):
                self._has_outcome(place, now)

    # Inside: fates and acks

    def _settle(self, held: Held) -> None:
        """A message has its fate: remember it, and let all who wait for it know."""
        emission = held.emission
        self.window.settle(emission.message.id, held.place.tally, None if held.is_seconded else emission.slot)
        self._finish(held)

    def _refuse(self, held: Held, why: str) -> None:
        """A message can never be delivered: let all who wait for it know, and do not remember it."""
        self.window.give_back(held.emission.message.id)
        self._finish(held, why)

    def _finish(self, held: Held, refusal: str | None = None) -> None:
        for batch in held.batches:
            if refusal is not None:
                batch.refuse(held.emission.message.id, refusal)
            self._done(batch)
        held.batches = []

    def _done(self, batch: Batch) -> None:
        batch.left -= 1
        if not batch.left:
            self._go_on(batch.line)

    def _go_on(self, line: Line) -> None:
        if line.advance() and line.is_open:
            self._touches.line(line)

    # Inside: room

    def _budget(self) -> Budget:
        return Budget(self.limits.messages, self.limits.bytes)

    def _budgets(self) -> list[Budget]:
        outlets, peers = self.outlets.values(), self.peers.values()
        return [self._backroom, *(outlet.budget for outlet in outlets), *(peer.budget for peer in peers)]

    def _block(self, line: Line, budget: Budget) -> None:
        if line.is_open and budget not in line.blockers:
            line.blockers.append(budget)
            budget.blocked.append(line)
            self._touches.line(line)

    def _has_room(self, outlet: Outlet) -> None:
        self._resume(outlet.budget)
        self._touches.outlet(outlet)

    def _resume(self, budget: Budget) -> None:
        """Let lines be read again, if there is room enough."""
        if not budget.blocked or not budget.is_low:
            return
        for line in budget.blocked:
            line.blockers.remove(budget)
            self._touches.line(line)
        budget.blocked = []
