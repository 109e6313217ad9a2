"""Scenario: messages on their way from replicas to a sink, with everything going wrong.

Nodes have a host, whose tasks emit, and a relay. The relays run the product's own core; sockets, disks and brokers are
simulated (`relay.sim.relaying`, `sim.outside`). Replicas of a resource receive the same numbered messages. Faults rage,
then stop, and so does the emitting. Each seed draws the faults that it has, so that some have none of those that may
repeat a message. What must hold is in `relay.sim.rules`.

`broken` leaves a safeguard out; the scenario must find each of them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap
from rota.relay.sim.relaying import SINKS, Safeguards, SimFleet, SimHost, SimRelay, SimResource
from rota.relay.sim.rules import RelayRules
from rota.relay.sim.unguarded import UNGUARDED
from rota.sim.outside import QUICK, SLOW, Disk, SimBroker
from rota.sim.world import Machine, World

FAULTS_END = 150.0
EMITTING_LASTS = 15.0
"""Seconds that tasks emit after the last fault."""

RECOVERY = 100.0
LEASE = 10.0
BROKEN = tuple(UNGUARDED)
"""What can be broken on purpose."""


class RelayScenario:
    """One run of the scenario."""

    def __init__(self, world: World, broken: str | None, *, nodes: int | None = None, pace: float = 1.0) -> None:
        """`pace`: the factor by which everything takes longer than in the plain scenario."""
        self._world, self._pace = world, pace
        count = nodes or world.random.randint(2, 4)
        self._nodes = [NodeId(f"n{number}") for number in range(count)]
        resources = [self._resource(number, count) for number in range(world.random.randint(4, 9))]
        self._fleet = SimFleet(world, self._nodes, resources, UNGUARDED[broken] if broken else Safeguards(), pace)
        self._rules = RelayRules(world, self._fleet, self._nodes, pace)
        self._moves = False
        self._beside: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """The whole story."""
        asyncio.get_running_loop().set_exception_handler(self._failed)
        self.begin()
        await self.rage(FAULTS_END)
        await self.recover()

    def begin(self) -> None:
        """Start hosts and relays, and let tasks emit."""
        world, fleet = self._world, self._fleet
        fleet.relay_map = RelayMap(version=1, nodes=tuple(self._nodes))
        for node in self._nodes:
            fleet.disks[node] = {sink: Disk(world.random) for sink in SINKS}
            fleet.relays[node] = world.start(f"relay-{node}", self._run_relay, has_own_faults=True)
            fleet.hosts[node] = world.start(f"host-{node}", self._run_host, has_own_faults=True)
        self._beside = [asyncio.create_task(each) for each in (fleet.emit(), self._rules.watch(), self._lead())]

    async def recover(self) -> None:
        """The faults are over: repair everything, stop the emitting, and check what arrived."""
        self._heal()
        await asyncio.sleep(EMITTING_LASTS)
        emitting = self._beside[0]
        emitting.cancel()
        await asyncio.sleep(RECOVERY)
        self._rules.check()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        delivered = sum(len(broker.log) for broker in self._fleet.brokers.values())
        return {"relay maps": self._fleet.relay_map.version, "messages delivered": delivered}

    def _resource(self, number: int, nodes: int) -> SimResource:
        random = self._world.random
        is_exclusive = number % 4 == 3
        replicas = 1 if number % 2 else min(nodes, random.randint(2, 3))
        where = random.sample(self._nodes, replicas)
        return SimResource(f"r{number}", where, random.choice(SINKS), is_exclusive)

    async def _run_relay(self, machine: Machine) -> None:
        await SimRelay(self._fleet, NodeId(machine.name.removeprefix("relay-")), machine).run()

    async def _run_host(self, machine: Machine) -> None:
        await SimHost(self._fleet, NodeId(machine.name.removeprefix("host-")), machine).run()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nothing caught."""
        self._world.violate(f"{context.get('exception', context['message'])!r}")

    # The leader

    async def _lead(self) -> None:
        """Leave dead relays out of the map after a while, take them back, and move resources on purpose."""
        fleet, random = self._fleet, self._world.random
        dead_since: dict[NodeId, float] = {}
        while True:
            await asyncio.sleep(2.0)
            nodes = set(fleet.relay_map.nodes)
            for node, machine in fleet.relays.items():
                if machine.is_up:
                    dead_since.pop(node, None)
                else:
                    dead_since.setdefault(node, self._world.time)
            dead = {node for node, since in dead_since.items() if self._world.time - since > LEASE}
            fleet.members = set(self._nodes) - dead
            lost = dead & nodes
            if lost and nodes - lost:
                fleet.disturb(f"{', '.join(sorted(lost))} left out of the map")
                self._write_map(nodes - lost, before=())
            elif not dead_since and not self._is_moving():
                absent = set(self._nodes) - nodes
                if absent and random.random() < 0.4:
                    self._write_map(nodes | {random.choice(sorted(absent))}, before=fleet.relay_map.nodes)
                elif self._moves and len(nodes) > 1 and random.random() < 0.16:
                    self._write_map(nodes - {random.choice(sorted(nodes))}, before=fleet.relay_map.nodes)

    def _write_map(self, nodes: set[NodeId], before: tuple[NodeId, ...]) -> None:
        version = self._fleet.relay_map.version + 1
        self._world.tell(f"map {version}: {', '.join(sorted(nodes))}")
        self._fleet.relay_map = RelayMap(version=version, nodes=tuple(sorted(nodes)), before=before)

    def _is_moving(self) -> bool:
        cores = [relay.core for relay in self._fleet.living]
        return any(core.moves.are_going_on or not core.accepts(self._fleet.relay_map.version) for core in cores)

    # Faults

    async def rage(self, until: float) -> None:
        """Cause faults of the kinds that this seed has drawn, until `until`."""
        random = self._world.random
        faults: list[Callable[[float], Coroutine[None, None, None]]] = [
            self._crash_relay, self._crash_host, self._crash_node, self._freeze, self._cut, self._outage, self._break,
            self._slow_broker, self._slow_disk, self._full_disk, self._pass_on,
        ]  # fmt: skip
        drawn = random.sample(faults, random.randint(2, len(faults)))
        self._moves = random.random() < 0.6
        running: set[asyncio.Task[None]] = set()
        while self._world.time < until:
            task = asyncio.create_task(random.choice(drawn)(random.choice((2.0, 8.0, 25.0, 70.0))))
            running.add(task)
            task.add_done_callback(running.discard)
            await asyncio.sleep(min(random.uniform(0.5, 15.0) * self._pace, until - self._world.time))
        self._moves = False
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _heal(self) -> None:
        fleet = self._fleet
        fleet.cuts.clear()
        for broker in fleet.brokers.values():
            broker.delay = QUICK
            broker.wake()
        for disks in fleet.disks.values():
            for disk in disks.values():
                disk.mend()
        for machine in (*fleet.relays.values(), *fleet.hosts.values()):
            if machine.process.is_dead:
                machine.restart()
            elif machine.process.group.is_frozen:
                machine.thaw()
        self._world.tell("hosts, relays, disks and brokers are well")

    async def _crash_relay(self, length: float) -> None:
        """A relay is killed: its window is lost, and whatever it had not acked comes again."""
        node = self._world.random.choice(self._nodes)
        machine = self._fleet.relays[node]
        await self._until_busy(machine)
        if machine.is_up:
            self._fleet.disturb(f"relay-{node} died")
            await self._crash(machine, length)

    async def _crash_host(self, length: float) -> None:
        """A host is killed with its outbox."""
        machine = self._fleet.hosts[self._world.random.choice(self._nodes)]
        if machine.is_up:
            await self._crash(machine, length)

    async def _crash_node(self, length: float) -> None:
        """A whole machine goes down, relay and host, while brokers are slow: much is under way."""
        for broker in self._fleet.brokers.values():
            broker.delay = SLOW
        await asyncio.sleep(self._world.random.uniform(0.5, 2.0))
        for broker in self._fleet.brokers.values():
            broker.delay = QUICK
        await self.lose_machine(self._world.random.choice(self._nodes), length)

    async def lose_machine(self, node: NodeId, length: float) -> None:
        """Relay and host of a node die together, and come back."""
        relay, host = self._fleet.relays[node], self._fleet.hosts[node]
        if relay.is_up and host.is_up:
            self._fleet.disturb(f"{node} died")
            await asyncio.gather(self._crash(relay, length), self._crash(host, length))

    async def _until_busy(self, machine: Machine) -> None:
        """Wait, not for long, until a relay has reserved messages and not settled them: the worst time to die."""
        most = self._world.random.randint(1, 6)
        for _ in range(300):
            relay = self._fleet.running.get(machine.process)
            if relay is not None and len(relay.core.window.reserved) >= most:
                return
            await asyncio.sleep(0.01)

    async def _crash(self, machine: Machine, length: float) -> None:
        machine.crash()
        self._fleet.break_links(machine.process)
        await asyncio.sleep(min(length, 30.0))
        if machine.process.is_dead:
            machine.restart()

    async def _freeze(self, length: float) -> None:
        """A process stands still; a relay for less time than it takes to be left out."""
        machine = self._world.random.choice([*self._fleet.relays.values(), *self._fleet.hosts.values()])
        if machine.is_up:
            machine.freeze()
            is_relay = machine in self._fleet.relays.values()
            await asyncio.sleep(min(length, LEASE / 2) if is_relay else length)
            if machine.process.group.is_frozen and not machine.process.is_dead:
                machine.thaw()

    async def _cut(self, length: float) -> None:
        """Two relays cannot reach each other."""
        pair = frozenset(self._world.random.sample(self._nodes, 2))
        self._world.tell(f"{' and '.join(sorted(pair))} are cut off from each other")
        self._fleet.cut(pair)
        await asyncio.sleep(length)
        self._fleet.cuts.discard(pair)

    async def _outage(self, length: float) -> None:
        """A broker says nothing for a while, and forgets nothing; connections stay."""
        broker = self._any_broker()
        self._world.tell(f"{broker.name} stands still")
        broker.is_up = False
        await asyncio.sleep(length)
        broker.wake()

    async def _break(self, length: float) -> None:
        """A broker is killed and comes back with what it had; confirmations under way are lost."""
        broker = self._any_broker()
        self._fleet.disturb(f"{broker.name} broke off", keeps_order=True)
        broker.die()
        await asyncio.sleep(length)
        broker.wake()

    async def _slow_broker(self, length: float) -> None:
        """A broker becomes slow, but not so slow that it would count as dead."""
        broker = self._any_broker()
        broker.delay = SLOW
        await asyncio.sleep(length)
        broker.delay = QUICK

    async def _slow_disk(self, length: float) -> None:
        """A disk takes seconds for each trip."""
        disk = self._any_disk()
        disk.delay = (0.5, 4.0)
        await asyncio.sleep(length)
        disk.mend()

    async def _full_disk(self, length: float) -> None:
        """A disk takes nothing."""
        disk = self._any_disk()
        disk.capacity = 0
        await asyncio.sleep(length)
        disk.mend()

    async def _pass_on(self, length: float) -> None:
        """An exclusive resource moves to another node; the node before does not notice at first."""
        if chosen := [each for each in self._fleet.resources if each.is_exclusive]:
            resource = self._world.random.choice(chosen)
            self._fleet.pass_on(resource, self._world.random.choice(self._nodes))

    def _any_broker(self) -> SimBroker:
        return self._fleet.brokers[self._world.random.choice(SINKS)]

    def _any_disk(self) -> Disk:
        return self._fleet.disks[self._world.random.choice(self._nodes)][self._world.random.choice(SINKS)]
