"""The attempts of a node: tries of runs, given to idle executors.

Accepting an attempt reserves an executor; beyond their number it is refused with a reason, never queued. Starting the
same attempt twice is the same attempt. Executors come into being as they are needed and leave when they have been idle
for a while; one stays warm.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rota.kit.clock import Clock
from rota.node.crew import Crew
from rota.node.pipes import Attempt, AttemptEnded
from rota.node.posts import EXECUTOR
from rota.node.workers import Worker

log = logging.getLogger(__name__)

AttemptKey: TypeAlias = tuple[str, int]
"""A run and the number of the attempt."""

IDLE = 60.0
"""Seconds after which executors that were not needed leave."""

REMEMBER = 1000
"""Ended attempts whose outcome is kept."""


@dataclass
class _Running:
    attempt: Attempt
    worker: int | None = None


class Attempts:
    """What was accepted, and what came of it."""

    def __init__(self, crew: Crew, executors: int, clock: Clock, resized: Callable[[], None]) -> None:
        self._crew, self._executors, self._clock, self._resized = crew, executors, clock, resized
        self._running: dict[AttemptKey, _Running] = {}
        self._ended: OrderedDict[AttemptKey, str] = OrderedDict()
        self._size = 1
        self._needed = clock.monotonic()
        crew.witnesses.append(self)

    @property
    def size(self) -> int:
        """How many executors there should be."""
        return self._size

    @property
    def free(self) -> int:
        """How many more attempts would be accepted."""
        return self._executors - len(self._running)

    def outcome(self, run: str, attempt: int) -> str | None:
        """How an attempt ended, nothing for well; None if it has not, or nobody remembers."""
        return self._ended.get((run, attempt))

    def start(self, attempt: Attempt) -> str:
        """Accept an attempt; the reason if it is refused, else nothing."""
        key = (attempt.run, attempt.attempt)
        if key in self._running or key in self._ended:
            return ""
        app = self._crew.generations.app
        if app is None or all(job.name != attempt.job for job in app.app.jobs):
            return f'this node\'s app has no job "{attempt.job}"'
        if self.free < 1:
            return f"all {self._executors} executors are taken"
        self._running[key] = _Running(attempt)
        self._give()
        return ""

    def interrupt(self, run: str, number: int, why: str) -> bool:
        """End an attempt with all its processes; False if it does not run here."""
        running = self._running.get((run, number))
        if running is None:
            return False
        worker = self._crew.workers.get(running.worker) if running.worker is not None else None
        if worker is None:
            self._end((run, number), why)
        else:
            worker.kill(why)
        return True

    def tick(self) -> None:
        """Let executors go that were not needed for a while."""
        now, needed = self._clock.monotonic(), max(1, len(self._running))
        if needed >= self._size:
            self._needed = now
        elif now - self._needed > IDLE and (size := max(needed, self._highest_busy_slot() + 1)) < self._size:
            self._size = size
            self._resized()

    def _highest_busy_slot(self) -> int:
        """A pool shrinks from its end, and only over executors that have nothing to do."""
        busy = [self._crew.workers.get(running.worker) for running in self._running.values() if running.worker]
        return max((worker.brief.slot for worker in busy if worker), default=0)

    # A Witness of the crew

    def registered(self, worker: Worker) -> None:
        """An executor may have come."""
        self._give()

    def draining(self, worker: Worker) -> None:
        """It finishes what it has, and is given nothing more."""

    def said(self, worker: Worker, message: Any) -> None:
        """An attempt may have ended."""
        if isinstance(message, AttemptEnded):
            self._end((message.run, message.attempt), message.error)
            self._give()

    def ended(self, worker: Worker, why: str) -> None:
        """An executor may be gone, and its attempt with it."""
        for key in [key for key, running in self._running.items() if running.worker == worker.id]:
            self._end(key, f"worker lost: {why}")
        self._give()

    def _give(self) -> None:
        """Hand waiting attempts to idle executors, and want more executors if there are too few."""
        waiting = [running for running in self._running.values() if running.worker is None]
        if waiting:
            busy = {running.worker for running in self._running.values()}
            executors = self._crew.of_pool(EXECUTOR)
            idle = [worker for worker in executors if worker.can_work and worker.id not in busy]
            for running, worker in zip(waiting, idle, strict=False):
                running.worker = worker.id
                worker.send(running.attempt)
        if len(self._running) > self._size:
            self._size, self._needed = len(self._running), self._clock.monotonic()
            self._resized()

    def _end(self, key: AttemptKey, error: str) -> None:
        if self._running.pop(key, None) is None:
            return
        self._ended[key] = error
        if len(self._ended) > REMEMBER:
            self._ended.popitem(last=False)
        log.debug("attempt ended", extra={"run": key[0], "attempt": key[1], "error": error})
