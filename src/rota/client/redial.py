"""Redial: when the client may try to connect again. Pure.

After a failure the next try waits, longer each time, however many callers want a connection. A successful connection
resets the wait.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

from rota.kit.time.backoff import delays

FIRST = timedelta(milliseconds=50)
MOST = timedelta(seconds=1)


class Redial:
    """The tries to reach one address; `now` is seconds on the caller's clock."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self.why = ""
        """Why the last try failed."""

        self._jitter = jitter
        self._delays: Iterator[timedelta] | None = None
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next try."""
        return max(0.0, self._next - now) if self._delays else 0.0

    def failed(self, now: float, why: str) -> None:
        """A try failed."""
        self.why = why
        self._delays = self._delays or delays(FIRST, MOST, self._jitter)
        self._next = now + next(self._delays).total_seconds()

    def succeeded(self) -> None:
        """A try led to a connection."""
        self.why, self._delays = "", None
