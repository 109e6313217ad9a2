"""Ahead: the attempts that a node takes on beyond its free executors, so that executors need not wait for commits.

It takes on about as many as its executors run in `AHEAD` seconds, judged by how long its last attempts took, one
portion at a time. Attempts that wait behind a slow one are given back to the fleet without having begun.
"""

from collections import deque
from collections.abc import Callable

from rota.jobs.core.attempt_phases import AttemptEvent, OwnedAttempt
from rota.jobs.core.records import RunOrder
from rota.model.ids import Instant

AHEAD = 0.2
"""Seconds of work that a node takes on beyond its free executors, as long as its runs are short enough for that."""

MOST_AHEAD = 256
PORTIONS = 4
"""Attempts taken on ahead come in this many portions: one commit binds many, and work is left while the next one is
made."""

STUCK = 1.0
"""Seconds after which attempts taken on ahead are given back, because a slow one is before them."""

SLOW = 1.0
"""Seconds that an attempt is assumed to last while nothing is known: then none is taken on ahead."""


class Ahead:
    """The attempts of one session that wait for an executor, in the order in which they came."""

    def __init__(self, executors: Callable[[], int]) -> None:
        self._executors = executors
        self._queue: deque[OwnedAttempt] = deque()
        self._leaving: list[tuple[OwnedAttempt, str]] = []
        self._pace = SLOW
        """Average seconds of an attempt on this node."""

    @property
    def spare(self) -> int:
        """How many more would be taken on; 0 while that is less than a portion, which is worth a commit."""
        room = self._most - len(self._queue)
        return room if room > 0 and room * PORTIONS >= self._most else 0

    @property
    def _most(self) -> int:
        return min(MOST_AHEAD, int(AHEAD * self._executors() / self._pace))

    def put(self, attempt: OwnedAttempt) -> bool:
        """Whether an attempt was taken on.

        Up to twice the number offered is accepted: runs may have become slower since, and a refusal would cost a
        second.
        """
        if has_room := len(self._queue) < 2 * self._most:
            self._queue.append(attempt)
        return has_room

    def begin(self, start: Callable[[RunOrder], bool], now: Callable[[], Instant]) -> None:
        """Begin waiting attempts while `start` accepts them."""
        while self._queue and start(self._queue[0].order):
            self._queue.popleft().begin(now())

    def note(self, seconds: float) -> None:
        """An attempt took this long."""
        self._pace += 0.1 * (max(seconds, 0.0005) - self._pace)

    def take_out(self, attempt: OwnedAttempt, why: str) -> None:
        """An attempt that waits here must not begin."""
        self._queue.remove(attempt)
        self._leaving.append((attempt, why))

    def leaving(self, now: Instant, why: str) -> list[tuple[OwnedAttempt, str]]:
        """The attempts that leave, and why: those that were taken out, and those behind a slow one, with the reason
        `why`."""
        while self._queue and now - self._queue[0].since >= STUCK:
            attempt = self._queue.popleft()
            attempt.step(AttemptEvent.HELD_UP)
            self._leaving.append((attempt, why))
            self._pace = SLOW
        leaving, self._leaving = self._leaving, []
        return leaving
