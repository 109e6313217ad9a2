"""A tryout: a sketched fleet in virtual time, the operators' actions on it, and the effect on its work.

Each node is a machine with the product's own session, election, supervisor, assignments and jobs; tasks start a moment
after they are assigned, and runs take as long as the sketch says. Once all is in place, nodes are killed and others
join. Nothing else goes wrong: faults are for the scenarios. A seed draws the delays of the network, how clocks are off
and the moments at which things happen, so several of them show what is chance.

Streams are drawn as what they are to the supervisor, a resource for each group of tasks (ADR 43); no records flow.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_kinds, publish_status
from rota.jobs.core.records import JobSpec, RunOrder
from rota.jobs.sim import Jobs
from rota.kit.time import durations, virtual
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.errors import NotFound
from rota.model.ids import NodeId, Revision
from rota.model.node import NodeStatus, Role
from rota.resources.core.records import Affinity, KindRecord, ResourceRecord, ResourceStatus
from rota.resources.node.assignments import follow_assignments
from rota.resources.sim import InSession, SimWork
from rota.sim.leading import candidate
from rota.sim.network import SimStore
from rota.sim.sketch import NodeGroup, Sketch
from rota.sim.world import EPOCH, Machine, SimProcess, World, status_of
from rota.store.port import Put, Write
from rota.streams.core.records import kind_of

SETTLES = 30.0
"""Seconds that a fleet has to come up before the first action."""

LOOK = 1.0
"""Seconds between samples."""

_LONG = timedelta(hours=1)


class TryoutSample(msgspec.Struct, frozen=True):
    """The state at one moment."""

    at: float
    wanted: int
    running: int
    nodes: int
    full: int
    """Nodes without a free slot."""

    waiting: int
    """Runs that are due and have no node."""

    @property
    def coverage(self) -> float:
        """The part of the tasks that ran."""
        return self.running / self.wanted if self.wanted else 1.0


class TryoutOutcome(msgspec.Struct, frozen=True):
    """The result of one seed."""

    seed: int
    samples: tuple[TryoutSample, ...]
    moves: int
    """Tasks that moved to another node."""

    uncovered_s: float
    """Task-seconds that were missing after the fleet had come up."""

    recovered_s: float | None
    """Seconds from the first action until everything ran that can; None if that was not seen."""

    pending: dict[str, str]
    """Resources with too few tasks in the end, and why."""

    used: dict[str, tuple[int, int]]
    """Node → slots in use in the end, and how many it has."""

    runs: dict[str, int]
    """State → runs of jobs."""

    longest_wait_s: float
    """The longest that a run waited for a node after it was due."""


def tryout(sketch: Sketch, seed: int, kill: Sequence[str] = (), add: int = 0) -> TryoutOutcome:
    """Run a sketch once, with these nodes killed and `add` nodes like the first group added."""
    unknown = set(kill) - set(sketch.node_names())
    if unknown:
        raise NotFound(f'there is no node "{min(unknown)}" to kill; there are {", ".join(sketch.node_names())}')

    async def run() -> TryoutOutcome:
        return await Tryout(sketch, World(seed)).run(kill, add)

    return virtual.run(run())


class Tryout:
    """One fleet that is tried out."""

    def __init__(self, sketch: Sketch, world: World) -> None:
        self._sketch, self._world = sketch, world
        self._takes = {job.name: job.seconds for job in sketch.jobs}
        self._jobs = Jobs(world, None, jobs=_jobs(sketch), lasts=self._lasts)
        self._config = SupervisorConfig(warm_up=sketch.ttl, rebalance=sketch.rebalance)
        self._kinds = _kinds(sketch)
        self._records = _records(sketch)
        replicas = {kind.name: kind.replicas for kind in self._kinds}
        self._wanted = sum(replicas[record.kind] for record in self._records)
        self._groups = {name: group for group in sketch.nodes for name in group.names()}
        self._work: dict[SimProcess, SimWork] = {}
        self._where: dict[str, str] = {}
        self._samples: list[TryoutSample] = []
        self._moves = 0

    async def run(self, kill: Sequence[str], add: int) -> TryoutOutcome:
        """The whole of it."""
        world, ends = self._world, self._sketch.length.total_seconds()
        world.network.committed = self._see
        client = SimStore(world.network, "client", world.store_clock)
        for name in self._sketch.node_names():
            world.start(name, self._program)
        while not self._all_are_there():  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.2)
        for record in self._records:
            await client.commit(Put(keys.resource(record.kind, record.id), codec.encode(record)))
        await self._jobs.declare(client)
        sampling = asyncio.create_task(self._sample())
        began = min(SETTLES, ends / 3) + world.random.uniform(0.0, 3.0)
        await asyncio.sleep(began - world.time)
        await self._do(kill, add)
        await asyncio.sleep(max(0.0, ends - world.time))
        sampling.cancel()
        outcome = self._outcome(began if kill or add else None)
        await world.end()
        return outcome

    def _all_are_there(self) -> bool:
        """Has every node joined and reported what it can run? Otherwise the first one would get everything."""
        return all(
            self._world.universe.get(keys.status(NodeId(machine.name))) is not None for machine in self._world.machines
        )

    async def _do(self, kill: Sequence[str], add: int) -> None:
        """Kill these at once, and let the others join one after the other."""
        world, like = self._world, self._sketch.nodes[0]
        for machine in world.machines:
            if machine.name in kill:
                machine.crash()
        for number in range(1, add + 1):
            await asyncio.sleep(world.random.uniform(0.1, 2.0))
            name = f"added-{number}"
            self._groups[name] = like
            world.start(name, self._program)

    # What is seen

    async def _sample(self) -> None:
        while True:
            self._samples.append(self._now())
            await asyncio.sleep(LOOK)

    def _now(self) -> TryoutSample:
        alive = self._alive()
        used = self._used()
        running = {task for machine in alive for task in self._work[machine.process].running}
        return TryoutSample(
            at=round(self._world.time, 1),
            wanted=self._wanted,
            running=len(running),
            nodes=len(alive),
            full=sum(used[machine.name] >= self._group(machine.name).slots for machine in alive),
            waiting=self._jobs.waiting,
        )

    def _see(self, writes: Iterable[Write], revision: Revision) -> None:
        self._jobs.check(writes, revision)
        for write in writes:
            if write.key.startswith(keys.ASSIGNMENTS) and isinstance(write, Put):
                node, _, task = write.key.removeprefix(keys.ASSIGNMENTS).partition("/")
                self._moves += self._where.get(task, node) != node
                self._where[task] = node

    def _outcome(self, began: float | None) -> TryoutOutcome:
        up = min(SETTLES, self._sketch.length.total_seconds() / 3)
        best = max((sample.running for sample in self._samples[-5:]), default=0)
        used = self._used()
        over = self._jobs.over()
        waits = [(run.dispatched - run.due).total_seconds() for run in over if run.dispatched]
        return TryoutOutcome(
            seed=self._world.seed,
            samples=tuple(self._samples),
            moves=self._moves,
            uncovered_s=sum(sample.wanted - sample.running for sample in self._samples if sample.at >= up) * LOOK,
            recovered_s=None if began is None else self._recovered(began, best),
            pending=self._pending(),
            used={machine.name: (used[machine.name], self._group(machine.name).slots) for machine in self._alive()},
            runs=dict(Counter(run.state.value for run in over)),
            longest_wait_s=round(max(waits, default=0.0), 1),
        )

    def _recovered(self, began: float, best: int) -> float | None:
        """How long it took until as many tasks ran, permanently, as in the end."""
        short = [sample.at for sample in self._samples if sample.at >= began and sample.running < best]
        return round(max(0.0, short[-1] + LOOK - began), 1) if short else 0.0

    def _alive(self) -> list[Machine]:
        return [machine for machine in self._world.machines if not machine.process.is_dead]

    def _used(self) -> Counter[str]:
        costs = {f"{record.kind}/{record.id}": record.cost for record in self._records}
        used: Counter[str] = Counter()
        for entry in self._world.universe.scan(keys.ASSIGNMENTS, None, None, None).entries:
            node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
            used[node] += costs.get(task.rpartition("#")[0], 1)
        return used

    def _pending(self) -> dict[str, str]:
        found = {}
        for entry in self._world.universe.scan(keys.RESOURCE_STATUS, None, None, None).entries:
            status = codec.decode(ResourceStatus, entry.value)
            if status.pending and status.assigned < status.replicas:
                found[entry.key.removeprefix(keys.RESOURCE_STATUS)] = status.pending
        return found

    # What runs on each machine

    def _group(self, name: str) -> NodeGroup:
        return self._groups[name]

    def _lasts(self, order: RunOrder) -> float:
        return self._takes.get(order.job, 1.0)

    async def _program(self, machine: Machine) -> None:
        jitter, group = self._world.random.random, self._group(machine.name)
        work = self._work[machine.process] = SimWork(self._world, machine, is_trusting=False, pace=1.0)
        take_part_in_jobs = self._jobs.on(machine, group.executors)

        async def body(session: NodeSession) -> None:
            node, store = session.node, machine.store

            try:
                async with asyncio.TaskGroup() as parts:
                    within = InSession(work, session.keeper)
                    parts.create_task(follow_assignments(store, node.id, within, jitter, look=LOOK))
                    parts.create_task(publish_status(store, session, self._status))
                    parts.create_task(publish_kinds(store, session, lambda: self._kinds))
                    parts.create_task(candidate(self._world, machine, store, session, self._config).run())
                    parts.create_task(take_part_in_jobs(session))
            finally:
                work.end_session()

        identity = Identity(
            node=NodeId(machine.name),
            home=machine.name,
            role=Role.BOTH,
            lease_ttl=self._sketch.ttl,
            slots=group.slots,
            executors=group.executors,
            labels=group.labels,
        )
        async with asyncio.TaskGroup() as parts:
            parts.create_task(work.run())
            parts.create_task(in_session(machine.store, identity, machine.clock, body, jitter))

    def _status(self) -> NodeStatus:
        return status_of("sketch", self._kinds)


def _kinds(sketch: Sketch) -> list[KindRecord]:
    plain = [(group.name, group.replicas, group.exclusive, group.labels) for group in sketch.resources]
    streams = [(kind_of(each.name), each.replicas, False, each.labels) for each in sketch.streams]
    return [
        KindRecord(
            name=name,
            app="sketch",
            replicas=replicas,
            exclusive=is_exclusive,
            runs_alone=is_exclusive,
            silent_after=_LONG,
            start_within=_LONG,
            labels=labels,
        )
        for name, replicas, is_exclusive, labels in (*plain, *streams)
    ]


def _records(sketch: Sketch) -> list[ResourceRecord]:
    rooms = [
        ResourceRecord(
            uid=f"{group.name}-{number}",
            kind=group.name,
            id=str(number),
            created=EPOCH,
            priority=group.priority,
            cost=group.cost,
            tags=group.tags,
            affinity=Affinity(**group.affinity),
        )
        for group in sketch.resources
        for number in range(1, group.count + 1)
    ]
    groups = [
        ResourceRecord(uid=f"{each.name}-{number}", kind=kind_of(each.name), id=f"group{number}", created=EPOCH)
        for each in sketch.streams
        for number in range(1, each.tasks + 1)
    ]
    return [*rooms, *groups]


def _jobs(sketch: Sketch) -> list[JobSpec]:
    return [
        JobSpec(name=job.name, every=durations.parse(job.every), concurrency=job.concurrency, argv=("x",))
        for job in sketch.jobs
    ]
