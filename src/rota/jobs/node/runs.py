"""The attempts of a node: accepted, given to executors or to processes of their own, and brought to an end.

Accepting an attempt reserves an executor, or, if its job is known to be short, a part of one (`jobs.node.pace`); beyond
that it is refused with a reason. Starting the same attempt under the same epoch again is the same attempt; an older
epoch is refused. The caller that starts one gets its outcome once, when all its processes are dead and its log is
complete.

This module accepts attempts and follows the session; `open_attempts` has those that are not over, `seating` decides
which executor holds one, `run_workers` handles its worker's reports, `endings` stops it.

Attempts belong to the node's session: when it ends they are killed, and if the agent is frozen, their guards do that
before the lease is over (`runtime.worker.guard`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import msgspec

from rota.jobs.core.records import Origin, Outcome, RunOrder, RunState
from rota.jobs.node import attempts
from rota.jobs.node.attempt_logs import LogKey
from rota.jobs.node.attempts import Ended, Running
from rota.jobs.node.endings import Endings
from rota.jobs.node.open_attempts import OpenAttempts
from rota.jobs.node.seating import Seating
from rota.kit.time.clock import Clock
from rota.link.records import AttemptId
from rota.model.config import RuntimeConfig
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.runtime.crew.runner import CrewRunner
from rota.runtime.worker.guard import AgentLifeline

EndedOf: TypeAlias = Callable[[RunOrder, Outcome], None]

LOOK = 0.05
"""Seconds between two checks of what runs."""

REMEMBER = 50_000
"""The number of finished attempts that are still known by their epoch."""

_encode = msgspec.msgpack.Encoder().encode


class AcceptedRuns:
    """Accepts attempts and runs them, as long as the session lasts."""

    def __init__(
        self,
        runner: CrewRunner,
        config: RuntimeConfig,
        open_attempts: OpenAttempts,
        seating: Seating,
        endings: Endings,
        leash: AgentLifeline,
        clock: Clock,
    ) -> None:
        self._runner, self._generations, self._clock = runner, runner.crew.generations, clock
        self._grace = config.grace.total_seconds()
        self._open, self._seating, self._endings, self._leash = open_attempts, seating, endings, leash
        self._known: OrderedDict[LogKey, int] = OrderedDict()
        self._rest = asyncio.Event()
        self._may_act = False
        self._alarm: asyncio.TimerHandle | None = None

    # Views of the state

    @property
    def executors(self) -> int:
        """How many attempts run at a time, at most."""
        return self._open.executors

    @property
    def free(self) -> int:
        """How many more attempts of any job would be accepted."""
        return self._open.room()

    def room(self, job: str) -> int:
        """How many more attempts of a job would be accepted; for a short one, more than there are executors."""
        return self._open.room(self._seating.paces.depth(job))

    @property
    def size(self) -> int:
        """How many executors there should be."""
        return self._seating.size

    def running(self) -> list[RunOrder]:
        """The attempts of runs that were accepted and are not over."""
        return [each.order for each in self._open.running.values() if each.listed is None]

    def has(self, attempt: AttemptId) -> bool:
        """Was an attempt accepted, and is its outcome still unknown?"""
        running = self._open.running.get((attempt.run, attempt.number))
        return running is not None and running.outcome is None

    # Requests

    def start(self, order: RunOrder, ended: Ended | None = None) -> str:
        """Accept an attempt; returns the reason if it is refused, or an empty string."""
        why = self._accept(order, ended)
        self._seating.give()
        return why

    def start_many(self, orders: Iterable[RunOrder], ended: EndedOf) -> list[str]:
        """Accept several; returns for each the reason if it is refused, or an empty string."""
        reasons = [self._accept(order, partial(ended, order)) for order in orders]
        self._seating.give()
        return reasons

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        """Stop an attempt with all its processes; False if it does not run here."""
        running = self._open.running.get((run, attempt))
        return running is not None and self._endings.stop(running, RunState.INTERRUPTED, why)

    def extend(self, stop_at: float, dead_by: float) -> None:
        """Attempts may run: unless extended again, they are stopped at the first instant and dead by the second."""
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
        """The lease has ended or was given back: end every attempt now."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._stop_all("its node's session ended", grace=0.0)

    def _stop_all(self, why: str, grace: float) -> None:
        self._may_act = False
        for running in list(self._open.running.values()):
            self._endings.stop(running, RunState.LOST, why, grace)
        self._release_guards()

    def _release_guards(self) -> None:
        """When nothing runs, and nothing may start, lift the deadline: idle executors hold no exclusive work and need
        not die."""
        if not self._may_act and self._is_over:
            self._leash.set(0.0)

    def stop_by(self, when: Instant) -> None:
        """Accept nothing new; attempts that are still running when only the grace is left are stopped."""
        self._endings.stop_at = Instant(max(when - self._grace, self._clock.monotonic()))
        self._open.is_busy.set()

    # The loop

    async def run(self) -> None:
        """Check what runs periodically, until cancelled."""
        while True:
            await self._open.is_busy.wait()
            await asyncio.sleep(LOOK)
            self.look()
            if self._is_over:
                self._open.is_busy.clear()
                self._rest.set()

    async def over(self) -> None:
        """Return when the last attempt is over, with all of its processes, and its outcome is reported."""
        while not self._is_over:
            self._rest.clear()
            self._open.is_busy.set()
            await self._rest.wait()
        await asyncio.sleep(0)  # outcomes are reported one turn later

    def look(self) -> None:
        """Stop what has exceeded its time, and take back what waits behind a long attempt."""
        now = self._clock.monotonic()
        for seat in self._seating.seats.values():
            assert seat.tap is not None
            seat.tap.allow()
        self._seating.free_the_stuck(now)
        self._endings.look(now)
        self._release_guards()
        self._seating.give()

    @property
    def _is_over(self) -> bool:
        return not self._open.running and not self._endings.dying

    def tick(self) -> None:
        """Let executors leave that were not needed for a while."""
        self._seating.tick()

    # Accepting

    def _accept(self, order: RunOrder, ended: Ended | None) -> str:
        key = (order.run, order.attempt)
        known = self._known.get(key)
        if known == order.epoch:
            return ""
        if known is not None and order.epoch < known:
            return f"epoch {order.epoch} of it is over, the present one is {known}; read the run again"
        if key in self._open.running:
            self.interrupt(*key, f"it was bound again, under epoch {order.epoch}")
            return f"it still ends here under epoch {known}; try again"
        weight = 1.0 if attempts.needs_process(order) else 1.0 / self._seating.paces.depth(order.job)
        if why := self._unable(order) or self._open.full(weight):
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
        self._open.take_up(running)
        return ""

    def _unable(self, order: RunOrder) -> str:
        """Why this node cannot run it at all; empty if it can."""
        if self._endings.stop_at is not None:
            return "this node is stopping"
        if not self._may_act:
            return "this node is not in the fleet now; try again"
        if order.argv:
            refusal = self._generations.target.commands.refusal if order.origin is Origin.API else ""
            return refusal or attempts.missing(order)
        loaded = self._generations.app
        has_it = any(job.name == order.job for job in (loaded.app.jobs if loaded else ()))
        return "" if has_it else f'this node\'s app has no job "{order.job}"'

    def _send_out(self, running: Running) -> str:
        """Start a process for one attempt; returns why not, if that fails."""
        try:
            number = self._runner.send_out(attempts.attempt_of(running.order))
        except Unavailable as error:
            return str(error)
        running.seat = self._seating.seats[number]
        running.seat.held.append(running)
        self._seating.begins(running)
        return ""
