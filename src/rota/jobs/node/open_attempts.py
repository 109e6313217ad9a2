"""The attempts of a node that are accepted and not over: how many executors they take, and the callbacks for their
ends."""

import asyncio
import math
from dataclasses import dataclass, field

from rota.jobs.core.records import Outcome
from rota.jobs.node.attempt_logs import LogKey, RunLogs
from rota.jobs.node.attempts import Ended, Running
from rota.jobs.node.seating import Seating


@dataclass
class _OutcomeDelivery:
    """Outcomes on their way to the callbacks that wait for them."""

    waiting: list[tuple[Ended, Outcome]] = field(default_factory=list)
    is_due: bool = False


class OpenAttempts:
    """The attempts that were accepted and are not over."""

    def __init__(self, executors: int, seating: Seating, logs: RunLogs) -> None:
        self.executors = executors
        """How many run at a time, at most."""

        self.running: dict[LogKey, Running] = {}
        self.is_busy = asyncio.Event()
        """Set when there may be something to do."""

        self._seating, self._logs = seating, logs
        self._load = 0.0
        self._waiting = _OutcomeDelivery()

    def room(self, depth: float = 1.0) -> int:
        """How many more attempts would be accepted of a job of which an executor holds `depth`."""
        return max(0, math.floor((self.executors - self._load + 1e-6) * depth))

    def full(self, weight: float) -> str:
        """Why there is no room for an attempt of this weight; empty if there is."""
        is_full = self._load + weight > self.executors + 1e-6
        return f"all {self.executors} executors are taken" if is_full else ""

    def take_up(self, running: Running) -> None:
        """Accept an attempt; without a seat it waits for one."""
        self.running[running.key] = running
        self._load += running.weight
        self.is_busy.set()
        if running.seat is None:
            self._seating.join(running)

    def end(self, running: Running, outcome: Outcome, listed: bytes = b"") -> None:
        """An attempt is over: report its outcome to the caller that started it, once; for a source also its list."""
        if self.running.pop(running.key, None) is None:
            return
        self._logs.close(running.key)  # also for one that never began: a caller may follow its log
        self._load -= running.weight
        if running.is_warm:
            self._seating.leave(running)
        if not self.running:
            self._load = 0.0
            self._seating.rest()
        if running.listed is not None:
            running.listed(outcome.error, listed)
            return
        running.outcome = outcome
        if running.ended is not None:
            self._deliver(running.ended, outcome)

    def _deliver(self, ended: Ended, outcome: Outcome) -> None:
        """Report an outcome soon, together with all others of this moment: the receiver may well start the next
        attempts."""
        self._waiting.waiting.append((ended, outcome))
        if not self._waiting.is_due:
            self._waiting.is_due = True
            asyncio.get_running_loop().call_soon(self._deliver_all)

    def _deliver_all(self) -> None:
        ready, self._waiting = self._waiting, _OutcomeDelivery()
        for ended, outcome in ready.waiting:
            ended(outcome)
