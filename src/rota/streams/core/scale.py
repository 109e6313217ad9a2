"""How many task groups a stream should have, by its lag. Pure.

`Lags` remembers the lag of a while. More groups are wanted when it was high in a good part of that while, fewer when it
was low nearly all of it: a peak is no reason to move partitions. A change makes everything before it forgotten, so that
the next one comes a whole while later.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

OFTEN, NEARLY_ALWAYS = 0.3, 0.9
"""Parts of a while."""

MORE, FEWER = 2, 1
"""Groups that come or go at a time."""


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """Between what, and by what, the number of groups goes."""

    least: int
    most: int
    high: int
    low: int
    """Records of lag."""

    over: timedelta
    """The while."""


class Lags:
    """The lag, as it was seen again and again."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque()
        self._since: datetime | None = None

    def see(self, lag: int, over: timedelta, now: datetime) -> None:
        """Note how it is now, and forget what is older than the while."""
        self._since = self._since or now
        self._seen.append((now, lag))
        while now - self._seen[0][0] > over:
            self._seen.popleft()

    def forget(self) -> None:
        """Begin anew."""
        self._seen.clear()
        self._since = None

    def wanted(self, tasks: int, scaling: Scaling, now: datetime) -> int:
        """How many groups there should be, where there are so many."""
        inside = min(max(tasks, scaling.least), scaling.most)
        if self._since is None or now - self._since < scaling.over:
            return inside
        if self._part(lambda lag: lag > scaling.high) >= OFTEN:
            return min(inside + MORE, scaling.most)
        if self._part(lambda lag: lag < scaling.low) >= NEARLY_ALWAYS:
            return max(inside - FEWER, scaling.least)
        return inside

    def _part(self, is_so: Callable[[int], bool]) -> float:
        return sum(is_so(lag) for _, lag in self._seen) / len(self._seen) if self._seen else 0.0
