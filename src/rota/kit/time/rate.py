"""Pace: so many a second or a minute, and no more. Pure: time is an argument."""

from datetime import timedelta

from rota.kit.time.instant import Instant


class TokenBucket:
    """A right to do something comes back evenly, and is kept for a while if nobody uses it."""

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
        """So many were done."""
        self._left -= count
