"""Scenario: a fleet that keeps resources covered, with everything going wrong.

Nodes run the product's own session, election, supervisor and assignment code; what stands in for processes is
`SimWork`, which starts and stops tasks after a while; exclusive ones may take seconds to stop. Resources come and go,
and some come back at once. Faults rage, then stop. What must hold:

- At each accepted commit: no two tasks of a resource on one node, no node with more than its slots.
- At no time does an exclusive task act on two machines: a task acts while its machine has not crashed and its deadline
  has not passed, also if everything else on the machine stands still.
- Once the faults have stopped, every resource has its tasks or says that slots are missing, each assigned task runs
  under its epoch, nothing else runs, and then nothing is written any more.
- A change of leader moves nothing.

A node that came back again and again gets nothing for the sake of balance for a while (`fleet.core.members.flapping`),
and a new leader does not know of that. So the last two need hold only once the rests of all nodes are over; until then,
what is written has the scenario look again.

`broken="deadline"` lets exclusive work run past its deadline; the scenario must find it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

from rota.fleet.core.members.flapping import Returns, returned
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_kinds, publish_status
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import Instant, Key, NodeId, Revision, SessionId
from rota.model.node import Node, NodeStatus, Role
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Cordon, KindRecord, ResourceRecord, ResourceStatus
from rota.resources.node.assignments import follow_assignments
from rota.runtime.pipes.brief import Order
from rota.sim.faults import rage
from rota.sim.leading import candidate
from rota.sim.network import SimStore
from rota.sim.world import EPOCH, Machine, SimProcess, World, status_of
from rota.store.leases.keeper import LeaseKeeper
from rota.store.port import Delete, Put, Write

TTL = timedelta(seconds=10)
SLOTS = 16
FAULTS_END = 180.0
CONFIG = SupervisorConfig(warm_up=timedelta(seconds=10))
RECOVERY = 2 * TTL.total_seconds() + CONFIG.warm_up.total_seconds() + 20
GRACE = 4.0
"""Seconds that an exclusive task may take to stop."""

QUIET = 30.0
"""Seconds in which a settled fleet must write nothing."""

BROKEN = ("deadline",)
"""What can be broken on purpose."""

_LONG = timedelta(hours=1)
KINDS = [
    KindRecord(
        name="room",
        app="sim",
        replicas=2,
        exclusive=False,
        runs_alone=False,
        silent_after=_LONG,
        start_within=_LONG,
    ),
    KindRecord(
        name="single",
        app="sim",
        replicas=1,
        exclusive=True,
        runs_alone=True,
        silent_after=_LONG,
        start_within=_LONG,
    ),
]
REPLICAS = {kind.name: kind.replicas for kind in KINDS}


class SimWork:
    """What runs on a machine, in one life of its program."""

    def __init__(self, world: World, machine: Machine, is_trusting: bool, pace: float) -> None:
        self._world, self._machine, self._is_trusting, self._pace = world, machine, is_trusting, pace
        self._orders: dict[str, Order] = {}
        self.running: dict[str, Order] = {}
        self._grace = GRACE * pace
        self._asked: dict[str, tuple[float, float]] = {}
        """Exclusive tasks that were asked to stop: when that was, and how much of the grace each takes."""

        self._stop_at = float("-inf")

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these."""
        self._orders = {order.task: order for order in orders}

    def runs(self, task: str) -> bool:
        """Does it run, or is it about to?"""
        return task in self.running or task in self._orders

    def tasks_running(self) -> set[str]:
        """Tasks that run as they are ordered."""
        return {task for task, order in self._orders.items() if self.running.get(task) == order}

    def returned(self) -> Mapping[str, str]:
        """Nothing fails here."""
        return {}

    def extend(self, until: Instant) -> None:
        """Exclusive tasks may act until then."""
        self._stop_at = until

    def end_session(self) -> None:
        """End exclusive tasks at once."""
        if not self._is_trusting:
            self._stop_at = float("-inf")
            self.running = {task: order for task, order in self.running.items() if not order.is_exclusive}
        self._orders = {task: order for task, order in self._orders.items() if not order.is_exclusive}

    @property
    def may_act(self) -> bool:
        """Has the deadline not passed?"""
        return self._is_trusting or self._machine.clock.monotonic() < self._stop_at

    def acting(self) -> set[str]:
        """Exclusive tasks that have effects now."""
        return {task for task, order in self.running.items() if order.is_exclusive and self.may_act}

    async def run(self) -> None:
        """Start and stop, each after a while."""
        while True:
            await asyncio.sleep(self._world.random.uniform(0.01, 0.5) * self._pace)
            for task, order in list(self.running.items()):
                wanted = self._orders.get(task)
                is_unwanted = wanted is None or wanted.epoch != order.epoch
                if (order.is_exclusive and not self.may_act) or (is_unwanted and self._has_stopped(task, order)):
                    del self.running[task]
                    self._asked.pop(task, None)
            for task, order in self._orders.items():
                if task not in self.running and (self.may_act or not order.is_exclusive):
                    self.running[task] = order

    def _has_stopped(self, task: str, order: Order) -> bool:
        """Has a task that was asked to stop done so? Exclusive ones take up to `GRACE`, at this pace."""
        if not order.is_exclusive:
            return True
        now = self._machine.clock.monotonic()
        since, share = self._asked.setdefault(task, (now, self._world.random.random()))
        return now >= since + share * self._grace

    def hurry(self) -> None:
        """Take no longer than `GRACE` to stop from now on, whatever the pace: a fleet is to recover from its faults."""
        self._grace = min(self._grace, GRACE)

    def status(self) -> NodeStatus:
        """The status as a node reports it."""
        return status_of("sim", KINDS)


class Resources:
    """One run of the scenario."""

    RULED = (keys.LEADER, keys.ASSIGNMENTS, keys.NODES)
    """What its rules are about: below which keys."""

    def __init__(
        self, world: World, broken: str | None, *, names: int = 14, slots: int = SLOTS, pace: float = 1.0
    ) -> None:
        """`names`: resources of a kind at most; `pace`: by how much longer it takes from one thing to the next."""
        self._world, self._broken, self._names, self._slots, self._pace = world, broken, names, slots, pace
        self._work: dict[SimProcess, SimWork] = {}
        self._sessions: dict[NodeId, SessionId] = {}
        self._returns: dict[NodeId, Returns] = {}
        """How often each node came back: at least as often as a leader saw it."""

        self.terms = 0
        self.writes = 0

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        return {"terms": self.terms, "commits of assignments": self.writes}

    async def run(self) -> None:
        """Run the scenario to its end."""
        world = self._world
        world.network.committed = self.check
        for number in range(world.random.randint(3, 5)):
            world.start(f"n{number}", self._program)
        client = asyncio.create_task(self.change(SimStore(world.network, "client", world.store_clock)))
        watching = asyncio.create_task(self.watch())
        await rage(world, until=FAULTS_END, pause=(0.5, 12.0), length=(0.5, 35.0))
        client.cancel()
        self.calm_down()
        await self.recover()
        watching.cancel()
        await asyncio.gather(client, watching, return_exceptions=True)

    def calm_down(self) -> None:
        """The faults are over, and nobody asks for anything: no node is cordoned, and tasks stop in time."""
        cordons = self._world.universe.scan(keys.CORDONS, None, None, None).entries
        self._world.universe.commit([Delete(entry.key) for entry in cordons], ())
        for work in self._work.values():
            work.hurry()

    async def recover(self) -> None:
        """Check that everything is covered soon, and that then nothing moves, also under another leader."""
        await asyncio.sleep(RECOVERY)
        self._check_settled("after the faults")
        await self.stay_quiet("settled")
        await self._change_leader()

    # What runs on each machine

    def work(self, machine: Machine) -> SimWork:
        """What the present process of a machine does."""
        work = self._work[machine.process] = SimWork(self._world, machine, self._broken == "deadline", self._pace)
        return work

    async def _program(self, machine: Machine) -> None:
        jitter, work = self._world.random.random, self.work(machine)

        async def body(session: NodeSession) -> None:
            node, keeper, store = session.node, session.keeper, machine.store

            try:
                async with asyncio.TaskGroup() as parts:
                    within = InSession(work, keeper)
                    parts.create_task(follow_assignments(store, node.id, within, jitter))
                    parts.create_task(publish_status(store, session, work.status))
                    parts.create_task(publish_kinds(store, session, lambda: KINDS))
                    parts.create_task(candidate(self._world, machine, store, session, CONFIG).run())
            finally:
                work.end_session()

        identity = Identity(
            node=NodeId(machine.name), home=machine.name, role=Role.BOTH, lease_ttl=TTL, slots=self._slots
        )
        async with asyncio.TaskGroup() as parts:
            parts.create_task(work.run())
            parts.create_task(in_session(machine.store, identity, machine.clock, body, jitter))

    # Who asks for resources

    async def change(self, store: SimStore) -> None:
        """Add, change and remove resources until cancelled."""
        random = self._world.random
        while True:
            await asyncio.sleep(random.uniform(0.05, 3.0) * self._pace)
            kind = random.choice(("room", "room", "single"))
            record = self._record(kind, str(random.randrange(self._names)))
            key = keys.resource(record.kind, record.id)
            write: Write = Delete(key) if random.random() < 0.3 else Put(key, codec.encode(record))
            with suppress(Conflict, Unavailable, Unknown):
                await store.commit(write)
                if isinstance(write, Delete):
                    await self._add_again(store, record)

    async def _add_again(self, store: SimStore, record: ResourceRecord) -> None:
        """Add what was just removed, as a source does that drops an id and lists it again; its nodes are cordoned."""
        random, name = self._world.random, f"{record.kind}/{record.id}"
        cordons = {keys.cordon(NodeId(node)): Cordon(node=NodeId(node), since=EPOCH) for node in self._placed()[name]}
        if not cordons or random.random() < 0.5:
            return
        with suppress(Conflict, Unavailable, Unknown):
            await store.commit(*(Put(key, codec.encode(cordon)) for key, cordon in cordons.items()))
            await asyncio.sleep(random.uniform(0.0, 1.0) * self._pace)
            await store.commit(Put(keys.RESOURCES + name, codec.encode(record)))
            await asyncio.sleep(random.uniform(0.0, GRACE) * self._pace)
        await self._uncordon(store, cordons)

    async def _uncordon(self, store: SimStore, cordons: Collection[Key]) -> None:
        """Retry until it is done: nodes that stay cordoned get no work of any kind, and the scenario would test
        nothing."""
        while True:
            with suppress(Conflict, Unavailable, Unknown):
                await store.commit(*map(Delete, cordons))
                return
            await asyncio.sleep(self._pace)

    def _record(self, kind: str, id: str) -> ResourceRecord:
        spec = {"version": self._world.random.randrange(3)}
        return ResourceRecord(uid=f"{kind}-{id}", kind=kind, id=id, created=self._world.store_clock.wall(), spec=spec)

    # The rules

    def check(self, writes: Iterable[Write], revision: Revision) -> None:
        """The rules, at each accepted commit."""
        self.terms += any(isinstance(write, Put) and write.key == keys.LEADER for write in writes)
        self._note_returns(writes)
        if not any(write.key.startswith(keys.ASSIGNMENTS) for write in writes):
            return
        self.writes += 1
        used: Counter[str] = Counter()
        for name, nodes in self._placed().items():
            used.update(nodes)
            if len(set(nodes)) < len(nodes):
                self._world.violate(f"two tasks of {name} on one node")
        if over := [node for node, count in used.items() if count > self._slots]:
            self._world.violate(f"{over[0]} has more tasks than slots")
        self._check_exclusive()

    def _note_returns(self, writes: Iterable[Write]) -> None:
        for write in writes:
            if isinstance(write, Put) and write.key.startswith(keys.NODES):
                node = codec.decode(Node, write.value)
                if self._sessions.setdefault(node.id, node.session) != node.session:
                    self._sessions[node.id] = node.session
                    self._returns[node.id] = returned(self._returns.get(node.id), Instant(self._world.time))

    def _may_rest(self) -> bool:
        """May a leader keep tasks from a node that came back? It saw that later than we, but by `RECOVERY` at most."""
        return any(self._world.time < each.rests_until + RECOVERY for each in self._returns.values())

    async def watch(self) -> None:
        """Check which tasks act, until cancelled."""
        while True:
            await asyncio.sleep(0.25 * self._pace)
            self._check_exclusive()

    def _check_exclusive(self) -> None:
        where: defaultdict[str, list[str]] = defaultdict(list)
        for process, work in self._work.items():
            if not process.is_dead:
                for task in work.acting():
                    where[task].append(process.name)
        for task, names in where.items():
            if len(names) > 1:
                self._world.violate(f"{task} acts on {' and '.join(names)}")

    def _placed(self) -> defaultdict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for entry in self._world.universe.scan(keys.ASSIGNMENTS, None, None, None).entries:
            node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
            found[task.rpartition("#")[0]].append(node)
        return found

    def _check_settled(self, when: str) -> None:
        """Everything that is asked for is there and runs, and nothing else does."""
        universe, placed = self._world.universe, self._placed()
        wanted = {}
        for entry in universe.scan(keys.RESOURCES, None, None, None).entries:
            record = codec.decode(ResourceRecord, entry.value)
            if record.kind in REPLICAS:
                wanted[f"{record.kind}/{record.id}"] = REPLICAS[record.kind]
        for name in wanted.keys() | {name for name in placed if _kind_of(name) in REPLICAS}:
            has, should = len(placed.get(name, [])), wanted.get(name, 0)
            if has != should and not (has < should and self._lacks_slots(name)):
                self._world.violate(f"{when}: {name} has {has} of {should} tasks")
        self._check_running(when)

    def _lacks_slots(self, name: str) -> bool:
        """Does the status give a reason, and an allowed one? Nodes that joined last may be empty, as nothing
        rebalances."""
        entry = self._world.universe.get(keys.RESOURCE_STATUS + name)
        return entry is not None and "slots" in codec.decode(ResourceStatus, entry.value).pending

    def _check_running(self, when: str) -> None:
        assigned, stopping = {}, set()
        for entry in self._world.universe.scan(keys.ASSIGNMENTS, None, None, None).entries:
            node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
            if _kind_of(task) in REPLICAS:
                assigned[node, task] = entry.modified
                if codec.decode(Assignment, entry.value).stopping:
                    stopping.add((node, task))
        running = {
            (machine.name, task): order.epoch
            for machine in self._world.nodes
            for task, order in self._work[machine.process].running.items()
        }
        for key in assigned.keys() | running.keys():
            told, does = assigned.get(key), running.get(key)
            if key in stopping:
                self._world.violate(f"{when}: {key[1]} on {key[0]} is still to stop and runs under {does}")
            elif told != does:
                self._world.violate(f"{when}: {key[1]} on {key[0]} is assigned under {told} and runs under {does}")

    async def stay_quiet(self, when: str) -> None:
        """Nothing is written for a while, once no node may rest from having come back."""
        while True:
            before, may_rest = self.writes, self._may_rest()
            await asyncio.sleep(QUIET)
            if self.writes == before:
                return
            if not may_rest:
                self._world.violate(f"{when}: {self.writes - before} commits of assignments in a fleet at rest")
                return

    async def _change_leader(self) -> None:
        """Delete the leader's key: a node must become leader, and no task may move."""
        while True:
            before, terms, may_rest = self._placed(), self.terms, self._may_rest()
            store = SimStore(self._world.network, "client", self._world.store_clock)
            with suppress(Conflict, Unavailable, Unknown):
                await store.commit(Delete(keys.LEADER))
            await self.stay_quiet("after a change of leader")
            if self.terms == terms:
                self._world.violate("nobody led after the leader's key was taken")
            if self._placed() == before:
                return
            if not may_rest:
                self._world.violate("a change of leader moved something")
                return


class InSession:
    """The work within one session, as a node composes it."""

    def __init__(self, work: SimWork, keeper: LeaseKeeper) -> None:
        self._work, self._keeper = work, keeper
        self.runs, self.returned = work.runs, work.returned
        self.running = work.tasks_running

    def want(self, orders: Iterable[Order]) -> None:
        """Run these, and only then what needs the lease."""
        work, keeper = self._work, self._keeper
        work.want(orders)
        keeper.notify(lambda: work.extend(keeper.safe_until))


def _kind_of(name: str) -> str:
    return name.partition("/")[0]
