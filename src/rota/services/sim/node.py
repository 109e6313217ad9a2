"""A node that serves one service, in virtual time: an agent, its proxies and its workers.

Which workers there are, which generation has a group's requests and who gets which request is decided by the product's
own code: `runtime.crew.posts`, `runtime.crew.plan`, `services.core.declared_table`, `services.core.table` and
`dispatch`, over real parcels. What is simulated are processes and lines: what one sends to another arrives in order,
after a while, and a worker that dies is noticed after what it had sent before."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Literal, Protocol

import msgspec

from rota.kit.record import replace
from rota.kit.time.instant import Instant
from rota.kit.time.virtual import VirtualHandle, virtual_loop
from rota.model.config import RuntimeConfig
from rota.runtime.crew import plan as crew
from rota.runtime.crew.plan import CrewMember, DrainWorker, KillWorker, StartWorker, WorkerPhase
from rota.runtime.crew.posts import Post
from rota.services.core.declared_table import table
from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.requests import Caller
from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.parcels import ADDRESS, ANSWERED, DONE, GIVEN, READY, RETURNED, ParcelDecoder, returned
from rota.services.core.routing import ROUTER
from rota.services.core.spec import ServiceSpec
from rota.services.core.table import Table, active, merged
from rota.services.node.agent import BATCH, GRACE
from rota.services.node.posts import ROUTER_GROUP, group_pool, service_posts
from rota.sim.outside import in_process
from rota.sim.world import SimProcess

SERVICE = "logic"
SLOWEST = 0.02
"""Seconds that anything said to another process takes at most."""

DRAIN = timedelta(seconds=3)
CONFIG = RuntimeConfig(drain=DRAIN)

Act = Callable[[], None]
Outcome = Literal["answer", "silent", "early", "twice", "crash", "hang"]


class ServiceObserver(Protocol):
    """Gets the events of the simulated node, and decides what handlers do."""

    def ran(self, worker: "SimWorker", frame: bytes) -> None:
        """A worker begins with a request."""

    def finishes(self, worker: "SimWorker", held: int) -> None:
        """A worker was asked to end; `held` requests are left to it."""

    def kept_silent(self, frame: bytes) -> None:
        """A handler ended without an answer, on purpose."""

    def fate(self, worker: "SimWorker", frame: bytes) -> "Fate":
        """What becomes of a request that a worker begins with."""

    def reply(self, frame: bytes) -> bytes:
        """What a handler answers."""

    def route(self, worker: "SimWorker", frame: bytes) -> int:
        """The group that a routing function names."""

    def turned(self, proxy: "SimProxy") -> None:
        """A proxy has come to the end of a turn; nothing has been sent yet."""


class Fate(msgspec.Struct, frozen=True):
    """What becomes of a request in its handler, and after how many seconds."""

    what: Outcome
    after: float


class SimPipe:
    """One direction of a socket: what is sent arrives in order, each after a while.

    Between processes of one node it is theirs; what comes from outside says in which process it arrives.
    """

    def __init__(self, random: Random, to: SimProcess | None = None) -> None:
        self._random, self._to = random, to
        self._loop = virtual_loop()
        self._last = 0.0

    def send(self, act: Act) -> None:
        """Do something at the other end."""
        soon = self._loop.now + self._random.uniform(0.0001, SLOWEST)
        self._last = max(soon, self._last + 1e-6)
        if self._to is None:
            self._loop.call_at(self._last, act)
        else:
            in_process(self._to, self._last - self._loop.now, act)


class SimClient(Caller):
    """A connection: frames out, answers in."""

    __slots__ = ("down", "heard", "is_gone", "up")

    def __init__(
        self, random: Random, heard: Callable[["SimClient", bytes], None], server: SimProcess | None = None
    ) -> None:
        super().__init__(ADDRESS.pack(4, 1, b""))
        self.up, self.down, self.heard = SimPipe(random, server), SimPipe(random), heard
        self.is_gone = False
        """Has it hung up? The proxy hears that later."""


class SimSeat(WorkerSeat):
    """A worker's seat in a proxy."""

    __slots__ = ("inbox", "is_seated", "process")

    def __init__(self, process: "SimWorker", group: int, capacity: int, grace: float) -> None:
        super().__init__(process.id, group, process.generation, capacity, grace)
        self.process, self.inbox, self.is_seated = process, ParcelDecoder(RETURNED), False


class SimWorker:
    """A worker process: it takes requests from its line, and says when they are done."""

    def __init__(self, node: "SimNode", number: int, start: StartWorker, post: Post, proxy: "SimProxy") -> None:
        self.id, self.generation, self.slot, self.pool = number, start.generation, start.slot, start.pool
        self.group = post.group
        self.proxy = proxy
        self.is_dead = False
        self._node, self._random = node, node.random
        self.member = CrewMember(
            number, start.pool, start.slot, start.generation, WorkerPhase.STARTING, node.now, drain=post.drain
        )
        """As the plan sees it."""

        self._up, self.down, self._to_agent = SimPipe(node.random), SimPipe(node.random), SimPipe(node.random)
        self._inbox = ParcelDecoder(GIVEN)
        self._held: dict[int, bytes] = {}
        summary = node.summaries[self.generation]
        is_router = post.group == ROUTER_GROUP
        self.capacity = BATCH if is_router else summary.concurrency
        grace = 0.0 if is_router or (self.capacity == 1 and not summary.has_loop) else GRACE
        self.seat = SimSeat(self, ROUTER if is_router else int(post.group), self.capacity, grace)

    @property
    def phase(self) -> WorkerPhase:
        """Where it stands."""
        return self.member.phase

    def enter(self, phase: WorkerPhase) -> None:
        """Come into a phase, as the agent sees it."""
        self.member = replace(self.member, phase=phase, since=self._node.now)

    def wear_out(self, why: str) -> None:
        """Have the worker replaced."""
        self.member = replace(self.member, worn=self.member.worn or why)

    def start(self) -> None:
        """Be ready after a while."""
        self._later(self._random.uniform(0.02, 0.5), self._register)

    def die(self) -> None:
        """End, with whatever it holds; the other processes notice later."""
        if not self.is_dead:
            self.is_dead = True
            self._up.send(partial(self.proxy.lost, self.seat))
            self._to_agent.send(partial(self._node.ended, self))

    def hear(self, data: bytes) -> None:
        """What the proxy sent."""
        if self.is_dead:
            return
        for number, _, parcel in self._inbox.feed(data):
            if not number:
                self._node.observer.finishes(self, len(self._held))
                self.die()
                return
            self._begin(number, parcel[ADDRESS.size :])

    def _register(self) -> None:
        self._say(READY)
        self._to_agent.send(partial(self._node.registered, self))

    def _begin(self, number: int, frame: bytes) -> None:
        self._held[number] = frame
        observer = self._node.observer
        if self.seat.group == ROUTER:
            group = observer.route(self, frame)
            answer = group.to_bytes(4, "big", signed=True)
            self._later(self._random.uniform(0.0, 0.01), partial(self._done, number, answer, flags=DONE))
            return
        observer.ran(self, frame)
        fate = observer.fate(self, frame)
        match fate.what:
            case "hang":
                pass
            case "crash":
                self._later(fate.after, self.die)
            case "silent":
                self._later(fate.after, partial(self._end_silently, number, frame))
            case "early":
                early = returned(number, ANSWERED, observer.reply(frame))
                self._later(fate.after / 2, partial(self._say, early))
                self._later(fate.after, partial(self._done, number, flags=DONE))
            case "twice":
                self._later(fate.after, partial(self._say, returned(number, ANSWERED, observer.reply(frame))))
                self._later(fate.after, partial(self._done, number, observer.reply(frame)))
            case "answer":
                self._later(fate.after, partial(self._done, number, observer.reply(frame)))

    def _end_silently(self, number: int, frame: bytes) -> None:
        self._node.observer.kept_silent(frame)
        self._done(number, flags=DONE)

    def _done(self, number: int, answer: bytes = b"", flags: int = DONE | ANSWERED) -> None:
        del self._held[number]
        self._say(returned(number, flags, answer))

    def _say(self, parcel: bytes) -> None:
        cut = self._random.randint(0, len(parcel))
        for part in (parcel[:cut], parcel[cut:]):
            if part:
                self._up.send(partial(self.proxy.hear, self.seat, part))

    def _later(self, seconds: float, act: Act) -> None:
        def unless_dead() -> None:
            if not self.is_dead:
                act()

        asyncio.get_running_loop().call_later(seconds, unless_dead)


class SimProxy:
    """A proxy: what it hears goes to the dispatch; what that leaves in the outboxes is sent at the end of the turn."""

    def __init__(self, node: "SimNode", dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self.from_agent, self._to_agent = SimPipe(node.random), SimPipe(node.random)
        self._node = node
        self._loop = virtual_loop()
        self._timer: VirtualHandle | None = None

    @property
    def now(self) -> float:
        """Its clock."""
        return self._loop.now

    # What clients do

    def ask(self, client: SimClient, cmd: int, frame: bytes) -> None:
        """A frame came."""
        self.dispatch.arrive(client, cmd, frame, self.now)
        self._end_turn()

    def hung_up(self, client: SimClient) -> None:
        """A connection ended."""
        self.dispatch.caller_gone(client)
        self._end_turn()

    # What workers say

    def hear(self, seat: SimSeat, data: bytes) -> None:
        """A part of a line came."""
        for number, flags, answer in seat.inbox.feed(data):
            if number:
                self.dispatch.returned(seat, number, flags, answer, self.now)
            else:
                seat.is_seated = True
                self.dispatch.seat_joined(seat, self.now)
        self._end_turn()

    def lost(self, seat: SimSeat) -> None:
        """A line ended."""
        if seat.is_seated:
            self.dispatch.seat_lost(seat, self.now)
        self._end_turn()

    # What the agent says

    def serve(self, wanted: Table) -> None:
        """Serve by this table."""
        self.dispatch.configure(wanted, self.now)
        self._end_turn()

    def dismiss(self, seat: SimSeat) -> None:
        """Give a worker nothing more."""
        if seat.is_seated:
            self.dispatch.seat_leaves(seat.worker, self.now)
        else:
            seat.is_leaving = True
        self._end_turn()

    def clear(self) -> None:
        """Drop what waits."""
        self.dispatch.clear(None)
        self._end_turn()

    def stop(self) -> None:
        """Take no new requests."""
        self.dispatch.stop()
        self._end_turn()

    def give_up(self) -> None:
        """Answer all that is here."""
        self.dispatch.give_up()
        self._end_turn()

    # Turns

    def _end_turn(self) -> None:
        dispatch = self.dispatch
        look_again = dispatch.expire(self.now)
        self._node.observer.turned(self)
        for seat in dispatch.workers.overdue:
            holds_others = any(not ticket.is_answered for ticket in seat.held.values())
            self._to_agent.send(partial(self._node.overdue, seat.worker, holds_others))
        dispatch.workers.overdue.clear()
        for seat in dispatch.workers.touched:
            assert isinstance(seat, SimSeat)
            seat.is_touched = False
            seat.process.down.send(partial(seat.process.hear, b"".join(seat.outbox)))
            seat.outbox.clear()
        dispatch.workers.touched.clear()
        for caller in dispatch.answers.touched:
            assert isinstance(caller, SimClient)
            caller.is_touched = False
            for answer in caller.outbox:
                caller.down.send(partial(caller.heard, caller, answer))
            caller.outbox.clear()
        dispatch.answers.touched.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if look_again is None else self._loop.call_at(look_again, self._end_turn)


class SimNode:
    """The agent: it mans the groups of the wanted generation, and sends the proxies whose workers get the requests."""

    def __init__(
        self, random: Random, observer: ServiceObserver, summary: ServiceSpec, make: Callable[[Table], Dispatch]
    ) -> None:
        self.random, self.observer = random, observer
        self.summaries = {1: summary}
        self.target, self.previous = 1, 1
        self.workers: dict[int, SimWorker] = {}
        self.table = table(summary, dict.fromkeys([*summary.groups, ROUTER], 1))
        self._loop = virtual_loop()
        self.proxies = [SimProxy(self, make(self.table)) for _ in range(summary.proxies)]
        self._posts: dict[int, dict[str, Post]] = {}
        """By generation: asked for often, and always the same."""

        self._last = 0
        self._is_woken = False
        self._timer: VirtualHandle | None = None
        self.wake()

    @property
    def now(self) -> Instant:
        """Its clock."""
        return Instant(self._loop.now)

    @property
    def posts(self) -> dict[str, Post]:
        """What the wanted generation asks for."""
        if self.target not in self._posts:
            asked = service_posts(self.summaries[self.target], CONFIG, {})
            self._posts[self.target] = {post.pool.name: post for post in asked}
        return self._posts[self.target]

    @property
    def is_settled(self) -> bool:
        """Is everything manned and flipped?"""
        is_flipped = all(generation == self.target for generation in self.table.groups.values())
        return is_flipped and crew.is_settled(self._crew(), self.target)

    def reload(self, summary: ServiceSpec) -> int:
        """Want other code from now on; its generation."""
        self.previous, self.target = self.target, max(self.summaries) + 1
        self.summaries[self.target] = summary
        self.wake()
        return self.target

    def roll_back(self) -> int:
        """Want the generation before; which one that is."""
        self.previous, self.target = self.target, self.previous
        self.wake()
        return self.target

    # Reports

    def registered(self, worker: SimWorker) -> None:
        """A worker can work."""
        if worker.phase == WorkerPhase.STARTING and worker.id in self.workers:
            worker.enter(WorkerPhase.READY)
            self.wake()

    def ended(self, worker: SimWorker) -> None:
        """A worker is gone."""
        del self.workers[worker.id]
        self.wake()

    def overdue(self, number: int, holds_others: bool) -> None:
        """A worker did not end a request in time."""
        worker = self.workers.get(number)
        if worker is not None and not worker.is_dead:
            if holds_others:
                worker.wear_out("a request took longer than it may")
            else:
                worker.enter(WorkerPhase.DRAINING)
                worker.die()
            self.wake()

    # The loop

    def wake(self) -> None:
        """Something changed: plan again."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_woken = False
        self._serve()
        plan = crew.plan(self._crew(), self.now)
        for action in plan.actions:
            match action:
                case StartWorker():
                    self._start(action)
                case DrainWorker(member=number):
                    self._drain(self.workers[number])
                case KillWorker(member=number):
                    self.workers[number].die()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if plan.look_again is None else self._loop.call_at(plan.look_again, self.wake)

    def _crew(self) -> crew.CrewState:
        return crew.CrewState(
            pools={name: post.pool for name, post in self.posts.items()},
            target=self.target,
            members=tuple(worker.member for worker in self.workers.values()),
            loaders=frozenset({self.target, self.previous}),
        )

    def _serve(self) -> None:
        summary, wanted = self.summaries[self.target], self.posts
        ready: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for worker in self.workers.values():
            if worker.phase is WorkerPhase.READY:
                ready[worker.pool][worker.generation] += 1
        generations = {}
        for number in (*summary.groups, ROUTER):
            pool = group_pool(SERVICE, ROUTER_GROUP if number == ROUTER else str(number))
            count = wanted[pool].pool.count if pool in wanted else 0
            generations[number] = active(self.table.groups.get(number, 0), self.target, ready[pool], count)
        found = merged(self.table, table(summary, generations), self.target)
        if found != self.table:
            self.table = found
            for proxy in self.proxies:
                proxy.from_agent.send(partial(proxy.serve, found))

    def _start(self, action: StartWorker) -> None:
        self._last += 1
        proxy = self.proxies[action.slot % len(self.proxies)]
        worker = SimWorker(self, self._last, action, self.posts[action.pool], proxy)
        self.workers[worker.id] = worker
        worker.start()

    def _drain(self, worker: SimWorker) -> None:
        was = worker.phase
        worker.enter(WorkerPhase.DRAINING)
        if was == WorkerPhase.STARTING:
            worker.die()
        else:
            worker.proxy.from_agent.send(partial(worker.proxy.dismiss, worker.seat))
