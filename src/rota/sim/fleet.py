"""Scenario: a whole fleet with all four kinds of work, and everything that can go wrong.

The other scenarios are its parts. Three nodes run the product's own session, election, supervisor, stream keeper,
scheduler and owner of jobs in one process each, and serve a service there; beside it each has a host, whose tasks emit,
and a relay with disks. All of it shares one store, one network and the clocks of its machines, and one seed. People add
resources, start jobs, ask services and scale a stream all the while. Machines lose their power with all that runs on
them; processes crash and stand still; links are cut, in one direction too; the store is slow, refuses or stands still;
clocks drift and step; disks are full; messages are late, lost and repeated; brokers die.

What must hold is what must hold in each part, at every accepted commit and at every turn, and once the faults have
stopped. Nothing of that is said again here. Ten minutes pass, seven of them with faults.

`PLANTED` are mistakes of five classes, each of them one that a careful programmer makes; the scenario must find each.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_kinds, publish_status, publish_streams
from rota.jobs.core.records import JobSpec
from rota.jobs.sim import EXECUTORS, Jobs
from rota.model.config import SupervisorConfig
from rota.model.ids import NodeId, Revision
from rota.model.node import Role
from rota.relay.sim.scenario import RelayScenario
from rota.resources import sim as rooms
from rota.resources.node.assignments import TaskRunner, follow_assignments
from rota.resources.sim import InSession, Resources
from rota.runtime.pipes.brief import Order
from rota.services.sim.scenario import ServicesScenario
from rota.sim.election import Election
from rota.sim.faults import rage
from rota.sim.leading import candidate, nobody
from rota.sim.network import SimStore
from rota.sim.world import Machine, World, status_of
from rota.store.port import Write
from rota.streams.fleet.keep import keep_streams
from rota.streams.sim import scenario as clicks
from rota.streams.sim.node import PerilousStore
from rota.streams.sim.scenario import Streams

NODES = 3
TTL = timedelta(seconds=10)
SLOTS = 24
CONFIG = SupervisorConfig(warm_up=timedelta(seconds=10))
FAULTS_END = 420.0
ENDS = 600.0
LOOK = 15.0
"""Seconds between a node's checks of itself: what to report, and whether tasks that should end have ended."""

KINDS = [*rooms.KINDS, clicks.KIND]
_SECOND = timedelta(seconds=1)
JOBS = [
    JobSpec(name="tick", every=23 * _SECOND, argv=("x",)),
    JobSpec(name="skipping", every=47 * _SECOND, misfire="skip", argv=("x",)),
    JobSpec(name="some", every=37 * _SECOND, misfire="all(3)", concurrency=2, retries=2, argv=("x",)),
    JobSpec(name="next", after=("tick",), argv=("x",)),
    JobSpec(name="hand", concurrency=None, retries=1, argv=("x",)),
]

PLANTED: Mapping[str, Mapping[str, str]] = {
    "fence": {"term": "fence"},
    "cas": {"jobs": "cursor"},
    "offset": {"streams": "resume"},
    "requeue": {"relay": "requeue"},
    "duplicate": {"relay": "batches"},
}
"""A mistake of each class → the part it is in, and what that part calls it.

A leader's writes without its fence; a commit that does not expect what it was decided by; a task that resumes one
record too late; messages that are not queued again when a link breaks; and messages that are taken for duplicates,
acked and thrown away.
"""

BROKEN = tuple(PLANTED)
"""What can be broken on purpose."""


class AllWork:
    """The work of a node, shared out by the kind of task."""

    def __init__(self, *shares: tuple[Collection[str], TaskRunner]) -> None:
        self._shares = shares

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these."""
        wanted = list(orders)
        for kinds, work in self._shares:
            work.want([order for order in wanted if order.kind in kinds])

    def runs(self, task: str) -> bool:
        """Does a process run the task, or is it about to?"""
        return any(work.runs(task) for _, work in self._shares)

    def running(self) -> set[str]:
        """Tasks that run as they are ordered."""
        return {task for _, work in self._shares for task in work.running()}

    def returned(self) -> Mapping[str, str]:
        """Tasks that are given back, and why."""
        return {task: why for _, work in self._shares for task, why in work.returned().items()}


class FleetScenario:
    """One run of the scenario."""

    def __init__(self, world: World, broken: str | None) -> None:
        mistakes = PLANTED[broken] if broken else {}
        self._world = world
        self._is_unfenced = "term" in mistakes
        self._election = Election(world, None, pace=5)
        self._resources = Resources(world, None, names=6, slots=SLOTS, pace=self._pace(8))
        self._jobs = Jobs(world, mistakes.get("jobs"), jobs=JOBS, pace=self._pace(8))
        self._streams = Streams(world, mistakes.get("streams"), pace=self._pace(8))
        self._relay = RelayScenario(world, mistakes.get("relay"), nodes=NODES, pace=self._pace(10))
        self._services = {f"n{number}": ServicesScenario(world, None, pace=self._pace(16)) for number in range(NODES)}

    def _pace(self, least: float) -> float:
        """The factor by which everything takes longer than in a part's own scenario.

        Seeds differ in which parts are busy: that finds more than seeds that are all alike, and takes less time.
        """
        return least * self._world.random.choice((1, 2, 4))

    def counts(self) -> Mapping[str, int]:
        """What was tried, in all parts."""
        counts = Counter(self._election.counts())
        for part in (self._resources, self._jobs, self._streams, self._relay):
            counts |= Counter(part.counts())
        for service in self._services.values():
            counts += Counter(service.counts())
        return counts

    async def run(self) -> None:
        """The whole story."""
        world = self._world
        asyncio.get_running_loop().set_exception_handler(self._fell)
        world.network.committed = self._check
        self._streams.prepare(FAULTS_END)
        for name in self._services:
            world.start(name, self._program)
        self._relay.begin()
        client = SimStore(world.network, "client", world.store_clock)
        people = [asyncio.create_task(each) for each in self._people(client)]
        watching = asyncio.create_task(self._resources.watch())
        await asyncio.gather(
            rage(world, until=FAULTS_END, pause=(1.0, 25.0), length=(0.5, 35.0)),
            self._relay.rage(FAULTS_END),
            self._cut_power(FAULTS_END),
        )
        await _ended(people)
        await self._recover(client)
        await asyncio.sleep(ENDS - world.time)
        await _ended([watching])

    async def _recover(self, client: SimStore) -> None:
        """Each part shows that it has recovered; resources last, because streams at work would disturb them."""
        self._resources.calm_down()
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._election.recover())
            parts.create_task(self._jobs.recover(client))
            parts.create_task(self._relay.recover())
            for service in self._services.values():
                parts.create_task(service.recover())
            await self._streams.recover(client)
            await self._resources.recover()

    def _fell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that would end a process of the product; errors of processes that were killed are ignored."""
        if "handle" in context:
            self._world.violate(f"{context['message']}: {context.get('exception')!r}")

    def _check(self, writes: Iterable[Write], revision: Revision) -> None:
        """Check the rules of the parts that an accepted commit concerns."""
        written = [write.key for write in writes]
        for part in (self._election, self._resources, self._jobs, self._streams):
            if any(key.startswith(part.RULED) for key in written):
                part.check(writes, revision)

    # What happens to them

    def _people(self, client: SimStore) -> list[Coroutine[Any, Any, None]]:
        for service in self._services.values():
            service.connect(1)
        return [
            self._resources.change(client),
            self._declare_and_run(client),
            *self._streams.people(client),
            *(each for service in self._services.values() for each in service.people()),
        ]

    async def _declare_and_run(self, client: SimStore) -> None:
        await self._jobs.declare(client)
        async with asyncio.TaskGroup() as busy:
            for each in self._jobs.people(client):
                busy.create_task(each)

    async def _cut_power(self, until: float) -> None:
        """At intervals a machine loses its power with all of its processes, and gets it back after a while."""
        world = self._world
        while (pause := world.random.uniform(20.0, 120.0)) < until - world.time:
            await asyncio.sleep(pause)
            machine, length = world.random.choice(world.nodes), min(world.random.uniform(1.0, 40.0), until - world.time)
            world.tell(f"{machine.name} loses its power")
            if not machine.process.is_dead:
                machine.crash()
            await self._relay.lose_machine(NodeId(machine.name), length)
            if machine.process.is_dead:
                machine.restart()

    # The programs of each machine

    async def _program(self, machine: Machine) -> None:
        world, jitter = self._world, self._world.random.random
        store = PerilousStore(world, machine, self._streams.perils)
        sessions: list[NodeSession] = []
        rooms_here = self._resources.work(machine)
        clicks_here = self._streams.work(machine, store, lambda: sessions[-1].keeper.lease if sessions else None)
        take_part_in_jobs = self._jobs.on(machine)
        self._services[machine.name].serve(machine.process)

        async def body(session: NodeSession) -> None:
            sessions.append(session)
            work = AllWork((rooms.REPLICAS, InSession(rooms_here, session.keeper)), ([clicks.KIND.name], clicks_here))
            try:
                async with asyncio.TaskGroup() as parts:
                    for part in (
                        follow_assignments(store, session.node.id, work, jitter, look=LOOK),
                        publish_status(store, session, lambda: status_of("sim", KINDS), pace=LOOK),
                        publish_kinds(store, session, lambda: KINDS, pace=LOOK),
                        publish_streams(store, session, lambda: [self._streams.record], pace=LOOK),
                        self._candidate(machine, store, session).run(),
                        take_part_in_jobs(session),
                    ):
                        parts.create_task(part)
            finally:
                sessions.clear()
                rooms_here.end_session()

        identity = Identity(
            node=NodeId(machine.name),
            home=machine.name,
            role=Role.BOTH,
            lease_ttl=TTL,
            slots=SLOTS,
            executors=EXECUTORS,
        )
        async with asyncio.TaskGroup() as parts:
            parts.create_task(rooms_here.run())
            parts.create_task(in_session(store, identity, machine.clock, body, jitter))

    def _candidate(self, machine: Machine, store: SimStore, session: NodeSession) -> LeaderCandidate:
        def more(term: Term) -> list[Coroutine[Any, Any, None]]:
            if self._is_unfenced:
                term.fence = (term.incarnation,)
            return [
                keep_streams(self._streams.careless(term), machine.clock, nobody, tick=LOOK),
                self._election.lead(machine.process, term, term.commit),
            ]

        return candidate(self._world, machine, store, session, CONFIG, more)


async def _ended(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
