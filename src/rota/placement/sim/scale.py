"""Scale: a large fleet, its leader's own code, and what each change costs.

A thousand nodes and any number of tasks are records in a simulated store. The leader is the product's: it reads
everything, places everything, and then nodes die, one and a hundred of them, and at last the leader together with a
node, so that another one has to read everything before it places what that node had. For each of that `Cost` says how
long it takes in the fleet's time, how much processor time of the leader, and what is written.

The fleet's time is virtual. It has the network's delays in it, 1 to 10 ms each way, and the processor time that the
leader takes: while its loop is held nothing else of it happens, also no renewal of its lease, and a plan made aside
takes its time too. So a leader that computes for longer than its lease lasts loses it here as it would anywhere. The
store takes each commit in one step, so what a real one would add is what `docs/performance.md` says of its commits.
Nothing else runs: the nodes neither start tasks nor read their assignments, for that is each node's own time.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.ids import Key, LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, NodeStatus, Role
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import KindRecord, ResourceRecord
from rota.sim.leading import TTL, supervising
from rota.sim.network import SimStore
from rota.sim.world import EPOCH, Machine, World
from rota.store.port import Delete, Expect, Put, Write

T = TypeVar("T")

REPLICAS = 2
KIND = KindRecord(
    name="room",
    app="sim",
    replicas=REPLICAS,
    exclusive=False,
    runs_alone=False,
    silent_after=TTL,
    start_within=TTL,
)
ROOM = 1.5
"""Slots for each task."""

TOGETHER = 100
QUIET = 3.0
"""Seconds without a commit after which nothing more is to come."""


class Cost(msgspec.Struct, frozen=True):
    """What one change cost."""

    what: str
    tasks: int
    """Tasks that were placed."""

    seconds: float
    """Of the fleet's time, the leader's own included, from the change to the last commit."""

    leader: float
    """Seconds of processor time, the store's left out."""

    commits: int
    writes: int
    bytes: int

    @property
    def per_task(self) -> float:
        """Microseconds of the leader's processor time for each task."""
        return self.leader / max(1, self.tasks) * 1e6

    @property
    def writes_a_second(self) -> float:
        """What the store must take."""
        return self.writes / max(self.seconds, 1e-9)


class Scale(msgspec.Struct, frozen=True):
    """What a fleet of a size showed."""

    nodes: int
    tasks: int
    costs: tuple[Cost, ...]
    missing: int
    """Tasks that were not placed in the end; more than none is a mistake."""

    bytes_of_a_node: int
    """What a node reads of its assignments when it starts."""

    terms: int
    """How often a leader was elected: more than twice, and one lost its lease by computing."""


def measure(nodes: int, tasks: int, deaths: Iterable[int] = (1, 100)) -> Scale:
    """Place `tasks` on `nodes`, and let as many nodes die as `deaths` says, one change after another, then the leader.

    What the leader computes takes as much of the fleet's time as it takes this processor.
    """

    async def trial() -> Scale:
        return await ScaleTrial(nodes, tasks).run(list(deaths))

    with asyncio.Runner(loop_factory=ChargedLoop) as runner:
        return runner.run(trial())


class ChargedLoop(virtual.VirtualLoop):
    """A virtual loop on which whatever runs takes the processor time that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self._spared = 0.0
        self.asides = 0
        """Computations that pass beside it now."""

    def spare(self, seconds: float) -> None:
        """Do not charge these seconds, spent by the running callback: they belong to another machine, or pass beside
        the loop."""
        self._spared += seconds

    async def aside(self, work: Callable[[], T]) -> T:
        """What `work` returns; its time passes while the loop goes on."""
        began = time.process_time()
        result = work()
        spent = time.process_time() - began
        self.spare(spent)
        self.asides += 1
        try:
            await asyncio.sleep(spent)
        finally:
            self.asides -= 1
        return result

    def call_soon(  # type: ignore[override]  # as `VirtualLoop` says
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> virtual.VirtualHandle:
        return super().call_soon(self._charged, callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> virtual.VirtualHandle:
        return super().call_later(delay, self._charged, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> virtual.VirtualHandle:
        return super().call_at(when, self._charged, callback, *args, context=context)

    def _charged(self, callback: Callable[..., Any], *args: Any) -> None:
        self._spared = 0.0
        began = time.process_time()
        try:
            callback(*args)
        finally:
            self.now += max(0.0, time.process_time() - began - self._spared)


def _charged_loop() -> ChargedLoop:
    """The loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ChargedLoop)
    return loop


class _Store(SimStore):
    """The leader's way to the store, on which the store's own time is taken."""

    spent = 0.0

    def _commit(self, writes: tuple[Write, ...], expect: tuple[Expect, ...]) -> Revision:
        before = time.process_time()
        try:
            return super()._commit(writes, expect)
        finally:
            spent = time.process_time() - before
            self.spent += spent
            _charged_loop().spare(spent)


class ScaleTrial:
    """One fleet."""

    def __init__(self, nodes: int, tasks: int) -> None:
        self._world = World(0)
        self._nodes = [NodeId(f"n{number:05}") for number in range(nodes)]
        self._resources = tasks // REPLICAS
        self._slots = int(tasks / nodes * ROOM)
        self._commits = self._writes = self._bytes = self._placed = self._terms = 0
        self._last = 0.0
        self._world.network.committed = self._count

    async def run(self, deaths: list[int]) -> Scale:
        """Everything, one change after the other."""
        nodes = len(self._nodes)
        self._fill()
        leader, store = self._lead("leader")
        costs = [await self._cost("initial placement", store, ())]
        size = self._size(self._nodes[-1])
        for count in deaths:
            dying = [self._nodes.pop(0) for _ in range(count)]
            what = "one node dies" if count == 1 else f"{count} nodes die"
            costs.append(await self._cost(what, store, dying))
        leader.crash()
        _, store = self._lead("next leader")
        costs.append(await self._cost("the leader and one node die", store, [self._nodes.pop(0)]))
        placed = sum(1 for _ in self._assignments())
        await self._world.end()
        wanted = self._resources * REPLICAS
        return Scale(nodes, wanted, tuple(costs), wanted - placed, size, self._terms)

    def _lead(self, name: str) -> tuple[Machine, _Store]:
        """A machine that leads as soon as nobody else does, and its way to the store."""
        machine = self._world.start(name, supervising(self._world, SupervisorConfig(), _charged_loop().aside))
        store = machine.store = _Store(self._world.network, machine.name, machine.clock)
        return machine, store

    async def _cost(self, what: str, store: _Store, dying: Iterable[NodeId]) -> Cost:
        universe = self._world.universe
        universe.compact(universe.revision)  # compact as retention does, or the history would fill the memory
        self._commits = self._writes = self._bytes = self._placed = 0
        store.spent, began, spent = 0.0, self._world.time, time.process_time()
        self._last = began
        self._die(dying)
        quiet = 0.0
        while quiet < QUIET or not self._placed:
            await asyncio.sleep(0.5)
            is_busy = _charged_loop().asides or self._world.time - self._last < QUIET
            quiet = 0.0 if is_busy else quiet + 0.5
        leader = time.process_time() - spent - store.spent
        took = self._last - began
        return Cost(what, self._placed, took, leader, self._commits, self._writes, self._bytes)

    def _count(self, writes: Iterable[Write], revision: Revision) -> None:
        self._last = self._world.time
        self._commits += 1
        for write in writes:
            self._writes += 1
            self._bytes += len(write.key)
            if isinstance(write, Put):
                self._bytes += len(write.value)
                self._placed += write.key.startswith(keys.ASSIGNMENTS)
                self._terms += write.key == keys.LEADER

    # The fleet

    def _fill(self) -> None:
        """Have nodes and resources there, behind the network's back."""
        records = iter(self._records())
        while batch := [Put(key, codec.encode(record)) for key, record in islice(records, TOGETHER)]:
            self._world.universe.commit(batch, ())

    def _records(self) -> Iterator[tuple[Key, object]]:
        yield keys.kind(KIND.name), KIND
        for number, node in enumerate(self._nodes):
            yield keys.node(node), self._node(node, number)
            yield keys.status(node), _STATUS
        for number in range(self._resources):
            id = f"{number:07}"
            yield keys.resource(KIND.name, id), ResourceRecord(uid=id, kind=KIND.name, id=id, created=EPOCH)

    def _node(self, id: NodeId, number: int) -> Node:
        return Node(
            id=id,
            session=SessionId(f"s{id}"),
            lease=LeaseId(""),
            role=Role.WORK,
            home=id,
            host=id,
            pid=1,
            since=EPOCH,
            lease_ttl=TTL,
            labels={"zone": f"z{number % 5}"},
            slots=self._slots,
        )

    def _die(self, nodes: Iterable[NodeId]) -> None:
        """Their leases end: their keys go."""
        for node in nodes:
            self._world.universe.commit([Delete(keys.node(node)), Delete(keys.status(node))], ())

    def _assignments(self) -> Iterator[Key]:
        alive = set(self._nodes)
        for entry in self._world.universe.scan(keys.ASSIGNMENTS, None, None, None).entries:
            if entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")[0] in alive:
                assert not codec.decode(Assignment, entry.value).stopping
                yield entry.key

    def _size(self, node: NodeId) -> int:
        entries = self._world.universe.scan(keys.assignments(node), None, None, None).entries
        return sum(len(entry.key) + len(entry.value) for entry in entries)


_STATUS = NodeStatus(
    app="sim",
    generation=1,
    previous=None,
    reloading=None,
    pools=[],
    tasks_ordered=0,
    tasks_running=0,
    kinds=[KIND.name],
)
