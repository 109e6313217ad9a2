"""Scenario: a service under load, with everything going wrong on its machine.

A node serves one service by the product's own dispatch, tables and plan of workers (`services.sim.node`). Clients ask,
several requests at a time, and some hang up. Handlers answer, early, twice or not at all; they crash, and hang. Workers
are killed, queues are cleared, and other code comes again and again: other groups, routes, rules and numbers of
workers. Then the faults stop, while reloads go on; at the end the service stops. What must hold:

- Every request that reached a proxy is answered exactly once, unless its handler chose silence or its client is gone.
- None runs twice, unless its cmd is idempotent; then at most twice, and in one generation.
- No worker has more than it can take, gets anything after it was asked to finish, or gets anything while another
  generation is active.
- No worker is overdue that did not have a request for all the time that it may take.
- No request waits whose client is gone or whose timeout has passed; queues keep their bounds, and no worker is idle
  while a request waits.
- A cmd that all the code has is never refused for want of a handler or a group.
- Once the faults have stopped, a reload costs no request, all workers are of the wanted generation soon, and what is
  there is worked off.
- What is counted adds up, after every turn, and nothing is raised that would end a process.

`BROKEN` are dispatches with a safeguard left out; the scenario must find each.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from rota.services.core.codes import Ret
from rota.services.core.dispatch.answers import Answers
from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.requests import PendingRequest
from rota.services.core.dispatch.seats import WorkerGroup, WorkerSeat
from rota.services.core.frames import BOX, wire
from rota.services.core.parcels import FINISH, GIVEN, ParcelDecoder
from rota.services.core.routing import ByField, ByRange, ByWorker, Rule
from rota.services.core.spec import HandlerSpec, ServiceSpec
from rota.services.core.table import Table
from rota.services.sim.node import DRAIN, SERVICE, Act, Fate, Outcome, SimClient, SimNode, SimProxy, SimWorker
from rota.sim.outside import in_process
from rota.sim.world import SimProcess, World

CMDS = range(1, 7)
IDEMPOTENT = (1, 2)
HANGS = 3
"""The cmd whose handlers may hang; it always has a limit."""

QUEUE = 20
FAULTS_END = 40.0
HEALED = 12.0
"""Seconds after the last fault in which its consequences may still show."""

CALM = 10.0
SETTLES = 8.0
"""Seconds after the last reload by which the node must have settled."""

FATES: Mapping[Outcome, int] = {"answer": 80, "silent": 5, "early": 5, "twice": 5, "crash": 2, "hang": 3}
"""What handlers do, and how often in a hundred."""

CALM_FATES: Mapping[Outcome, int] = {"answer": 95, "silent": 5}
WIRE = wire(BOX)


class SilentOnLoss(Answers):
    """Leaves requests unanswered whose worker was lost."""

    def fail(self, ticket: PendingRequest, ret: Ret) -> None:
        if ret != Ret.WORKER_LOST:
            super().fail(ticket, ret)


class EveryAnswer(Answers):
    """Sends every answer on, also the second one to a request."""

    def pass_on(self, ticket: PendingRequest, answer: bytes) -> None:
        ticket.is_answered = False
        super().pass_on(ticket, answer)


class Retrying(Dispatch):
    """Runs a request again, whatever its cmd and the generation."""

    def _may_run_again(self, ticket: PendingRequest, seat: WorkerSeat, group: WorkerGroup) -> bool:
        return not ticket.is_answered and ticket.caller.is_open and group.is_known


class Hasty(Dispatch):
    """Ends a worker that should leave without asking what it holds, as the original does."""

    def seat_leaves(self, worker: int, now: float, patience: float = float("inf")) -> bool:
        if seat := self.workers.seats.get(worker):
            seat.outbox.append(FINISH)
            self.workers.touch(seat)
        return seat is not None


BROKEN: Mapping[str, Callable[[Table], Dispatch]] = {
    "lost": lambda table: Dispatch(table, SilentOnLoss()),
    "once": lambda table: Dispatch(table, EveryAnswer()),
    "again": Retrying,
    "leave": Hasty,
}
"""What can be broken on purpose."""


@dataclass
class SimRequest:
    """A request, as the scenario knows it."""

    client: SimClient
    cmd: int
    is_calm: bool
    """Was it sent when all faults were healed?"""

    has_arrived: bool = False
    is_silent: bool = False
    answers: list[int] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    """Worker and generation of each run."""


class ServicesScenario:
    """One run of the scenario."""

    def __init__(self, world: World, broken: str | None, *, pace: float = 1.0) -> None:
        """`pace`: the factor by which everything takes longer than in the plain scenario."""
        self._world, self._random, self._pace = world, world.random, pace
        self._asked: dict[int, SimRequest] = {}
        self._connected: set[SimClient] = set()
        self._clients: set[asyncio.Task[None]] = set()
        self._proxies = self._random.randint(1, 2)
        self._reloads = 0
        self._is_raging, self._is_calm = True, False
        self._make = BROKEN[broken] if broken else Dispatch
        self._process: SimProcess | None = None

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        return {"requests": sum(asked.has_arrived for asked in self._asked.values()), "reloads": self._reloads}

    async def run(self) -> None:
        """The whole story."""
        asyncio.get_running_loop().set_exception_handler(self._fell)
        self.serve()
        self.connect(self._random.randint(3, 8))
        beside = [asyncio.create_task(each) for each in self.people()]
        await asyncio.sleep(FAULTS_END)
        for task in beside:
            task.cancel()
        await self.recover()

    def serve(self, process: SimProcess | None = None) -> None:
        """A node begins to serve, in a process if there is one; earlier connections are lost."""
        for client in self._connected:
            client.is_gone = True
        self._connected.clear()
        self._process = process
        self._node = SimNode(self._random, self, self._code(), self._make)

    def connect(self, clients: int) -> None:
        """Let `count` clients send requests from now on."""
        self._clients |= {asyncio.create_task(self._ask_on()) for _ in range(clients)}

    def people(self) -> list[Coroutine[Any, Any, None]]:
        """The faults and reloads of the scenario, until stopped."""
        return [
            self._again(0.3, 4.0, self._kill_one),
            self._again(1.0, 8.0, self._reload),
            self._again(3.0, 20.0, self._clear),
        ]

    async def recover(self) -> None:
        """The faults are over: reloads cost nothing soon, and what was asked is answered."""
        self._is_raging = False
        self._world.tell("the faults have stopped")
        await asyncio.sleep(HEALED)
        self._is_calm = True
        await self._reload_calmly()
        if self._random.random() < 0.5:
            await self._hush()
            self._check_all_is_worked_off()
        await self._stop()
        await self._hush()
        self._check_answers()

    # The story

    def _fell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that would end a process of the product."""
        self._world.violate(f"{context['message']}: {context.get('exception')!r}")

    async def _again(self, least: float, most: float, act: Act) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(least, most) * self._pace)
            self._inside(act)

    def _inside(self, act: Act) -> None:
        """Do something to the node, where it runs."""
        if self._process is None:
            act()
        else:
            in_process(self._process, 0.0, act)

    def _kill_one(self) -> None:
        if self._node.workers:
            worker = self._random.choice(list(self._node.workers.values()))
            self._world.tell(f"worker {worker.id} of {worker.pool} is killed")
            worker.die()

    def _reload(self) -> None:
        self._reloads += 1
        is_back = self._random.random() < 0.2
        generation = self._node.roll_back() if is_back else self._node.reload(self._code())
        summary = self._node.summaries[generation]
        self._world.tell(f"generation {generation}: groups {summary.groups}, rule {summary.rule}")

    def _clear(self) -> None:
        self._world.tell("the queues are cleared")
        self._order_proxies(SimProxy.clear)

    async def _reload_calmly(self) -> None:
        for _ in range(2):
            self._inside(self._reload)
            await asyncio.sleep(CALM / 2)
        await asyncio.sleep(SETTLES)
        if not self._node.is_settled:
            self._world.violate(f"not settled {SETTLES:.0f} s after the last reload: {self._node.table.groups}")

    async def _hush(self) -> None:
        """Let no client send any more, and wait until all requests have been answered or have timed out."""
        for task in self._clients:
            task.cancel()
        await asyncio.sleep(3.0)

    async def _stop(self) -> None:
        self._world.tell("the service stops")
        self._inside(lambda: self._order_proxies(SimProxy.stop))
        await asyncio.sleep(self._random.uniform(0.0, DRAIN.total_seconds()))
        self._inside(lambda: self._order_proxies(SimProxy.give_up))

    def _order_proxies(self, what: Callable[[SimProxy], None]) -> None:
        for proxy in self._node.proxies:
            proxy.from_agent.send(partial(what, proxy))

    # Clients

    async def _ask_on(self) -> None:
        random = self._random
        while True:
            client = SimClient(random, self._heard, self._process)
            self._connected.add(client)
            proxy = random.choice(self._node.proxies)
            eagerness = random.choice((1, 1, 3, 3, 3, 30))
            while not client.is_gone:
                await asyncio.sleep(random.uniform(0.02, 0.8) * self._pace)
                for _ in range(random.randint(1, eagerness)):
                    self._ask(client, proxy)
                if random.random() < 0.03:
                    client.is_gone = True
                    self._connected.discard(client)
                    client.up.send(partial(proxy.hung_up, client))

    def _ask(self, client: SimClient, proxy: SimProxy) -> None:
        cmd, sn = self._random.choice(CMDS), len(self._asked)
        asked = self._asked[sn] = SimRequest(client, cmd, self._is_calm)
        frame = WIRE.frame(cmd=cmd, sn=sn)

        def arrive() -> None:
            asked.has_arrived = True
            proxy.ask(client, cmd, frame)

        client.up.send(arrive)

    def _heard(self, client: SimClient, answer: bytes) -> None:
        header = WIRE.read(answer)
        asked, ret = self._asked[header["sn"]], header["ret"]
        asked.answers.append(ret)
        if asked.client is not client:
            self._world.violate(f"request {header['sn']} was answered to somebody else")
        if len(asked.answers) > 1:
            self._world.violate(f"request {header['sn']} was answered twice: {asked.answers}")
        if ret in (Ret.UNKNOWN_CMD, Ret.NO_SUCH_GROUP):
            self._world.violate(f"request {header['sn']} of cmd {asked.cmd} was refused: {Ret(ret).name}")
        if asked.is_calm and ret == Ret.WORKER_LOST:
            self._world.violate(f"request {header['sn']} was lost in a reload")

    # What handlers do (an Observer)

    def fate(self, worker: SimWorker, frame: bytes) -> Fate:
        """Mostly a good one."""
        random = self._random
        fates = FATES if self._is_raging else CALM_FATES
        [what] = random.choices(list(fates), list(fates.values()))
        if what == "hang" and WIRE.cmd_and_sn(frame)[0] != HANGS:
            what = "answer"
        is_slow = self._is_raging and random.random() < 0.05
        return Fate(what, random.uniform(0.5, 5.0) if is_slow else random.uniform(0.0, 0.1))

    def reply(self, frame: bytes) -> bytes:
        """Nothing but that all is well."""
        return WIRE.reply(frame, 0)

    def route(self, worker: SimWorker, frame: bytes) -> int:
        """Choose by sn, among the groups of the function's own generation."""
        groups = sorted(map(int, self._node.summaries[worker.generation].groups))
        return groups[WIRE.cmd_and_sn(frame)[1] % len(groups)]

    def ran(self, worker: SimWorker, frame: bytes) -> None:
        """Check that this run is the first, or allowed."""
        cmd, sn = WIRE.cmd_and_sn(frame)
        runs = self._asked[sn].runs
        runs.append((worker.id, worker.generation))
        is_fine = cmd in IDEMPOTENT and len(runs) == 2 and len({generation for _, generation in runs}) == 1
        if len(runs) > 1 and not is_fine:
            self._world.violate(f"request {sn} of cmd {cmd} ran on workers and generations {runs}")

    def finishes(self, worker: SimWorker, held: int) -> None:
        """Check that the worker holds nothing."""
        if held:
            self._world.violate(f"worker {worker.id} was told to finish while it had {held} requests")

    def kept_silent(self, frame: bytes) -> None:
        """A handler's choice."""
        self._asked[WIRE.cmd_and_sn(frame)[1]].is_silent = True

    # The rules, after every turn

    def turned(self, proxy: SimProxy) -> None:
        """Check everything that a proxy knows."""
        dispatch, now, tickets = proxy.dispatch, proxy.now, _tickets(proxy.dispatch)
        for broken in (
            *self._broken_by_seats(dispatch, now),
            *self._broken_by_queues(dispatch),
            *self._broken_by_tickets(dispatch, tickets, now),
        ):
            self._world.violate(broken)

    def _broken_by_seats(self, dispatch: Dispatch, now: float) -> Iterator[str]:
        for seat in dispatch.workers.seats.values():
            if len(seat.held) > seat.capacity:
                yield f"worker {seat.worker} has {len(seat.held)} requests, and can take {seat.capacity}"
        for seat in dispatch.workers.touched:
            group = dispatch.groups.get(seat.group)
            gets = [number != 0 for number, _, _ in ParcelDecoder(GIVEN).feed(b"".join(seat.outbox))]
            if any(gets) and group is not None and seat.generation != group.active:
                yield f"worker {seat.worker} of generation {seat.generation} got a request in {group.active}"
            if any(gets) and group is not None and seat.is_leaving and group.is_known:
                yield f"worker {seat.worker} got a request although it leaves"
            if False in gets[:-1]:
                yield f"worker {seat.worker} got a request after it was told to finish"
        for seat in dispatch.workers.overdue:
            if not any(_had_its_time(ticket, now) for ticket in seat.held.values()):
                yield f"worker {seat.worker} is overdue, and had no request for all of its time"

    def _broken_by_queues(self, dispatch: Dispatch) -> Iterator[str]:
        for group in dispatch.groups.values():
            again, lines = len(group.queue.again), group.queue.lines
            waiting = sum(map(len, lines.values())) if lines else 0
            if group.queue.pending != waiting + again:
                yield f"group {group.number} counts {group.queue.pending} that wait, and has {waiting + again}"
            if waiting > QUEUE // 2 and (waiting > QUEUE or max(map(len, lines.values())) > QUEUE // 2):
                yield f"group {group.number} has too many waiting: {[len(line) for line in lines.values()]}"
            if group.free and group.queue.pending:
                yield f"group {group.number} lets {group.queue.pending} wait beside an idle worker"

    def _broken_by_tickets(self, dispatch: Dispatch, tickets: Collection[PendingRequest], now: float) -> Iterator[str]:
        here = 0
        for ticket in tickets:
            if not ticket.is_answered:
                here += 1
                if ticket.deadline is not None and ticket.deadline <= now:
                    yield f"request {ticket.number} is late, and was not answered"
            elif ticket.seat is None:
                yield f"request {ticket.number} was answered, and still waits"
        requests, answers = dispatch.requests, dispatch.answers
        gone = answers.drops.get("answer to a client that is gone", 0)
        if requests != answers.sent + answers.silent + gone + here:
            yield (
                f"{requests} requests came; {answers.sent} answered, {answers.silent} silent, "
                f"{gone} gone and {here} here are another number"
            )

    # The rules, at the end

    def _check_all_is_worked_off(self) -> None:
        for number, proxy in enumerate(self._node.proxies):
            if not proxy.dispatch.is_idle:
                self._world.violate(f"proxy {number} still has requests that nobody works on")

    def _check_answers(self) -> None:
        for sn, asked in self._asked.items():
            is_excused = asked.is_silent or asked.client.is_gone or not asked.has_arrived
            if not asked.answers and not is_excused:
                self._world.violate(f"request {sn} of cmd {asked.cmd} was never answered; it ran on {asked.runs}")

    # Code

    def _code(self) -> ServiceSpec:
        """A service, as some version of an app declares it. All versions have the same cmds."""
        random = self._random
        groups = sorted(random.sample((1, 2, 3, 4), random.randint(1, 3)))
        timeouts = {cmd: random.choice((None, 0.5, 2.0)) for cmd in CMDS} | {HANGS: random.choice((0.3, 1.0))}
        counts = {group: random.randint(self._proxies, 4) for group in groups}
        handlers = tuple(_handler(cmd, random.choice(groups), timeouts[cmd]) for cmd in CMDS)
        return ServiceSpec(
            name=SERVICE,
            hosts=(),
            port=0,
            groups=counts,
            handlers=handlers,
            concurrency=random.choice((1, 1, 3)),
            queue=QUEUE,
            rule=_rule(random, groups),
            proxies=self._proxies,
            all_out_first=random.random() < 0.2,
            has_loop=random.random() < 0.5,
        )


def _handler(cmd: int, group: int, seconds: float | None) -> HandlerSpec:
    limit = None if seconds is None else timedelta(seconds=seconds)
    return HandlerSpec(cmd=cmd, group=group, timeout=limit, idempotent=cmd in IDEMPOTENT, is_async=False)


def _rule(random: Random, groups: list[int]) -> Rule | None:
    match random.randint(1, 6):
        case 1:
            return ByField("sn")
        case 2:
            return ByRange(tuple((cmd, cmd, random.choice(groups)) for cmd in CMDS))
        case 3 | 4:
            return ByWorker()
    return None


def _had_its_time(ticket: PendingRequest, now: float) -> bool:
    return ticket.deadline is not None and ticket.given + ticket.deadline - ticket.arrived <= now


def _tickets(dispatch: Dispatch) -> list[PendingRequest]:
    """All requests of a dispatch, waiting or held."""
    found: list[PendingRequest] = []
    for group in dispatch.groups.values():
        if group.queue.pending:
            found += group.queue.again
            for line in group.queue.lines.values():
                found += line
        for seat in group.seats.values():
            if seat.held:
                found += seat.held.values()
    return found
