"""Pace: a limited number per second or per minute. Pure: time is an argument."""

from datetime import timedelta

from rota.kit.time.instant import Instant


class TokenBucket:
    """A right to do something comes back at a steady rate, and unused ones are kept up to a limit."""

    def __init__(self, count: int, every: timedelta, now: Instant, kept: timedelta = timedelta(seconds=1)) -> None:
        self._rate = count / every.total_seconds()
        self._most = max(1.0, self._rate * kept.total_seconds())
        self._left, self._at = self._most, now

    def left(self, now: Instant) -> int:
        """How many may be done now."""
        self._left = min(self._most, self._left + self._rate * max(0.0, now - self._at))
        self._at = max(self._at, now)
        return int(self._left)

    def spend(self, count: int) -> None:
        """`count` were done."""
        self._left -= count
