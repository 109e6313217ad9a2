"""Hosts and relays in the simulator, around the relay's own decisions.

They do in virtual time what processes do with real sockets, disks and brokers: carry out what the core asks for, and
report the outcome to it. Brokers and disks are in `sim.outside`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from rota.model.ids import Instant, NodeId
from rota.relay.core.core import Relay
from rota.relay.core.dedup import DedupWindow, Ids
from rota.relay.core.held import Emission, HeldMessage, InboundLine, MemoryBudget, RefusedMessage, RelayLimits
from rota.relay.core.moves import Shipment
from rota.relay.core.outbox import Outbox, Outgoing
from rota.relay.core.outlet import Outlet
from rota.relay.core.peers import PeerRelay
from rota.relay.core.records import RelayMap
from rota.sim.outside import Disk, Outcome, SimBroker, SimConnection, SimSink, in_process
from rota.sim.world import Machine, SimProcess, World
from rota.sinks.port import Message

SINKS = ("east", "west")
LIMITS = RelayLimits(messages=120, window=25)
OUTBOX = 60
"""Messages that a host keeps at most; tasks wait while it is full."""

OUTBOX_BYTES = 1_000_000
"""Never reached: only their number limits them here."""

NEAR = 20
BATCH = 8
UNACKED = 4
"""Batches of a host that are under way at most."""

BEFORE = 100.0
"""Seconds for which a disturbance may still show: a relay that died with a full spool drains it when it is back."""

KIND = "room"
WALL = datetime(2026, 1, 1, tzinfo=UTC)


class Safeguards:
    """The parts of a relay; `relay.sim.unguarded` has variants with a safeguard left out."""

    relay: type[Relay] = Relay
    outlet: type[Outlet] = Outlet
    window: type[DedupWindow[HeldMessage]] = DedupWindow

    def publishing(self, core: Relay, outlet: Outlet, messages: Sequence[Message]) -> None:
        """Messages are about to be handed to the sink."""

    def writing(self, core: Relay, outlet: Outlet) -> None:
        """Messages are about to be written to the spool."""


@dataclass
class SimResource:
    """A resource, and where its tasks are."""

    name: str
    where: list[NodeId]
    sink: str
    is_exclusive: bool
    epoch: int = 1
    number: int = 0
    emitters: dict[NodeId, int] = field(default_factory=dict)
    """Node → the epoch of its task; a replaced task may not have noticed."""

    def __post_init__(self) -> None:
        self.ids = Ids(KIND, self.name)
        self.emitters = dict.fromkeys(self.where, 1)


class SimFleet:
    """The simulated fleet, and what is known of every message."""

    def __init__(
        self,
        world: World,
        nodes: list[NodeId],
        resources: list[SimResource],
        safeguards: Safeguards,
        pace: float = 1.0,
    ) -> None:
        self.world, self.resources, self.safeguards, self.pace = world, resources, safeguards, pace
        self.silence = min(8.0, max(1.0, pace / 2))
        """Seconds of silence after which a host or a relay sends a sign of life."""

        self.relay_map = RelayMap(version=0, nodes=())
        self.relays: dict[NodeId, Machine] = {}
        self.hosts: dict[NodeId, Machine] = {}
        self.disks: dict[NodeId, dict[str, Disk]] = {}
        self.brokers = {name: SimBroker(world, name) for name in SINKS}
        self.running: dict[SimProcess, SimRelay] = {}
        self.hosting: dict[SimProcess, SimHost] = {}
        self.links: list[SimConnection] = []
        self.cuts: set[frozenset[NodeId]] = set()
        self.members: set[NodeId] = set()
        """Nodes whose lease has not ended."""

        self.emitted: dict[bytes, str] = {}
        """Messages emitted by hosts that have not died with them."""

        self.acked: dict[bytes, str] = {}
        """Messages reported as safe to their host."""

        self.rejected: set[bytes] = set()
        self.spooled: set[bytes] = set()
        """Messages that were on a disk: they count as safe, whatever the sink reports later."""

        self._lags = {node: world.random.choice((0.0, 0.0, 0.2, 0.5)) for node in nodes}
        """Seconds by which a node's replicas are behind."""

        self._disturbances: list[float] = []
        self._disorders: list[float] = []
        self._epochs: dict[bytes, tuple[SimResource, int]] = {}

    @property
    def living(self) -> list["SimRelay"]:
        """Relays whose process lives."""
        return [relay for process, relay in self.running.items() if not process.is_dead]

    @property
    def living_hosts(self) -> list["SimHost"]:
        """Hosts whose process lives."""
        return [host for process, host in self.hosting.items() if not process.is_dead]

    @property
    def outdated(self) -> set[bytes]:
        """Messages of exclusive tasks that were replaced: they may be refused."""
        return {name for name, (resource, epoch) in self._epochs.items() if epoch < resource.epoch}

    # What happens

    async def emit(self) -> None:
        """Deliver the messages of the resources to their tasks, as long as it is wanted."""
        random = self.world.random
        while True:
            await asyncio.sleep(random.uniform(0.02, 0.25) * self.pace)
            resource = random.choice(self.resources)
            resource.number += 1
            for node, epoch in resource.emitters.items():
                host = self.hosting.get(self.hosts[node].process)
                if host is not None and self.hosts[node].is_up and random.random() < 0.97:
                    delay = self._lags[node] + random.choice((0.0, 0.01, 0.1)) if len(resource.where) > 1 else 0.0
                    in_process(self.hosts[node].process, delay, partial(host.emit, resource, epoch, resource.number))

    def message(self, resource: SimResource, epoch: int, number: int, node: NodeId) -> Message:
        """A message as a task emits it."""
        key = f"{epoch if resource.is_exclusive else 0}.{number}"
        name = resource.ids.of(key, b"")
        if resource.is_exclusive:
            self._epochs[name] = (resource, epoch)
        return Message(id=name, kind=KIND, resource=resource.name, payload=b"", node=node, time=WALL, key=key)

    def pass_on(self, resource: SimResource, node: NodeId) -> None:
        """Assign an exclusive resource to another node; relays learn of it later, and so does the node before."""
        resource.epoch += 1
        self.world.tell(f"{resource.name} goes to {node} under epoch {resource.epoch}")
        before = [each for each in resource.emitters if each != node]
        resource.emitters[node] = resource.epoch
        for each in before:
            delay = self.world.random.uniform(0.1, 5.0)
            asyncio.get_running_loop().call_later(delay, partial(self._notice, resource, each))
        for relay in self.living:
            in_process(relay.process, self.world.random.uniform(0.1, 3.0), relay.follow_assignments)

    def _notice(self, resource: SimResource, node: NodeId) -> None:
        if resource.emitters.get(node, resource.epoch) < resource.epoch:
            del resource.emitters[node]

    # Links

    def link(self, one: SimProcess, other: SimProcess) -> SimConnection:
        """A new connection."""
        self.links = [link for link in self.links if link.is_open]
        link = SimConnection(self.world, one, other)
        self.links.append(link)
        return link

    def break_links(self, process: SimProcess) -> None:
        """A process died: its connections break, and a host's outbox is lost."""
        for link in self.links:
            if process in link.ends:
                link.cut()
        if (host := self.hosting.get(process)) is not None:
            for emission in host.held.values():
                self.emitted.pop(emission.message.id, None)

    def cut(self, pair: frozenset[NodeId]) -> None:
        """Two relays are disconnected from each other."""
        self.cuts.add(pair)
        processes = {self.relays[node].process for node in pair}
        for link in self.links:
            if set(link.ends) == processes:
                link.cut()

    # Disturbances

    def disturb(self, what: str, *, keeps_order: bool = False) -> None:
        """Something happened that may repeat messages, and change their order."""
        self.world.tell(what)
        self._disturbances.append(self.world.time)
        if not keeps_order:
            self._disorders.append(self.world.time)

    def was_disturbed(self, first: float, second: float) -> bool:
        """May a message have been delivered at both times?"""
        return any(first - BEFORE <= at <= second for at in self._disturbances)

    def was_disordered(self, first: float, second: float) -> bool:
        """May messages delivered at these times be out of order?"""
        return any(first - 200 <= at <= second for at in self._disorders)


class SimHost:
    """A host worker: an outbox that is handed to the relay of its node."""

    def __init__(self, fleet: SimFleet, node: NodeId, machine: Machine) -> None:
        self.node = node
        self.held: dict[int, Emission] = {}
        """Messages without an ack, by number in the outbox."""

        self._outbox = Outbox(OUTBOX, OUTBOX_BYTES)
        self._fleet, self._machine = fleet, machine
        self._process = machine.process
        self._link: SimConnection | None = None
        self._line: InboundLine | None = None
        self._relay: SimRelay | None = None
        self._sent = self._acked = 0
        """The last batch that was handed over, and the last that is acked."""

        self._sent_at = 0.0
        self._may_send = True
        fleet.hosting[self._process] = self

    async def run(self) -> None:
        """Try at intervals to hand messages over to the relay."""
        while True:
            await asyncio.sleep(self._fleet.world.random.uniform(0.02, 0.2) * self._fleet.pace)
            if self._link is None:
                self._connect()
            self._hand_over()

    def emit(self, resource: SimResource, epoch: int, number: int) -> None:
        """A task emits, unless there is no room: then it waits, and misses what it would have received."""
        if not self._outbox.has_room:
            return
        message = self._fleet.message(resource, epoch, number, self.node)
        slot = resource.where.index(self.node) if self.node in resource.where else 0
        if any(message.id == each.message.id for each in self.held.values()):
            return
        emission = Emission(message, resource.sink, slot, epoch, resource.is_exclusive)
        self.held[self._outbox.put(emission, Instant(self._fleet.world.time))] = emission
        self._fleet.emitted[message.id] = f"{resource.name} {message.key}"

    def acked(self, sequence: int, may_send: bool, refused: tuple[RefusedMessage, ...]) -> None:
        """The relay is done with everything up to this batch, and reads this line, or does not."""
        self._may_send = may_send
        self._acked, before = sequence, self._outbox.acked_count
        unsafe = self._outbox.acked(sequence, refused)
        for number in range(before + 1, self._outbox.acked_count + 1):
            message = self.held.pop(number).message
            if number not in unsafe:
                self._fleet.acked[message.id] = f"{message.resource} {message.key}"

    def _connect(self) -> None:
        machine = self._fleet.relays[self.node]
        relay = self._fleet.running.get(machine.process)
        if relay is None or machine.process.is_dead:
            return
        link = self._link = self._fleet.link(self._process, machine.process)
        line = self._line = InboundLine(self._machine.name)
        self._relay = relay
        self._outbox.broke()
        self._sent, self._acked, self._may_send = 0, 0, True
        link.lost = {self._process: self._lost, machine.process: lambda: relay.line_lost(line)}
        link.send(machine.process, relay.joined, line, link, self._process, self, self._age())

    def _lost(self) -> None:
        self._link = None

    def _hand_over(self) -> None:
        while self._link is not None and self._may_send and self._sent - self._acked < UNACKED:
            batch = self._outbox.take(BATCH, OUTBOX_BYTES)
            if batch is None:
                break
            self._send(batch)
        if self._link is not None and self._may_send and self._fleet.world.time - self._sent_at >= self._fleet.silence:
            self._send(self._outbox.ping())

    def _send(self, batch: Outgoing) -> None:
        assert self._link is not None
        assert self._line is not None
        assert self._relay is not None
        self._sent, self._sent_at = batch.sequence, self._fleet.world.time
        self._link.send(self._relay.process, self._relay.took, self._line, batch.sequence, batch.emissions, self._age())

    def _age(self) -> float | None:
        return self._outbox.age(Instant(self._fleet.world.time))


class SimRelay:
    """A relay process around the core."""

    def __init__(self, fleet: SimFleet, node: NodeId, machine: Machine) -> None:
        self.node, self.machine = node, machine
        self.fleet, self.process = fleet, machine.process
        guards = fleet.safeguards
        self.core = guards.relay(node, self.now, LIMITS, guards.window(self.now))
        self._lines: dict[InboundLine, tuple[SimConnection, SimProcess, SimHost | None]] = {}
        self._sinks: dict[str, SimSink] = {}
        self._ways: dict[NodeId, tuple[SimConnection, SimRelay, InboundLine]] = {}
        self._cut_short = 0
        self._pinged = 0.0
        self._members: set[NodeId] | None = None
        self._dice = fleet.world.random
        fleet.running[self.process] = self

    @property
    def now(self) -> Instant:
        """The time of this machine's clock."""
        return self.machine.clock.monotonic()

    async def run(self) -> None:
        """Recover, follow the map, let time pass."""
        self.follow_assignments()
        for sink, disk in self.fleet.disks[self.node].items():
            budget = MemoryBudget(LIMITS.messages, LIMITS.bytes)
            outlet = self.fleet.safeguards.outlet(sink, budget, window=LIMITS.window, near=NEAR)
            self.core.home.outlets[sink] = outlet
            answered = partial(self._answered, outlet)
            self._sinks[sink] = SimSink(self.fleet.world, self.process, self.fleet.brokers[sink], answered)
            self.core.home.recovered(outlet, [message for _, message in disk.recover()], self.now)
        while True:
            self._follow_map()
            self.core.advance(self.now)
            for name, each in self._sinks.items():
                self.core.home.sink_is(self.core.home.outlets[name], each.is_well)
            self._retry()
            self._ping()
            self.pump()
            if self.core.moves.cut_short > self._cut_short:
                self._cut_short = self.core.moves.cut_short
                self.fleet.disturb(f"{self.node} did not finish a move")
            await asyncio.sleep(self._dice.uniform(0.1, 0.6) * min(9.0, max(1.0, self.fleet.pace / 2)))

    def _follow_map(self) -> None:
        if self._members != self.fleet.members:
            self._members = self.fleet.members
            self.core.members_are(self._members, self.now)
        if not self.core.accepts(self.fleet.relay_map.version):
            for line in self.core.map_changed(self.fleet.relay_map, self.now):
                self._lines[line][0].cut()
            for link, _, _ in list(self._ways.values()):
                link.cut()

    def follow_assignments(self) -> None:
        """Learn the epochs of exclusive resources."""
        for resource in self.fleet.resources:
            if resource.is_exclusive:
                self.core.fence(KIND, resource.name, resource.epoch)

    # Lines

    def joined(
        self, line: InboundLine, link: SimConnection, end: SimProcess, host: "SimHost | None", age: float | None
    ) -> None:
        """A host or another relay has a line to us."""
        self._lines[line] = (link, end, host)
        self.core.join(line, age, self.now)

    def took(self, line: InboundLine, sequence: int, emissions: Sequence[Emission], age: float | None) -> None:
        """A batch came."""
        self.core.took(line, sequence, emissions, age, self.now)
        self.pump()

    def line_lost(self, line: InboundLine) -> None:
        """A line broke."""
        known = self._lines.pop(line, None)
        if known is None:
            return
        if line.is_open:
            self.core.line_lost(line)
        if known[2] is not None and known[1].is_dead:
            self.core.host_gone(line.sender)
        self.pump()

    # Doing what the core asks for

    def pump(self) -> None:
        """Everything that there is to do now."""
        while any(touched := self.core.take_touched()):
            for line in touched.lines:
                self._update(line)
            for outlet in touched.outlets:
                self._work(outlet)
            for peer in touched.peers:
                self._pass_on(peer)

    def _update(self, line: InboundLine) -> None:
        known = self._lines.get(line)
        if known is None:
            return
        link, end, host = known
        if host is not None:
            link.send(end, host.acked, line.acked, not line.is_stopped, line.take_refused())
        else:
            sender = self.fleet.running[end]
            link.send(end, sender.peer_acked, self.node, link, line.acked, line.take_refused())

    def _work(self, outlet: Outlet) -> None:
        sink, disk = self._sinks[outlet.sink], self.fleet.disks[self.node][outlet.sink]
        spent, outlet.spent = outlet.spent, []
        if spent:
            disk.confirm(spent)
            outlet.spool_has_room()
        if messages := outlet.to_spool(30):
            self.fleet.safeguards.writing(self.core, outlet)
            disk.append(self.process, messages, partial(self._written, outlet, messages))
        if most := outlet.to_read():
            self.core.home.was_read(outlet, disk.read(most), self.now)
        if messages := outlet.to_publish(10):
            self.fleet.safeguards.publishing(self.core, outlet, messages)
            sink.publish(messages)
            self.core.home.sink_is(outlet, outlet.is_up)  # there may be more

    def _answered(self, outlet: Outlet, outcomes: list[Outcome]) -> None:
        """The broker has reported the outcome of messages."""
        for message, is_rejected in outcomes:
            if is_rejected:
                self.fleet.rejected.add(message.id)
                self.core.home.rejected(outlet, message, "no queue", self.now)
            else:
                self.core.home.confirmed(outlet, [message], self.now)
        self.pump()

    def _written(self, outlet: Outlet, messages: list[Message], first: int | None) -> None:
        """The disk has what it was to write, or has refused it."""
        if first is None:
            self.core.home.spool_refused(outlet)
            in_process(self.process, 1.0, lambda: self.core.home.spool_has_room(outlet))
        else:
            self.fleet.spooled.update(message.id for message in messages)
            self.core.home.spooled(outlet, first)
        self.pump()

    # Other relays

    def _pass_on(self, peer: PeerRelay) -> None:
        if (way := self._ways.get(peer.node)) is None:
            return
        link, relay, line = way
        while (batch := self.core.hand_over(peer, BATCH, LIMITS.bytes, self.now)) is not None:
            link.send(relay.process, relay.took, line, batch.sequence, batch.emissions, batch.age)

    def peer_acked(self, node: NodeId, link: SimConnection, sequence: int, refused: tuple[RefusedMessage, ...]) -> None:
        """Another relay is done with what we passed on, up to this batch."""
        if node in self._ways and self._ways[node][0] is link:
            self.core.acked(self.core.peers[node], sequence, refused)
            self.pump()

    def _way_lost(self, node: NodeId, link: SimConnection) -> None:
        if node in self._ways and self._ways[node][0] is link:
            del self._ways[node]
            self.core.peer_broke(self.core.peers[node])

    def _ping(self) -> None:
        """Other relays must know how old the messages are that they may still get."""
        if self.fleet.world.time - self._pinged < self.fleet.silence:
            return
        self._pinged = self.fleet.world.time
        for node, (link, relay, line) in self._ways.items():
            batch = self.core.ping(self.core.peer(node), self.now)
            link.send(relay.process, relay.took, line, batch.sequence, batch.emissions, batch.age)

    def _retry(self) -> None:
        """Ways to other relays that are missing, and shipments that were not taken."""
        for node in self.core.map.nodes if self.core.map is not None else ():
            if node != self.node and node not in self._ways:
                self._reach(node)
        for shipment in self.core.moves.shipments:
            taker = self._reachable(shipment.taker)
            if taker is not None:
                link = self.fleet.link(self.process, taker.process)
                link.send(taker.process, taker.shipped, self, shipment, link)

    def _reachable(self, node: NodeId) -> "SimRelay | None":
        process = self.fleet.relays[node].process
        if process.is_dead or frozenset((node, self.node)) in self.fleet.cuts:
            return None
        return self.fleet.running.get(process)

    def _reach(self, node: NodeId) -> None:
        relay = self._reachable(node)
        if relay is None or self.core.map is None or not relay.core.accepts(self.core.map.version):
            return
        peer, process = self.core.peer(node), relay.process
        link = self.fleet.link(self.process, process)
        line = InboundLine(self.node, is_peer=True)
        link.lost = {self.process: lambda: self._way_lost(node, link), process: lambda: relay.line_lost(line)}
        self._ways[node] = (link, relay, line)
        self.core.peer_broke(peer)
        self.core.moves.ship_again(node, self.now)
        link.send(process, relay.peer_joined, line, link, self, self.core.map.version, self.core.age(peer, self.now))

    def peer_joined(
        self, line: InboundLine, link: SimConnection, sender: "SimRelay", version: int, age: float | None
    ) -> None:
        """Another relay opens a line; refused if it uses another map."""
        if self.core.accepts(version):
            self.joined(line, link, sender.process, None, age)
        else:
            line.is_open = False
            link.cut()

    def shipped(self, giver: "SimRelay", shipment: Shipment, link: SimConnection) -> None:
        """Another relay ships what it knows."""
        if self.core.take_shipment(shipment, self.now):
            link.send(giver.process, giver.taken, shipment)
            self.pump()

    def taken(self, shipment: Shipment) -> None:
        """A shipment has arrived."""
        self.core.moves.taken(shipment.taker, shipment.version)
