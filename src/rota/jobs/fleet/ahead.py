"""Ahead: the attempts that a node takes on beyond its free executors, so that those need not wait for commits.

It takes on about as much as its executors do in `AHEAD` seconds, judged by how long its last attempts took, and a
portion at a time. What waits behind something slow leaves again without having begun, and is given back to the fleet.
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
"""What is taken on ahead comes in so many portions: one commit binds many, and there is still something to do."""

STUCK = 1.0
"""Seconds after which what was taken on ahead is given back: something slow is before it."""

SLOW = 1.0
"""Seconds that an attempt is taken to last while nothing is known: nothing is taken on ahead then."""


class Ahead:
    """The attempts of one session that wait for an executor, in the order in which they came."""

    def __init__(self, executors: Callable[[], int]) -> None:
        self._executors = executors
        self._queue: deque[OwnedAttempt] = deque()
        self._leaving: list[tuple[OwnedAttempt, str]] = []
        self._pace = SLOW
        """Seconds that attempts of this node take, about."""

    @property
    def spare(self) -> int:
        """How many more would be taken on; none until it is a portion that is worth a commit."""
        room = self._most - len(self._queue)
        return room if room > 0 and room * PORTIONS >= self._most else 0

    @property
    def _most(self) -> int:
        return min(MOST_AHEAD, int(AHEAD * self._executors() / self._pace))

    def put(self, attempt: OwnedAttempt) -> bool:
        """Whether an attempt was taken on.

        Twice what was offered is, for runs may have become slower since: what was refused would cost a second.
        """
        if has_room := len(self._queue) < 2 * self._most:
            self._queue.append(attempt)
        return has_room

    def begin(self, start: Callable[[RunOrder], bool], now: Callable[[], Instant]) -> None:
        """Begin what waits, as long as `start` can."""
        while self._queue and start(self._queue[0].order):
            self._queue.popleft().begin(now())

    def note(self, seconds: float) -> None:
        """An attempt took so long."""
        self._pace += 0.1 * (max(seconds, 0.0005) - self._pace)

    def take_out(self, attempt: OwnedAttempt, why: str) -> None:
        """An attempt that waits here is not to begin."""
        self._queue.remove(attempt)
        self._leaving.append((attempt, why))

    def leaving(self, now: Instant, why: str) -> list[tuple[OwnedAttempt, str]]:
        """Those that leave and why: what was taken out, and what waits behind something slow, which `why` says."""
        while self._queue and now - self._queue[0].since >= STUCK:
            attempt = self._queue.popleft()
            attempt.step(AttemptEvent.HELD_UP)
            self._leaving.append((attempt, why))
            self._pace = SLOW
        leaving, self._leaving = self._leaving, []
        return leaving
