"""The attempts of a node: tries of runs, given to idle executors.

Accepting an attempt reserves an executor; beyond their number it is refused with a reason, never queued. Starting the
same attempt twice is the same attempt. An attempt may bring something back (the list of a source): that goes to whoever
started it, and is not kept. Executors come into being as they are needed and leave when they have been idle
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

Ended: TypeAlias = Callable[[str, bytes], None]
"""Called once with the error an attempt ended with, or nothing, and with what it brought back."""

REMEMBER = 1000
"""Ended attempts whose outcome is kept."""


@dataclass
class _Running:
    attempt: Attempt
    ended: Ended | None = None
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

    def start(self, attempt: Attempt, ended: Ended | None = None) -> str:
        """Accept an attempt; the reason if it is refused, else nothing."""
        key = (attempt.run, attempt.attempt)
        if key in self._running or key in self._ended:
            return ""
        if why := self._unable(attempt):
            return why
        if self.free < 1:
            return f"all {self._executors} executors are taken"
        self._running[key] = _Running(attempt, ended)
        self._give()
        return ""

    def _unable(self, attempt: Attempt) -> str:
        """Why the app cannot do this at all, or nothing."""
        loaded = self._crew.generations.app
        if attempt.source:
            kinds = loaded.app.resources if loaded else ()
            has_it = any(kind.name == attempt.source and kind.source_every is not None for kind in kinds)
            return "" if has_it else f'this node\'s app has no source of resource "{attempt.source}"'
        has_it = any(job.name == attempt.job for job in (loaded.app.jobs if loaded else ()))
        return "" if has_it else f'this node\'s app has no job "{attempt.job}"'

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
            self._end((message.run, message.attempt), message.error, message.result)
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

    def _end(self, key: AttemptKey, error: str, result: bytes = b"") -> None:
        running = self._running.pop(key, None)
        if running is None:
            return
        self._ended[key] = error
        if len(self._ended) > REMEMBER:
            self._ended.popitem(last=False)
        log.debug("attempt ended", extra={"run": key[0], "attempt": key[1], "error": error})
        if running.ended is not None:
            running.ended(error, result)
