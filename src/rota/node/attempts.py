"""The attempts of a node: tries of runs, given to idle executors.

Accepting an attempt reserves an executor; beyond their number it is refused with a reason, never queued. Starting the
same attempt twice is the same attempt. Executors come into being as they are needed and leave when they have been idle
for a while; one stays warm.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rota.decide.crew import Phase
from rota.kit.clock import Clock
from rota.node.crew import Crew
from rota.node.pipes import Attempt, AttemptEnded
from rota.node.posts import EXECUTOR
from rota.node.workers import Worker

log = logging.getLogger(__name__)

IDLE = 60.0
"""Seconds after which executors that were not needed leave."""

REMEMBER = 10_000
"""Attempts whose outcome is kept."""


@dataclass(frozen=True)
class Account:
    """One attempt as this node knows it."""

    attempt: Attempt
    worker: int | None = None
    has_ended: bool = False
    error: str = ""


class Attempts:
    """What was accepted, and what came of it."""

    def __init__(self, crew: Crew, executors: int, clock: Clock, resized: Callable[[], None]) -> None:
        self._crew, self._executors, self._clock, self._resized = crew, executors, clock, resized
        self._accounts: OrderedDict[tuple[str, int], Account] = OrderedDict()
        self._waiting: deque[tuple[str, int]] = deque()
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
        return self._executors - self._in_flight()

    def account(self, run: str, attempt: int) -> Account | None:
        """What is known of an attempt."""
        return self._accounts.get((run, attempt))

    def start(self, attempt: Attempt) -> str:
        """Accept an attempt; the reason if it is refused, else nothing."""
        key = (attempt.run, attempt.attempt)
        if key in self._accounts:
            return ""
        app = self._crew.generations.app
        if app is None or all(job.name != attempt.job for job in app.app.jobs):
            return f'this node\'s app has no job "{attempt.job}"'
        if self.free < 1:
            return f"all {self._executors} executors are taken"
        self._accounts[key] = Account(attempt)
        while len(self._accounts) > REMEMBER and next(iter(self._accounts.values())).has_ended:
            self._accounts.popitem(last=False)
        self._waiting.append(key)
        self._give()
        return ""

    def interrupt(self, run: str, number: int, why: str) -> bool:
        """End an attempt with all its processes; False if it does not run here."""
        account = self._accounts.get((run, number))
        if account is None or account.has_ended:
            return False
        if account.worker is None:
            self._waiting.remove((run, number))
            self._ended((run, number), why)
        elif worker := self._crew.workers.get(account.worker):
            worker.kill(why)
        return True

    def tick(self) -> None:
        """Let executors go that were not needed for a while."""
        now = self._clock.monotonic()
        needed = max(1, self._in_flight())
        if needed >= self._size:
            self._needed = now
        elif now - self._needed > IDLE:
            self._size = needed
            self._resized()

    # Witness

    def registered(self, worker: Worker) -> None:
        self._give()

    def draining(self, worker: Worker) -> None:
        """Nothing: it finishes what it has."""

    def said(self, worker: Worker, message: Any) -> None:
        if isinstance(message, AttemptEnded):
            self._ended((message.run, message.attempt), message.error)
            self._give()

    def ended(self, worker: Worker, why: str) -> None:
        for key, account in list(self._accounts.items()):
            if account.worker == worker.id and not account.has_ended:
                self._ended(key, f"worker lost: {why}")
        self._give()

    def _give(self) -> None:
        busy = {account.worker for account in self._accounts.values() if not account.has_ended}
        idle = deque(
            worker for worker in self._crew.of_pool(EXECUTOR) if worker.phase == Phase.READY and worker.id not in busy
        )
        while self._waiting and idle:
            key, worker = self._waiting.popleft(), idle.popleft()
            account = self._accounts[key] = replace(self._accounts[key], worker=worker.id)
            worker.send(account.attempt)
        wanted = min(self._executors, max(self._size, self._in_flight()))
        if wanted > self._size:
            self._size, self._needed = wanted, self._clock.monotonic()
            self._resized()

    def _in_flight(self) -> int:
        return sum(not account.has_ended for account in self._accounts.values())

    def _ended(self, key: tuple[str, int], error: str) -> None:
        account = self._accounts.get(key)
        if account is not None and not account.has_ended:
            self._accounts[key] = replace(account, has_ended=True, error=error)
            log.debug("attempt ended", extra={"run": key[0], "attempt": key[1], "error": error})
