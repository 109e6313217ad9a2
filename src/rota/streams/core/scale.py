"""How many task groups a stream should have, by its lag. Pure.

`Lags` keeps the lag of the last `over`. More groups are wanted when it was high for a good part of that time, fewer
when it was low for nearly all of it: a peak is no reason to move partitions. A change discards all earlier figures, so
the next one comes at least `over` later.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

OFTEN, NEARLY_ALWAYS = 0.3, 0.9
"""Parts that `over` is divided into."""

MORE, FEWER = 2, 1
"""Groups added or removed at a time."""


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the number of groups, and the lag that changes it."""

    least: int
    most: int
    high: int
    low: int
    """Records of lag."""

    over: timedelta
    """The time over which the lag is observed."""


class Lags:
    """The lag observed over time."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque()
        self._since: datetime | None = None

    def see(self, lag: int, over: timedelta, now: datetime) -> None:
        """Add the lag now, and drop figures older than `over`."""
        self._since = self._since or now
        self._seen.append((now, lag))
        while now - self._seen[0][0] > over:
            self._seen.popleft()

    def forget(self) -> None:
        """Drop all figures."""
        self._seen.clear()
        self._since = None

    def wanted(self, tasks: int, scaling: Scaling, now: datetime) -> int:
        """How many groups there should be, given how many there are now."""
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
