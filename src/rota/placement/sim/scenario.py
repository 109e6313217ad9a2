"""Scenario: one leader places and moves tasks on a fleet of up to 1,000 nodes in zones.

The leader runs the product's own session, election and supervisor. The nodes are `Hands`: records in the store, and a
loop that starts and stops what they are assigned, each after a while, and reports it as nodes do. Nodes join, die, are
drained and undrained and get other slots, and resources come and go, some with affinity; the network is slow and now
and then another writer is faster. What must hold:

- At each accepted commit: no two tasks of a resource on one node, no node given more than its slots.
- What is moved is never uncovered by that: a task is taken from a node that works only if as many others run as should.
- Resources that are to be apart never share a node.
- Once it is calm: each resource has its tasks or says why not, a drained node has none or its resources say why, and
  then nothing is written any more.

`broken="haste"` lets nodes say that tasks run before they do; the scenario must find it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import Key, LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, NodeStatus, Role
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Affinity, Drain, KindRecord, Relief, ResourceRecord, ResourceStatus, SlotsSet
from rota.sim.leading import supervising
from rota.sim.network import SimStore
from rota.sim.world import EPOCH, World
from rota.store.port import At, Delete, Expect, Put, Write

TTL = timedelta(seconds=10)
CONFIG = SupervisorConfig(warm_up=timedelta(seconds=5), rebalance=6000, ramp=100)
SIZES = (4, 12, 40)
LARGE = 1000
"""Nodes of one seed in 25."""

STEPS = 40
CALM = 90.0
"""Seconds after the last change within which everything must have settled."""

QUIET = 20.0
BROKEN = ("haste",)
_LONG = timedelta(hours=1)


def _kind(name: str, *, replicas: int, exclusive: bool = False) -> KindRecord:
    return KindRecord(
        name=name,
        app="sim",
        replicas=replicas,
        exclusive=exclusive,
        runs_alone=exclusive,
        silent_after=_LONG,
        start_within=_LONG,
    )


KINDS = {kind.name: kind for kind in (_kind("room", replicas=2), _kind("single", replicas=1, exclusive=True))}


class Hands:
    """What the nodes do: they run what they are assigned, after a while, and say what nodes say."""

    def __init__(self, world: World, store: SimStore, is_hasty: bool) -> None:
        self._world, self._store, self._is_hasty = world, store, is_hasty
        self.assigned: dict[Key, tuple[Assignment, Revision]] = {}
        self.running: set[Key] = set()
        self.nodes: dict[NodeId, Node] = {}
        self.slots: dict[NodeId, int] = {}
        self._reported: dict[Key, Revision] = {}

    def see(self, write: Write, revision: Revision) -> None:
        """An assignment was written or taken back."""
        if isinstance(write, Put):
            before = self.assigned.get(write.key)
            self.assigned[write.key] = codec.decode(Assignment, write.value), revision
            if before is not None:
                self.running.discard(write.key)
        else:
            self.assigned.pop(write.key, None)
            self.running.discard(write.key)

    def forget(self, node: NodeId) -> None:
        """A node died, and what it ran with it."""
        del self.nodes[node], self.slots[node]
        self.running = {key for key in self.running if node_of(key) != node}

    async def work(self) -> None:
        """Start and stop tasks until cancelled."""
        while True:
            await asyncio.sleep(self._world.random.uniform(0.05, 0.6))
            for key, (assigned, revision) in sorted(self.assigned.items()):
                if node_of(key) not in self.nodes or self.assigned.get(key) != (assigned, revision):
                    continue
                if assigned.stopping:
                    self.running.discard(key)
                    await self._write(Delete(key), At(key, revision))
                elif self._is_hasty:
                    await self._report(key, assigned, revision)
                    self.running.add(key)
                else:
                    self.running.add(key)
                    await self._report(key, assigned, revision)

    async def _report(self, key: Key, assigned: Assignment, revision: Revision) -> None:
        """Report that a task that relieves another runs, once."""
        if assigned.relieves is None or self._reported.get(key) == revision:
            return
        node = node_of(key)
        relief = Put(keys.relief(node, key.removeprefix(keys.assignments(node))), codec.encode(Relief(epoch=revision)))
        if await self._write(relief, At(key, revision)):
            self._reported[key] = revision
            if self._is_hasty:
                await asyncio.sleep(1.0)

    async def _write(self, write: Write, expect: Expect) -> bool:
        with suppress(Conflict, Unavailable, Unknown):
            await self._store.commit(write, expect=[expect])
            return True
        return False


def node_of(key: Key) -> NodeId:
    """The node of an assignment."""
    return NodeId(key.removeprefix(keys.ASSIGNMENTS).partition("/")[0])


def name_of(key: Key) -> str:
    """The resource of an assignment."""
    return key.removeprefix(keys.ASSIGNMENTS).partition("/")[2].rpartition("#")[0]


class PlacementScenario:
    """One run of the scenario."""

    def __init__(self, world: World, broken: str | None) -> None:
        self._world = world
        self._store = SimStore(world.network, "client", world.store_clock)
        self._hands = Hands(world, SimStore(world.network, "nodes", world.store_clock), broken == "haste")
        self._resources: dict[str, ResourceRecord] = {}
        self._on: defaultdict[str, set[Key]] = defaultdict(set)
        self._forced: set[NodeId] = set()
        """Nodes that had to lose tasks: their slots were lowered."""

        self._made = 0
        self.commits = 0
        self.moves = 0

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        return {"nodes": len(self._hands.nodes), "commits of assignments": self.commits, "moves": self.moves}

    async def run(self) -> None:
        """The whole story."""
        world = self._world
        world.network.committed = self._check
        is_large = world.seed % 25 == 24
        for kind in KINDS.values():
            await self._put(keys.kind(kind.name), kind)
        for _ in range(LARGE if is_large else world.random.choice(SIZES)):
            await self._join()
        await self._add(len(self._hands.nodes) * 3)
        world.start("leader", supervising(world, CONFIG))
        working = asyncio.create_task(self._hands.work())
        await asyncio.sleep(20.0)
        world.network.weather.conflict = 0.02
        for _ in range(8 if is_large else STEPS):
            await asyncio.sleep(world.random.uniform(0.1, 6.0))
            await self._change()
        world.network.weather.conflict = 0.0
        await asyncio.sleep(CALM)
        self._check_settled()
        before = self.commits
        await asyncio.sleep(QUIET)
        if self.commits != before:
            world.violate(f"{self.commits - before} commits of assignments in a fleet at rest")
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    # What changes

    async def _change(self) -> None:
        random, hands = self._world.random, self._hands
        node = random.choice(sorted(hands.nodes))
        what = random.choice(("join", "die", "drain", "undrain", "slots", "add", "add", "remove"))
        self._world.tell(f"{what} {node}")
        if what == "join":
            await self._join()
        elif what == "die" and len(hands.nodes) > 3:
            hands.forget(node)
            await self._put(keys.node(node), None)
        elif what == "drain":
            deadline = self._world.store_clock.wall() + _LONG
            await self._put(keys.drain(node), Drain(node=node, since=EPOCH, deadline=deadline))
        elif what == "undrain":
            for drained in list(self._entries(keys.DRAINS)):
                await self._put(drained, None)
        elif what == "slots":
            slots = random.randint(2, 30)
            if slots < hands.slots[node]:
                self._forced.add(node)
            hands.slots[node] = slots
            await self._put(keys.slots(node), SlotsSet(node=node, slots=slots, since=EPOCH))
        elif what == "add":
            await self._add(random.randint(1, 10))
        elif what == "remove" and self._resources:
            name = random.choice(sorted(self._resources))
            del self._resources[name]
            await self._put(keys.RESOURCES + name, None)

    async def _join(self) -> None:
        random, hands = self._world.random, self._hands
        self._made += 1
        node = NodeId(f"n{self._made:04}")
        slots = random.randint(8, 30)
        record = Node(
            id=node,
            session=SessionId(f"s{self._made}"),
            lease=LeaseId(""),
            role=Role.WORK,
            home=node,
            host=node,
            pid=1,
            since=EPOCH,
            lease_ttl=TTL,
            labels={"zone": random.choice("xyz"), "disk": random.choice(("fast", "slow"))},
            slots=slots,
        )
        hands.nodes[node], hands.slots[node] = record, slots
        status = NodeStatus(
            app="sim",
            generation=1,
            previous=None,
            reloading=None,
            pools=[],
            tasks_ordered=0,
            tasks_running=0,
            kinds=list(KINDS),
        )
        await self._put(keys.node(node), record)
        await self._put(keys.status(node), status)

    async def _add(self, count: int) -> None:
        random = self._world.random
        for _ in range(count):
            self._made += 1
            kind = random.choice(("room", "room", "room", "single"))
            customer = {"customer": str(random.randrange(5))}
            record = ResourceRecord(
                uid=str(self._made),
                kind=kind,
                id=str(self._made),
                created=EPOCH,
                priority=random.choice((0, 0, 1)),
                cost=random.choice((1, 1, 1, 2)),
                tags=customer if random.random() < 0.2 else {},
                affinity=random.choice(
                    (Affinity(), Affinity(), Affinity(), Affinity(prefer={"disk": "fast"}), Affinity(apart=customer))
                ),
            )
            self._resources[f"{kind}/{record.id}"] = record
            await self._put(keys.resource(kind, record.id), record)

    async def _put(self, key: Key, record: object) -> None:
        write = Delete(key) if record is None else Put(key, codec.encode(record))
        while True:
            with suppress(Conflict, Unavailable, Unknown):
                await self._store.commit(write)
                return

    def _entries(self, prefix: Key) -> dict[Key, bytes]:
        return {entry.key: entry.value for entry in self._world.universe.scan(prefix, None, None, None).entries}

    # The rules

    def _check(self, writes: Iterable[Write], revision: Revision) -> None:
        placed = [write for write in writes if write.key.startswith(keys.ASSIGNMENTS)]
        if not placed:
            return
        self.commits += 1
        touched = {name_of(write.key) for write in placed}
        running = {name: self._running(name) for name in touched}
        taken = [write.key for write in placed if isinstance(write, Delete)]
        willing = {key for key in taken if key in self._hands.assigned and not self._hands.assigned[key][0].stopping}
        for write in placed:
            self._hands.see(write, revision)
            (self._on[name_of(write.key)].add if isinstance(write, Put) else self._on[name_of(write.key)].discard)(
                write.key
            )
            if isinstance(write, Put) and self._hands.assigned[write.key][0].relieves is not None:
                self.moves += 1
        for name in sorted(touched):
            self._check_resource(name, running[name], [key for key in willing if name_of(key) == name])
        self._check_slots({node_of(write.key) for write in placed if isinstance(write, Put)})

    def _check_resource(self, name: str, running: int, taken: list[Key]) -> None:
        nodes = [node_of(key) for key in self._on[name]]
        if len(set(nodes)) < len(nodes):
            self._world.violate(f"two tasks of {name} on one node")
        record = self._resources.get(name)
        if record is None:
            return
        wanted, left = KINDS[record.kind].replicas, self._running(name)
        free = [key for key in taken if node_of(key) in self._hands.nodes and node_of(key) not in self._forced]
        if free and running >= wanted > left:
            self._world.violate(f"{name} was left with {left} of {wanted} running tasks by a move")
        for tag in record.affinity.apart.items():
            for node in nodes:
                self._check_apart(name, node, tag)

    def _running(self, name: str) -> int:
        """How many tasks of a resource run; two that have one slot while it moves are one."""
        return len({key.rpartition("#")[2] for key in self._on[name] & self._hands.running})

    def _check_apart(self, name: str, node: NodeId, tag: tuple[str, str]) -> None:
        for other, record in self._resources.items():
            if other != name and tag in record.tags.items() and any(node_of(key) == node for key in self._on[other]):
                self._world.violate(f"{name} is on {node} with {other}, from which it is to be apart")

    def _check_slots(self, given: set[NodeId]) -> None:
        used: Counter[NodeId] = Counter()
        for key, (assigned, _) in self._hands.assigned.items():
            used[node_of(key)] += assigned.cost
        for node in given & self._hands.slots.keys() - self._forced:
            if used[node] > self._hands.slots[node]:
                self._world.violate(f"{node} has {used[node]} of {self._hands.slots[node]} slots in use")

    def _check_settled(self) -> None:
        statuses = {
            key.removeprefix(keys.RESOURCE_STATUS): codec.decode(ResourceStatus, value)
            for key, value in self._entries(keys.RESOURCE_STATUS).items()
        }
        drained = {NodeId(key.removeprefix(keys.DRAINS)) for key in self._entries(keys.DRAINS)}
        for name, record in self._resources.items():
            status, has = statuses.get(name), len(self._on[name])
            if status is None or (has != KINDS[record.kind].replicas and not status.pending):
                self._world.violate(f"{name} has {has} tasks and does not say why")
            elif drained & {node_of(key) for key in self._on[name]} and not (status.moving or status.pending):
                self._world.violate(f"{name} is on a drained node and does not say why")
        for name in self._on.keys() - self._resources.keys():
            if self._on[name]:
                self._world.violate(f"{name} was removed and still has tasks")
        if self._entries(keys.RELIEFS):
            self._world.violate("what nodes said of reliefs was left lying")
