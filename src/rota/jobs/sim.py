"""Scenario: equal peers run jobs, with everything going wrong.

Nodes run the product's own session, scheduler and owner; what stands in for processes is `SimRuns`. Their wall clocks
are wrong by up to five minutes and step. Between them is a network that delays and loses starts and their answers.
People start runs, interrupt some, add jobs and delete them, and old runs are cleared away all the while. Faults rage,
then stop. What must hold:

- A due time becomes one run, whatever happened to the run before, and a run's id is used once.
- A run has one result: once it is over neither its state nor its epoch changes.
- An attempt is executed at most once, and never more runs of a job are bound than its limit allows.
- Once the faults have stopped and nothing more is due, no run is left; and every due time that the cursor has passed
  has had its run, or is among those that one was recorded for.

`broken="cursor"` makes nodes write runs without expecting the cursor as it was, `broken="owner"` makes them write
without expecting the run; the scenario must find both.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any

from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_status
from rota.jobs.core.due import next_due, times
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, Origin, Outcome, RunOrder, RunRecord, RunState
from rota.jobs.fleet import verbs
from rota.jobs.fleet.ends import PendingOutcomes
from rota.jobs.fleet.part import JobsDependencies, JobsPart
from rota.jobs.fleet.retention import OldRuns
from rota.jobs.fleet.writing import Heed, Step, StepWriter
from rota.link.memory import Mesh
from rota.link.port import NodeLink
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.model.ids import Key, NodeId, Revision
from rota.model.node import NodeStatus, Role
from rota.sim.faults import rage
from rota.sim.network import SimNetwork, SimStore
from rota.sim.world import Machine, World
from rota.store.port import Delete, Put, Write

TTL = timedelta(seconds=10)
EXECUTORS = 4
FAULTS_END = 180.0
RECOVERY = 2 * TTL.total_seconds() + 60
STANDSTILL = timedelta(seconds=90)
"""Seconds after which a due time must be decided."""

SKEW = timedelta(minutes=5)
BROKEN = ("cursor", "owner")
"""What can be broken on purpose."""

_SECOND = timedelta(seconds=1)
JOBS = [
    JobSpec(name="tick", every=2 * _SECOND, argv=("x",)),
    JobSpec(name="skipping", every=7 * _SECOND, misfire="skip", argv=("x",)),
    JobSpec(name="some", every=11 * _SECOND, misfire="all(3)", concurrency=2, retries=2, argv=("x",)),
    JobSpec(name="spread", every=5 * _SECOND, jitter=3 * _SECOND, concurrency=None, argv=("x",)),
    JobSpec(name="minutely", cron="* * * * *", tz="Australia/Lord_Howe", retries=1, argv=("x",)),
    JobSpec(name="next", after=("tick", "some"), argv=("x",)),
    JobSpec(name="hand", concurrency=None, retries=1, argv=("x",)),
]


class SimRuns:
    """The runs on a machine, in one life of its program."""

    def __init__(self, scenario: "Jobs", machine: Machine, executors: int) -> None:
        self._scenario, self._machine, self._random = scenario, machine, scenario.world.random
        self.executors = executors
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def free(self) -> int:
        return self.executors - len(self._running)

    def start_many(self, orders: Sequence[RunOrder], ended: Callable[[RunOrder, Outcome], None]) -> list[str]:
        return [self._start(order, partial(ended, order)) for order in orders]

    def _start(self, order: RunOrder, ended: Callable[[Outcome], None]) -> str:
        if order.run in self._running:
            return "it runs already"
        if self.free < 1:
            return "all executors are taken"
        self._scenario.executed(order)
        self._running[order.run] = asyncio.create_task(self._execute(order, ended))
        return ""

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        if task := self._running.get(run):
            task.cancel()
        return task is not None

    def end_session(self) -> None:
        """Attempts do not outlive their session for long; their outcomes are reported even so."""
        for task in self._running.values():
            task.cancel()

    async def _execute(self, order: RunOrder, ended: Callable[[Outcome], None]) -> None:
        took, state = self._scenario.lasts(order)
        try:
            await asyncio.sleep(took)
        except asyncio.CancelledError:
            state = RunState.INTERRUPTED
        finally:
            del self._running[order.run]
        ended(Outcome(state=state, seconds=took))


class Wires:
    """The network between nodes, with the same disturbances as the one to the store."""

    def __init__(self, network: SimNetwork, random: Random) -> None:
        self._network, self._random = network, random
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        """Deliver later, or never."""
        weather = self._network.weather
        is_cut = sender in weather.cut_up or receiver in weather.cut_down
        if is_cut or self._random.random() < weather.loss:
            return
        for _ in range(2 if weather.repeat and self._random.random() < weather.repeat else 1):
            self._loop.call_later(self._random.uniform(*weather.delay), deliver, context=self._context)


class SimLinkHandler:
    """A node's end of the link: it takes starts."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.part: JobsPart | None = None

    def presence(self) -> Presence:
        if self.part is None:
            raise Unavailable(f"node {self._machine.name} is in no session")
        return Presence(node=self.part.me.id, session=self.part.me.session)

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        return self.part.dispatch(start) if self.part else AttemptRefused(why="it is in no session")

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        return LogPiece(b"", is_last=False)


class Careless(StepWriter):
    """A writer that leaves expectations out."""

    left_out: Key = ""

    async def write(self, steps: Iterable[Step], heed: Heed = lambda _: None) -> dict[Step, Revision]:
        wanted = {step: _without(step, self.left_out) for step in steps}
        written = await super().write(wanted.values(), heed)
        return {step: written[careless] for step, careless in wanted.items() if careless in written}


class _CarelessOfCursors(Careless):
    left_out = keys.JOB_CURSORS


class _CarelessOfRuns(Careless):
    left_out = keys.LIVE_RUNS


WRITERS: Mapping[str | None, type[StepWriter]] = {
    None: StepWriter,
    "cursor": _CarelessOfCursors,
    "owner": _CarelessOfRuns,
}


class Jobs:
    """One run of the scenario."""

    RULED = (keys.LIVE_RUNS, keys.RUNS)
    """The key prefixes that its rules are about."""

    def __init__(
        self,
        world: World,
        broken: str | None,
        *,
        jobs: Sequence[JobSpec] = JOBS,
        pace: float = 1.0,
        lasts: Callable[[RunOrder], float] | None = None,
    ) -> None:
        """`pace`: the factor by which callers wait longer from one action to the next.

        `lasts` says how long a run takes; without it the duration and the outcome are random.
        """
        self.world, self._writer, self._jobs, self._pace = world, WRITERS[broken], jobs, pace
        self._lasts = lasts
        self._mesh = Mesh(Wires(world.network, world.random))
        self._executions: Counter[tuple[str, int]] = Counter()
        self._live: dict[str, RunRecord] = {}
        self._made: dict[str, RunRecord] = {}
        self._over: dict[str, RunRecord] = {}

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        states = Counter(run.state.value for run in self._over.values())
        late = sum(1 for run in self._over.values() if run.late)
        again = sum(1 for run in self._over.values() if run.earlier)
        return {
            "runs": len(self._made),
            "succeeded": states["succeeded"],
            "lost": states["lost"],
            "tried again": again,
            "with late outcomes": late,
        }

    async def run(self) -> None:
        """The whole story."""
        world = self.world
        world.network.committed = self.check
        for number in range(world.random.randint(3, 5)):
            machine = world.start(f"n{number}", self._program)
            machine.clock.step(world.random.uniform(-1, 1) * SKEW)
        client = SimStore(world.network, "client", world.store_clock)
        await self.declare(client)
        people = [asyncio.create_task(each) for each in self.people(client)]
        await rage(world, until=FAULTS_END, pause=(0.5, 12.0), length=(0.5, 35.0))
        for task in people:
            task.cancel()
        await asyncio.gather(*people, return_exceptions=True)
        await self.recover(client)

    async def recover(self, client: SimStore) -> None:
        """The faults are over: jobs go on, and once nothing more is due nothing is left."""
        await asyncio.sleep(RECOVERY)
        self._check_it_goes_on()
        await self._disable(client)
        await asyncio.sleep(RECOVERY)
        self._check_settled()

    # What runs on each machine

    async def _program(self, machine: Machine) -> None:
        take_part = self.on(machine)

        async def body(session: NodeSession) -> None:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(take_part(session))
                parts.create_task(publish_status(machine.store, session, _status))

        identity = Identity(
            node=NodeId(machine.name), home=machine.name, role=Role.BOTH, lease_ttl=TTL, executors=EXECUTORS
        )
        await in_session(machine.store, identity, machine.clock, body, self.world.random.random)

    @property
    def waiting(self) -> int:
        """Runs that are due and have no node."""
        return sum(not run.is_bound for run in self._live.values())

    def over(self) -> list[RunRecord]:
        """Runs that have ended."""
        return list(self._over.values())

    def lasts(self, order: RunOrder) -> tuple[float, RunState]:
        """How long a run takes, and its outcome."""
        if self._lasts is not None:
            return self._lasts(order), RunState.SUCCEEDED
        random = self.world.random
        took = random.choice((0.01, 0.05, 0.5, 3.0, random.uniform(0, 15)))
        return took, RunState.FAILED if random.random() < 0.1 else RunState.SUCCEEDED

    def on(self, machine: Machine, executors: int = EXECUTORS) -> Callable[[NodeSession], Coroutine[Any, Any, None]]:
        """The runs of a machine's present process, by session."""
        jitter = self.world.random.random
        runs, outcomes, answers = SimRuns(self, machine, executors), PendingOutcomes(), SimLinkHandler(machine)
        self._mesh.remove(machine.name)
        self._mesh.serve(machine.name, answers)

        async def body(session: NodeSession) -> None:
            link_to = partial(self._link, machine)
            around = JobsDependencies(runs, outcomes, machine.clock, _nobody, link_to, jitter=jitter)
            may_act = lambda: session.keeper.may_act  # noqa: E731
            part = JobsPart(machine.store, session.node, session.incarnation, may_act, around, self._writer)
            part.owner.tick *= min(12.0, max(1.0, self._pace / 1.5))
            answers.part = part
            try:
                await part.run()
            finally:
                answers.part = None
                runs.end_session()

        return body

    def _link(self, machine: Machine, node: NodeId) -> NodeLink:
        return self._mesh.link(node, sender=machine.name, meant=Whom(node=node))

    def executed(self, order: RunOrder) -> None:
        """An attempt has begun somewhere."""
        self._executions[order.run, order.attempt] += 1
        if self._executions[order.run, order.attempt] > 1:
            self.world.violate(f"{order.run}, attempt {order.attempt} was executed twice")

    # Callers

    async def declare(self, store: SimStore) -> None:
        """Add the jobs."""
        for job in self._jobs:
            while True:
                with suppress(Conflict, Unavailable, Unknown):
                    await verbs.put_job(store, job, Origin.API, "somebody")
                    break

    async def _disable(self, store: SimStore) -> None:
        for name in self._records():
            while True:
                with suppress(Conflict, Unavailable, Unknown):
                    await verbs.disable(store, name, "somebody")
                    break

    def people(self, store: SimStore) -> list[Coroutine[Any, Any, None]]:
        """The callers' actions on jobs, until stopped."""
        return [self._start_and_stop(store), self._come_and_go(store), self._clear_away(store)]

    async def _start_and_stop(self, store: SimStore) -> None:
        random = self.world.random
        while True:
            await asyncio.sleep(random.uniform(0.1, 5.0) * self._pace)
            with suppress(Conflict, Unavailable, Unknown, NotFound, Invalid):
                if self._live and random.random() < 0.3:
                    await verbs.interrupt(store, random.choice(list(self._live)), "enough", "somebody")
                elif self._over and random.random() < 0.3:
                    await verbs.restart(store, random.choice(list(self._over)), "somebody", random.random)
                else:
                    await verbs.run_now(store, "hand", "somebody", random.random)

    async def _come_and_go(self, store: SimStore) -> None:
        """Jobs that are deleted again, with their living runs."""
        random = self.world.random
        for number in count():
            job = JobSpec(
                name=f"fleeting{number}",
                every=5 * self._pace * _SECOND,
                concurrency=random.choice((1, None)),
                argv=("x",),
            )
            with suppress(Conflict, Unavailable, Unknown):
                await verbs.put_job(store, job, Origin.API, "somebody")
            await asyncio.sleep(random.uniform(1, 15) * self._pace)
            while True:
                with suppress(Conflict, Unavailable, Unknown):
                    with suppress(NotFound):
                        await verbs.delete_job(store, job.name)
                    break

    async def _clear_away(self, store: SimStore) -> None:
        old = OldRuns(store, most=20, keep=timedelta(minutes=1))
        while True:
            await asyncio.sleep(self.world.random.uniform(1, 20) * self._pace)
            with suppress(Conflict, Unavailable, Unknown):
                await old.visit(await store.now())

    # The rules

    def check(self, writes: Iterable[Write], revision: Revision) -> None:
        """The rules, at each accepted commit."""
        for write in writes:
            if write.key.startswith(keys.LIVE_RUNS):
                self._check_live(write.key.removeprefix(keys.LIVE_RUNS), write)
            elif write.key.startswith(keys.RUNS) and isinstance(write, Put):
                self._check_over(codec.decode(RunRecord, write.value))
        if not any(write.key.startswith(keys.LIVE_RUNS) for write in writes):
            return
        bound = Counter(run.job for run in self._live.values() if run.is_bound)
        for job in self._jobs:
            if job.concurrency is not None and bound[job.name] > job.concurrency:
                self.world.violate(f"{bound[job.name]} runs of {job.name} are bound")

    def _check_live(self, id: str, write: Write) -> None:
        if isinstance(write, Delete):
            self._live.pop(id, None)
            return
        run = codec.decode(RunRecord, write.value)
        if id not in self._live:
            if id in self._made:
                self.world.violate(f"{id} was made twice")
            self._made[id] = run
        self._live[id] = run

    def _check_over(self, run: RunRecord) -> None:
        before = self._over.get(run.id)
        if before is not None and (before.state, before.epoch) != (run.state, run.epoch):
            self.world.violate(f"{run.id} was {before.state} under {before.epoch}, and became {run.state}")
        if run.state is RunState.MISSED and before is None:
            if run.id in self._made:
                self.world.violate(f"{run.id} was made, and then missed")
            self._made[run.id] = run
        self._over[run.id] = run

    def _check_it_goes_on(self) -> None:
        """Without faults the newest due time of each job is decided."""
        now = self.world.store_clock.wall()
        for name, record in self._records().items():
            coming = next_due(record, self._cursor(name))
            if coming is not None and coming < now - STANDSTILL:
                self.world.violate(f"{name} stands still: {coming} is not decided, and it is {now}")

    def _check_settled(self) -> None:
        for run in self._live.values():
            self.world.violate(f"{run.id} is left {run.state} on {run.node}: {run.why}")
        for name, record in self._records().items():
            cursor = self._cursor(name)
            if record.spec.is_timed and cursor is not None and cursor.upto is not None:
                self._check_due_times(record, cursor)

    def _check_due_times(self, record: JobRecord, cursor: JobCursor) -> None:
        """Every due time that the cursor has passed was made, or stands in a record."""
        assert cursor.upto is not None
        made = [run for run in self._made.values() if run.job == record.spec.name and run.cause is Cause.SCHEDULE]
        first = min((min(run.due, run.skipped.first if run.skipped else run.due) for run in made), default=None)
        if first is None:
            return
        passed = 0
        for due in times(record.spec, first - _SECOND):
            if due > cursor.upto:
                break
            passed += 1
        counted = sum(1 for run in made if run.state is not RunState.MISSED)
        counted += sum(run.skipped.count for run in made if run.skipped)
        if counted != passed:
            self.world.violate(f"{record.spec.name} was due {passed} times, and {counted} are known")

    def _records(self) -> dict[str, JobRecord]:
        entries = self.world.universe.scan(keys.JOBS, None, None, None).entries
        return {entry.key.removeprefix(keys.JOBS): codec.decode(JobRecord, entry.value) for entry in entries}

    def _cursor(self, name: str) -> JobCursor | None:
        entry = self.world.universe.get(keys.job_cursor(name))
        return codec.decode(JobCursor, entry.value) if entry else None


def _without(step: Step, prefix: Key) -> Step:
    return Step(step.writes, [each for each in step.expect if not each.key.startswith(prefix)], step.about)


def _status() -> NodeStatus:
    return NodeStatus(
        app="sim", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0
    )


def _nobody(*_: object, **__: object) -> None:
    """Gets events that nothing listens to."""
