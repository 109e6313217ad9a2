"""The attempts of a node: accepted, given to executors or to processes of their own, and brought to an end.

Accepting an attempt reserves an executor, or, if its job is known to be short, a part of one (`node.pace`); beyond that
it is refused with a reason. Starting the same attempt under the same epoch again is the same attempt; an older epoch is
refused. Whoever starts one is told its outcome once, when all its processes are dead and its log is complete.

To stop an attempt is to send TERM to all its processes, and KILL to those that are there after the grace. An executor
is not used again after that. What was given to it and not begun is given to another: orders are either taken by an
executor or taken back, never both (`node.seats`).

Attempts belong to the node's session: when it ends they are killed, and if the agent is frozen, their guards do that
before the lease is over (`node.guard`).
"""

import asyncio
import logging
import math
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import msgspec

from rota.kit import durations
from rota.kit.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.model.job import Origin, Outcome, RunOrder, RunState
from rota.node import attempts, kernel
from rota.node.attempts import Ended, Ending, Running, SourceEnded
from rota.node.crew import Crew
from rota.node.guard import Leash
from rota.node.logs import LogKey, RunLogs
from rota.node.output import Answer
from rota.node.pipes import Attempt, Brief, Listed
from rota.node.posts import EXECUTOR, RUN
from rota.node.seating import Seating
from rota.node.seats import Orders, Seat, Tap
from rota.node.workers import Worker

log = logging.getLogger(__name__)

EndedOf: TypeAlias = Callable[[RunOrder, Outcome], None]

LOOK = 0.05
"""Seconds between looks at what runs."""

REMEMBER = 50_000
"""Attempts that are over and still known by their epoch."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass
class _Told:
    """Outcomes on their way to whoever waits for them."""

    waiting: list[tuple[Ended, Outcome]] = field(default_factory=list)
    is_due: bool = False


class Runs:
    """What was accepted, and what came of it."""

    def __init__(
        self, crew: Crew, config: RuntimeConfig, logs: RunLogs, clock: Clock, resized: Callable[[], None]
    ) -> None:
        self._crew, self._config, self._logs, self._clock = crew, config, logs, clock
        self._running: dict[LogKey, Running] = {}
        self._asking: dict[int, Running] = {}
        self._dying: list[Running] = []
        self._known: OrderedDict[LogKey, int] = OrderedDict()
        self._seating = Seating(crew, config.executors, clock, resized)
        self._load = 0.0
        self._told = _Told()
        self._is_busy = asyncio.Event()
        self._rest = asyncio.Event()
        self._may_act = False
        self._alarm: asyncio.TimerHandle | None = None
        self._stop_at: Instant | None = None
        self._leash = Leash()
        crew.witnesses.append(self)
        crew.outfit = self._outfit
        crew.excuses.append(self._was_at_work)

    # What it looks like

    @property
    def executors(self) -> int:
        """How many attempts run at a time, at most."""
        return self._config.executors

    @property
    def free(self) -> int:
        """How many more attempts of any job would be accepted."""
        return max(0, math.floor(self.executors - self._load + 1e-6))

    def room(self, job: str) -> int:
        """How many more attempts of a job would be accepted; of a short one, more than there are executors."""
        return max(0, math.floor((self.executors - self._load + 1e-6) * self._seating.paces.depth(job)))

    @property
    def size(self) -> int:
        """How many executors there should be."""
        return self._seating.size

    def running(self) -> list[RunOrder]:
        """The attempts of runs that were accepted and are not over."""
        return [each.order for each in self._running.values() if each.listed is None]

    # What is wanted of it

    def start(self, order: RunOrder, ended: Ended | None = None) -> str:
        """Accept an attempt; the reason if it is refused, else nothing."""
        why = self._accept(order, ended)
        self._seating.give()
        return why

    def start_many(self, orders: Iterable[RunOrder], ended: EndedOf) -> list[str]:
        """Accept several: for each the reason if it is refused, else nothing."""
        reasons = [self._accept(order, partial(ended, order)) for order in orders]
        self._seating.give()
        return reasons

    def ask(self, kind: str, number: int, listed: SourceEnded) -> str:
        """Have the source of a kind asked in an executor, under a number; the reason if it is refused."""
        order = RunOrder(run=f"source:{kind}", attempt=number, epoch=0, job="")
        loaded = self._crew.generations.app
        kinds = loaded.app.resources if loaded else ()
        if not any(each.name == kind and each.source_every is not None for each in kinds):
            return f'this node\'s app has no source of resource "{kind}"'
        if why := self._full(1.0):
            return why
        running = Running(order, None, 1.0, _encode(Attempt(order.run, number, "", source=kind)), listed)
        self._asking[number] = running
        self._take_up(running)
        self._seating.give()
        return ""

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        """Stop an attempt with all its processes; False if it does not run here."""
        running = self._running.get((run, attempt))
        if running is None:
            return False
        # A source holds nothing that it would have to put in order.
        return self._stop(running, RunState.INTERRUPTED, why, grace=None if running.listed is None else 0.0)

    def extend(self, stop_at: float, dead_by: float) -> None:
        """Attempts may run: they are stopped at the first instant and dead by the second, if nothing more is said."""
        self._may_act = True
        self._leash.set(dead_by)
        if self._alarm is not None:
            self._alarm.cancel()
        loop, wait = asyncio.get_running_loop(), stop_at - self._clock.monotonic()
        self._alarm = loop.call_later(max(0.0, wait), self._run_out, dead_by)

    def _run_out(self, dead_by: float) -> None:
        """The lease was not renewed: stop what runs, while the guards still wait."""
        left = dead_by - self._clock.monotonic()
        self._stop_all("its node's lease could not be renewed", grace=max(0.0, left / 2))

    def end_session(self) -> None:
        """The lease is gone or given back: end every attempt now."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._stop_all("its node's session ended", grace=0.0)

    def _stop_all(self, why: str, grace: float) -> None:
        self._may_act = False
        for running in list(self._running.values()):
            self._stop(running, RunState.LOST, why, grace)
        self._release_guards()

    def _release_guards(self) -> None:
        """When nothing runs, and nothing may, executors need not die: they have nothing that others could do, too."""
        if not self._may_act and not self._running and not self._dying:
            self._leash.set(0.0)

    def stop_by(self, when: Instant) -> None:
        """Take nothing new; attempts that are not over when only the grace is left are stopped."""
        grace = self._config.grace.total_seconds()
        self._stop_at = Instant(max(when - grace, self._clock.monotonic()))
        self._is_busy.set()

    # The loop

    async def run(self) -> None:
        """Look after what runs, for ever."""
        while True:
            await self._is_busy.wait()
            await asyncio.sleep(LOOK)
            self.look()
            if not self._running and not self._dying:
                self._is_busy.clear()
                self._rest.set()

    async def over(self) -> None:
        """Return when the last attempt is over, with all of its processes, and that is told."""
        while self._running or self._dying:
            self._rest.clear()
            self._is_busy.set()
            await self._rest.wait()
        await asyncio.sleep(0)  # outcomes are told a turn later

    def look(self) -> None:
        """End what has had its time, and free what waits behind something long."""
        now = self._clock.monotonic()
        for seat in self._seating.seats.values():
            assert seat.tap is not None
            seat.tap.allow()
        self._seating.free_the_stuck(now)
        for running in list(self._running.values()):
            self._look_at(running, now)
        for running in list(self._dying):
            self._finish_if_dead(running, now)
        self._release_guards()
        self._seating.give()

    def tick(self) -> None:
        """Let executors go that were not needed for a while."""
        self._seating.tick()

    # Accepting

    def _accept(self, order: RunOrder, ended: Ended | None) -> str:
        key = (order.run, order.attempt)
        known = self._known.get(key)
        if known == order.epoch:
            return ""
        if known is not None and order.epoch < known:
            return f"epoch {order.epoch} of it is over, the present one is {known}; read the run again"
        if key in self._running:
            self.interrupt(*key, f"it was bound again, under epoch {order.epoch}")
            return f"it still ends here under epoch {known}; try again"
        weight = 1.0 if attempts.needs_process(order) else 1.0 / self._seating.paces.depth(order.job)
        if why := self._unable(order) or self._full(weight):
            return why
        running = Running(order, ended, weight)
        if attempts.needs_process(order):
            if why := self._send_out(running):
                return why
        else:
            running.wire = _encode(attempts.attempt_of(order))
        self._known[key] = order.epoch
        if len(self._known) > REMEMBER:
            self._known.popitem(last=False)
        self._take_up(running)
        return ""

    def _unable(self, order: RunOrder) -> str:
        """Why this node cannot do it at all, or nothing."""
        if self._stop_at is not None:
            return "this node is stopping"
        if not self._may_act:
            return "this node is not in the fleet now; try again"
        if order.argv:
            refusal = self._crew.generations.target.commands.refusal if order.origin is Origin.API else ""
            return refusal or attempts.missing(order)
        loaded = self._crew.generations.app
        has_it = any(job.name == order.job for job in (loaded.app.jobs if loaded else ()))
        return "" if has_it else f'this node\'s app has no job "{order.job}"'

    def _full(self, weight: float) -> str:
        is_full = self._load + weight > self.executors + 1e-6
        return f"all {self.executors} executors are taken" if is_full else ""

    def _take_up(self, running: Running) -> None:
        self._running[running.key] = running
        self._load += running.weight
        self._is_busy.set()
        if running.seat is None:
            self._seating.join(running)

    def _send_out(self, running: Running) -> str:
        """Start a process for one attempt; why not, if that cannot be."""
        try:
            number = self._crew.send_out(attempts.attempt_of(running.order))
        except Unavailable as error:
            return str(error)
        running.seat = self._seating.seats[number]
        running.seat.held.append(running)
        self._seating.begins(running)
        return ""

    # A Witness of the crew

    def _outfit(self, brief: Brief) -> Sequence[int]:
        """What a worker of runs needs: where to write, the deadline, and an executor its orders."""
        if brief.role not in (EXECUTOR, RUN):
            return ()
        orders = Orders() if brief.role == EXECUTOR else None
        try:
            pipe, *fds = self._leash.outfit(None if orders is None else orders.fileno())
        except OSError:
            if orders is not None:
                orders.close()
            raise
        seat: Seat[Running] = Seat(brief.worker, orders)
        seat.tap = Tap(pipe, brief.mark, partial(self._heard, seat))
        self._seating.seats[brief.worker] = seat
        return fds

    def _was_at_work(self, worker: Worker) -> bool:
        """Was it in the middle of an attempt? That may do with it what it likes."""
        seat = self._seating.seats.get(worker.id)
        return seat is not None and bool(seat.held)

    def registered(self, worker: Worker) -> None:
        """An executor may have come."""
        if worker.brief.pool == EXECUTOR:
            self._seating.open(worker)

    def draining(self, worker: Worker) -> None:
        """It finishes what it has begun; what it has not is given to another."""
        if worker.brief.role == EXECUTOR and (seat := self._seating.seats.get(worker.id)):
            self._seating.withdraw(seat)
            assert seat.orders is not None
            seat.orders.finish()
            self._seating.give_soon()

    def said(self, worker: Worker, message: Any) -> None:
        """A source may have been asked."""
        if isinstance(message, Listed) and (running := self._asking.get(message.attempt)):
            self._listed(running, message.error, message.result)

    def ended(self, worker: Worker, why: str) -> None:
        """A worker may be gone, and with it the attempt that it had begun."""
        seat = self._seating.seats.pop(worker.id, None)
        if seat is None:
            return
        assert seat.tap is not None
        seat.tap.catch_up()  # its last answers
        self._seating.withdraw(seat)
        seat.close()
        for running in seat.held:
            self._fell(running, worker, why)
        seat.held.clear()
        self._seating.give_soon()

    def _heard(self, seat: Seat[Running], piece: bytes | Answer) -> None:
        """A worker wrote something: it is the output, or the answer, of the first attempt that it holds."""
        running = seat.held[0] if seat.held else None
        if isinstance(piece, Answer):
            if running is not None:
                self._answered(seat, running, piece)
        elif running is not None and running.listed is None:
            self._logs.take(running.key, piece)
        else:
            log.info("output outside of a run", extra={"text": piece[:1000].decode(errors="replace").rstrip()})

    def _answered(self, seat: Seat[Running], running: Running, answer: Answer) -> None:
        running.answer = answer
        if running.ending is not None or seat.orders is None:
            return  # it is over when its processes are
        seat.held.popleft()
        if seat.held:
            self._seating.begins(seat.held[0])
        if worker := self._crew.workers.get(seat.worker):
            worker.done += 1
        if running.listed is None:
            self._seating.paces.note(running.order.job, answer.seconds)
            self._end(running, attempts.answered(answer, self._logs.close(running.key)))
        self._seating.give_soon()

    # Stopping

    def _stop(self, running: Running, state: RunState, why: str, grace: float | None = None) -> bool:
        """Begin to end an attempt; False if it turns out to be over."""
        if running.ending is not None or running.outcome is not None:
            return True
        seat = running.seat
        if seat is not None and seat.orders is not None:
            # First nothing waits behind it, then what was answered is heard: if it is not over now, the executor runs
            # it and nothing else, and no other attempt is hit.
            self._seating.withdraw(seat)
            assert seat.tap is not None
            seat.tap.catch_up()
            if not seat.held or seat.held[0] is not running:
                self._seating.reopen(seat)
                if running.seat is not None:
                    return False
            seat = running.seat
        if seat is None:
            self._seating.drop(running)
            self._end(running, Outcome(state=state, error=why))
            return True
        self._signal(running, seat, state, why, self._config.grace.total_seconds() if grace is None else grace)
        return True

    def _signal(self, running: Running, seat: Seat[Running], state: RunState, why: str, grace: float) -> None:
        running.ending = Ending(state, why, Instant(self._clock.monotonic() + grace), [])
        worker = self._crew.workers.get(seat.worker)
        if worker is None:
            return
        if worker.brief.role == EXECUTOR:
            self._crew.dismiss(worker.id)
            self._crew.wake()
        if worker.pid is None or grace <= 0:
            self._kill(running, worker)
        else:
            running.ending.kin = kernel.kin_of(worker.pid)
            kernel.signal_kin(worker.pid, running.ending.kin, signal.SIGTERM)

    def _kill(self, running: Running, worker: Worker) -> None:
        assert running.ending is not None
        if worker.pid is not None:
            running.ending.kin = kernel.kin_of(worker.pid) or running.ending.kin
            kernel.signal_kin(worker.pid, running.ending.kin, signal.SIGKILL)
        worker.kill(running.ending.why)

    def _look_at(self, running: Running, now: Instant) -> None:
        """Stop it if its time is up; kill it if it was asked to stop and does not."""
        ending, limit = running.ending, running.order.timeout
        if ending is not None:
            worker = self._crew.workers.get(running.seat.worker) if running.seat is not None else None
            if worker is None or worker.pid is None:
                return
            ending.kin = kernel.kin_of(worker.pid) or ending.kin
            if now >= ending.kill_at:
                self._kill(running, worker)
        elif limit is not None and running.since is not None and now - running.since >= limit.total_seconds():
            self._stop(running, RunState.TIMED_OUT, f"it took longer than {durations.render(limit)}")
        elif self._stop_at is not None and now >= self._stop_at:
            self._stop(running, RunState.INTERRUPTED, "its node stops")

    def _finish_if_dead(self, running: Running, now: Instant) -> None:
        """An attempt that was stopped is over when nothing of it is left."""
        assert running.ending is not None
        assert running.outcome is not None
        running.ending.kin = kernel.still_there(running.ending.kin)
        if not running.ending.kin:
            self._dying.remove(running)
            self._end(running, running.outcome)
        elif now >= running.ending.kill_at:
            kernel.end(each.pid for each in running.ending.kin)

    # Ending

    def _fell(self, running: Running, worker: Worker, why: str) -> None:
        """The worker that ran it is gone."""
        if running.listed is not None:
            self._listed(running, f"worker lost: {why}", b"")
            return
        log_bytes = self._logs.close(running.key)
        outcome = attempts.fallen(running, worker, why, log_bytes, self._clock.monotonic())
        if running.ending is not None:
            running.outcome = outcome
            self._dying.append(running)
            self._finish_if_dead(running, self._clock.monotonic())
        else:
            self._end(running, outcome)

    def _listed(self, running: Running, error: str, result: bytes) -> None:
        """A source was asked."""
        self._asking.pop(running.order.attempt, None)
        if self._forget(running) and running.listed is not None:
            running.listed(error, result)

    def _end(self, running: Running, outcome: Outcome) -> None:
        if running.listed is not None:
            self._listed(running, outcome.error, b"")
        elif self._forget(running):
            running.outcome = outcome
            if running.ended is not None:
                self._tell(running.ended, outcome)

    def _forget(self, running: Running) -> bool:
        if self._running.pop(running.key, None) is None:
            return False
        self._logs.close(running.key)  # also of one that never began: somebody may follow it
        self._load -= running.weight
        if running.is_warm:
            self._seating.leave(running)
        if not self._running:
            self._load = 0.0
            self._seating.rest()
        return True

    def _tell(self, ended: Ended, outcome: Outcome) -> None:
        """Tell an outcome soon, with all others of this moment: whoever hears it may well start the next."""
        self._told.waiting.append((ended, outcome))
        if not self._told.is_due:
            self._told.is_due = True
            asyncio.get_running_loop().call_soon(self._tell_all)

    def _tell_all(self) -> None:
        told, self._told = self._told, _Told()
        for ended, outcome in told.waiting:
            ended(outcome)
