"""Scenario: a fleet runs a stream, and the writer of a record that others depend on may die of it.

Nodes run the product's own session, election, supervisor, stream keeper and stream tasks, over a simulated store; the
source and the rows are in memory. Records come all the while. The number of groups changes, groups are handed off, the
stream is suspended and resumed, offsets are set, the source goes away and gets partitions, workers are killed. Besides
the faults of all scenarios, nodes die before, during and after the commits of checkpoints, agreements and publishes.
What must hold:

- At each accepted publish, every partition's range starts where the output has come to.
- What a group has agreed never changes, and no two groups read a partition at a time.
- Once the faults have stopped, everything is published, and when the stream is suspended no group is left.
- In the end every record is in the output as often as the moves of its offset say: once, where there were none.

`broken="offsets"` publishes without looking at the offsets, `broken="end"` takes records past an agreed end,
`broken="resume"` goes on one record too late in a group that others began, and `broken="status"` lets the leader write
groups without expecting the stream's status; the scenario must find all four.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from rota.fleet.leading.term import Term
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_kinds, publish_status, publish_streams
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import LeaseId, NodeId, Revision
from rota.model.node import Role
from rota.outputs.memory import MemoryCommitter
from rota.resources.core.records import KindRecord
from rota.resources.node.assignments import follow_assignments
from rota.sim.faults import rage
from rota.sim.leading import candidate, nobody
from rota.sim.network import SimStore
from rota.sim.world import Machine, SimProcess, World
from rota.sources.memory import topic
from rota.sources.port import NewRecord
from rota.store.port import Delete, Entry, Expect, Put, Write
from rota.streams.core.manifest import CommittedOffset, Manifest
from rota.streams.core.proof import Walk
from rota.streams.core.records import Group, MoveRecord, Phase, StreamStatus, kind_of
from rota.streams.core.spec import StreamSpec, declared
from rota.streams.fleet import verbs
from rota.streams.fleet.keep import keep_streams
from rota.streams.sim.node import PerilousStore, Perils, SimStreams

TTL = timedelta(seconds=10)
SLOTS = 32
FAULTS_END = 150.0
CONFIG = SupervisorConfig(warm_up=timedelta(seconds=5))
CALM = 150
"""Seconds that a fleet may take to recover, and to publish everything."""

T = TypeVar("T")
STREAM = "clicks"
BROKEN = ("offsets", "end", "resume", "status")
"""What can be broken on purpose."""

_LONG = timedelta(hours=1)
KIND = KindRecord(
    name=kind_of(STREAM),
    app="sim",
    replicas=2,
    exclusive=False,
    runs_alone=True,
    silent_after=_LONG,
    start_within=_LONG,
)


class Streams:
    """One run of the scenario."""

    RULED = (keys.MANIFESTS, keys.STREAM_OFFSETS, keys.STREAM_GROUPS)
    """What its rules are about: below which keys."""

    def __init__(self, world: World, broken: str | None, *, pace: float = 1.0) -> None:
        """`pace`: by how much longer than here it takes from one thing to the next."""
        self.world, self._broken, self._pace = world, broken, pace
        self._tell_every = min(pace, 12.0)
        """Seconds between the statuses of a task; the timeouts that wait for them are longer."""

        self._name = f"sim-{world.seed}"
        self._topic = topic(self._name)
        self.perils = Perils(world)
        self._work: dict[SimProcess, SimStreams] = {}
        self._at: dict[int, int] = {}
        self._groups: dict[str, Group] = {}
        self._publishes = self._killed = 0

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        return {
            "records": sum(each.end for each in self._topic.partitions),
            "publishes": self._publishes,
            "perils at a step": self.perils.strikes.total(),
            "workers killed": self._killed,
        }

    async def run(self) -> None:
        """Run the scenario to its end."""
        world = self.world
        world.network.committed = self.check
        self.prepare(FAULTS_END)
        for number in range(world.random.randint(3, 5)):
            world.start(f"n{number}", self._program)
        client = SimStore(world.network, "client", world.store_clock)
        busy = [asyncio.create_task(each) for each in self.people(client)]
        await rage(world, until=FAULTS_END, pause=(1.0, 15.0), length=(0.5, 30.0))
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        await self.recover(client)

    def prepare(self, faults_end: float) -> None:
        """Have a source, and a stream that reads it."""
        random.seed(self.world.seed)  # where tasks and the leader wait a little, they draw from there
        MemoryCommitter.written.pop(self._name, None)
        self._topic.make_anew(4)
        self._topic.start()
        self._spec = StreamSpec.parse(
            name=STREAM,
            source=f"memory://{self._name}",
            sink=f"memory://{self._name}",
            start="earliest",
            tasks=2,
            replicas=2,
            duration=f"{8 * self._tell_every:g}s",
            checkpoint_every=f"{2 * self._tell_every:g}s",
            completion_timeout="20s",
            is_async=False,
        )
        self.record = declared("sim", self._spec)
        self.perils.until = faults_end

    async def recover(self, client: SimStore) -> None:
        """The faults are over: everything is published, and then nothing is left of a suspended stream."""
        await self._calm_down(client)
        await self._settle(client)
        self._check_everything()

    # What runs on each machine

    def work(self, machine: Machine, store: SimStore, lease: Callable[[], LeaseId | None]) -> SimStreams:
        """The stream tasks of the present process of a machine."""
        work = self._work[machine.process] = SimStreams(
            machine, store, self._spec, self._broken, lease, tell_every=self._tell_every
        )
        return work

    def careless(self, term: Term) -> Term:
        """The term as the keeper of streams gets it: without a safeguard, if that is wanted."""
        if self._broken == "status":
            return _CarelessTerm(term)
        return term

    async def _program(self, machine: Machine) -> None:
        jitter = self.world.random.random
        store = PerilousStore(self.world, machine, self.perils)
        lease: list[LeaseId] = []
        work = self.work(machine, store, lambda: lease[-1] if lease else None)

        async def body(session: NodeSession) -> None:
            node, keeper = session.node, session.keeper

            def streams(term: Term) -> list[Coroutine[Any, Any, None]]:
                return [keep_streams(self.careless(term), machine.clock, nobody)]

            lease.append(keeper.lease)
            try:
                async with asyncio.TaskGroup() as parts:
                    parts.create_task(follow_assignments(store, node.id, work, jitter))
                    parts.create_task(publish_status(store, session, work.status))
                    parts.create_task(publish_kinds(store, session, lambda: [KIND]))
                    parts.create_task(publish_streams(store, session, lambda: [self.record]))
                    parts.create_task(candidate(self.world, machine, store, session, CONFIG, streams).run())
            finally:
                lease.clear()

        identity = Identity(node=NodeId(machine.name), home=machine.name, role=Role.BOTH, lease_ttl=TTL, slots=SLOTS)
        await in_session(store, identity, machine.clock, body, jitter)

    # What happens to them

    def people(self, store: SimStore) -> list[Coroutine[Any, Any, None]]:
        """Change the stream and its source until cancelled."""
        return [self._append(), self._ask(store), self._disturb()]

    async def _append(self) -> None:
        chance = self.world.random
        while True:
            await asyncio.sleep(chance.uniform(0.05, 1.5) * self._pace)
            partition = chance.randrange(len(self._topic.partitions))
            self._topic.append(partition, [NewRecord(value=b"x")] * chance.randint(1, 40))
            if chance.random() < 0.05:
                self._topic.leave_gap(partition, chance.randint(1, 5))

    async def _ask(self, store: SimStore) -> None:
        """Make one random request, as an operator would."""
        chance = self.world.random
        while True:
            await asyncio.sleep(chance.uniform(1, 12) * self._pace)
            with suppress(Conflict, Unavailable, Unknown):
                match chance.randrange(6):
                    case 0 | 1:
                        await verbs.scale(store, STREAM, "somebody", chance.randint(1, 4))
                    case 2 | 3:
                        await verbs.hand_off(store, STREAM, "somebody", [chance.randrange(3)])
                    case 4:
                        await verbs.suspend(store, STREAM, "somebody")
                        await asyncio.sleep(chance.uniform(1, 10))
                        await verbs.resume(store, STREAM, "somebody")
                    case _:
                        await self._reset(store)

    async def _reset(self, store: SimStore) -> None:
        """Set an offset, back or forward a little."""
        partition = self.world.random.choice(sorted(self._at) or [0])
        end, at = self._topic.partitions[partition].end, self._at.get(partition, 0)
        to = self.world.random.randint(max(0, at - 50), max(at, end))
        await verbs.reset(store, STREAM, "somebody", partitions={partition: str(to)})

    async def _disturb(self) -> None:
        """Workers die, the dead come back, the source goes away, and has another partition."""
        chance, world = self.world.random, self.world
        while True:
            await asyncio.sleep(chance.uniform(0.5, 4) * self._pace)
            for machine in world.nodes:
                if machine.process.is_dead and chance.random() < 0.4:
                    machine.restart()
            match chance.randrange(8):
                case 0 | 1 | 2:
                    self._kill_a_worker()
                case 3:
                    self._topic.stop()
                    await asyncio.sleep(chance.uniform(0.5, 8))
                    self._topic.start()
                case 4 if len(self._topic.partitions) < 6:
                    self._topic.grow(len(self._topic.partitions) + 1)
                case _:
                    pass

    def _kill_a_worker(self) -> None:
        up = [machine for machine in self.world.nodes if machine.is_up]
        machine = self.world.random.choice(up) if up else None
        if machine and (task := self._work[machine.process].kill(self.world.random.choice)):
            self._killed += 1
            self.world.tell(f"a worker of {machine.name} is killed: {task}")

    async def _calm_down(self, store: SimStore) -> None:
        """Repair what is outside of the fleet, and set the clocks right."""
        self._topic.start()
        for machine in self.world.machines:
            machine.clock.step(self.world.store_clock.wall() - machine.clock.wall())
        await verbs.resume(store, STREAM, "somebody")
        await verbs.scale(store, STREAM, "somebody", None)

    async def _settle(self, store: SimStore) -> None:
        """All that came is published; then the stream is suspended, and nothing is left of it."""
        await self._until(self._is_published)
        if not self._is_published():
            self.world.violate(f"after the faults {self._left()}")
        await verbs.suspend(store, STREAM, "somebody")
        await self._until(lambda: not self._groups)
        for group in self._groups.values():
            self.world.violate(f"group {group.id} is left {group.phase}: {group.why}")

    async def _until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(CALM):
            if is_so():
                return
            await asyncio.sleep(1)

    def _is_published(self) -> bool:
        return all(self._at.get(number, 0) >= each.end for number, each in enumerate(self._topic.partitions))

    def _left(self) -> str:
        ends = {number: each.end for number, each in enumerate(self._topic.partitions)}
        entry = self.world.universe.get(keys.STREAM_STATUS + STREAM)
        said = codec.decode(StreamStatus, entry.value) if entry else None
        detail = f"{said.state}: {said.detail or (said.errors[-1].why if said.errors else '')}" if said else "unknown"
        return f"{self._at} of {ends} is published; the stream is {detail}"

    # The rules

    def check(self, writes: Iterable[Write], revision: Revision) -> None:
        """The rules, at each accepted commit."""
        written = list(writes)
        manifests = [
            codec.decode(Manifest, write.value)
            for write in written
            if isinstance(write, Put) and write.key.startswith(keys.MANIFESTS)
        ]
        for manifest in manifests:
            self._publishes += 1
            for each in manifest.ranges:
                if self._at.get(each.partition) != each.start:
                    at = self._at.get(each.partition)
                    self.world.violate(f"partition {each.partition} is at {at}, and {each.start} was published")
        for write in written:
            if write.key.startswith(keys.STREAM_OFFSETS) and isinstance(write, Put):
                self._at[int(write.key.rpartition("/")[2])] = codec.decode(CommittedOffset, write.value).offset
            elif write.key.startswith(keys.STREAM_GROUPS):
                self._check_group(write)
        if any(write.key.startswith(keys.STREAM_GROUPS) for write in written):
            self._check_readers()

    def _check_group(self, write: Write) -> None:
        id = write.key.rpartition("/")[2]
        before = self._groups.pop(id, None)
        if isinstance(write, Delete):
            return
        after = self._groups[id] = codec.decode(Group, write.value)
        if before is None:
            return
        if after.sequences[: len(before.sequences)] != before.sequences:
            self.world.violate(f"group {id} had agreed on {before.sequences}, and now on {after.sequences}")
        if before.starts and after.starts != before.starts:
            self.world.violate(f"group {id} started at {before.starts}, and now at {after.starts}")

    def _check_readers(self) -> None:
        reading = Counter(
            partition
            for group in self._groups.values()
            if group.phase in (Phase.READING, Phase.PAUSING)
            for partition in group.partitions
        )
        for partition, count in reading.items():
            if count > 1:
                self.world.violate(f"{count} groups read partition {partition}")

    def _check_everything(self) -> None:
        """Every record is there as often as it should be."""
        universe = self.world.universe
        manifests = _all(Manifest, universe.scan(keys.MANIFESTS, None, None, None).entries)
        moves = _all(MoveRecord, universe.scan(keys.STREAM_MOVES, None, None, None).entries)
        kept = MemoryCommitter.written[self._name]
        rows = Counter((row["part"], row["at"]) for each in manifests for row in kept[each.id])
        for number, each in enumerate(self._topic.partitions):
            spans = [
                (one.start, one.end) for manifest in manifests for one in manifest.ranges if one.partition == number
            ]
            jumps = [(move.before[number], move.after[number]) for move in moves if number in move.after]
            walk = Walk(spans, jumps, self._at.get(number, 0))
            for flaw in walk.flaws(number, (0, each.end)):
                self.world.violate(str(flaw))
            for record in each.records:
                times, due = rows.pop((number, record.offset), 0), walk.due(record.offset)
                if times != due:
                    self.world.violate(f"partition {number}: record {record.offset} has {times} rows instead of {due}")
        for number, offset in rows:
            self.world.violate(f"partition {number}: there is a row of record {offset}, which never was")


class _CarelessTerm(Term):
    """Does not expect the stream's status where it writes groups."""

    def __init__(self, term: Term) -> None:
        super().__init__(term.number, term.store, term.keeper, term.incarnation)
        self.fence = ()  # that of the term itself stands

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return await super().commit(
            *writes, expect=[each for each in expect if not each.key.startswith(keys.STREAM_STATUS)]
        )


def _all(kind: type[T], entries: Iterable[Entry]) -> list[T]:
    return [codec.decode(kind, entry.value) for entry in entries]
