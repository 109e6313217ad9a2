"""Retries: resources that wait, and may find room now, are tried again a portion at a time.

There may be a hundred thousand that wait when one task ends. To plan them all for one slot, and again for the next,
would keep the leader busy with nothing else. So once room may have come a portion is tried, and at each tick the next
one, until all had their turn: half of each are those of the highest priority, half those that come next by name. A
portion is never smaller than the number of free slots, so a new node is filled at once.
"""

from collections.abc import Callable, Collection
from heapq import nsmallest

FEW = 200
"""At most this many are all tried at once."""

PORTION = 1_000


class Retries:
    """Some resources that wait, and which of them have had their turn since room may have come."""

    def __init__(self) -> None:
        self._left = 0
        """How many have not."""

        self._last = ""
        """The last one by name that had."""

        self._has_ticked = True

    @property
    def is_due(self) -> bool:
        """Is there a portion to be tried now?"""
        return self._left > 0 and self._has_ticked

    def begin(self, waiting: int) -> None:
        """Room may have come; `waiting` resources have not been tried since."""
        self._left = waiting

    def tick(self) -> None:
        """Another portion may be tried."""
        self._has_ticked = True

    def take(self, waiting: Collection[str], free: int, priority: Callable[[str], int]) -> set[str]:
        """Those to be tried now; none if that is not due."""
        if not self.is_due:
            return set()
        self._has_ticked = False
        most = max(PORTION, free)
        if len(waiting) <= most:
            self._left = 0
            return set(waiting)
        first = nsmallest(most // 2, waiting, key=lambda name: (-priority(name), name))
        return {*first, *self._in_turn(waiting, most // 2)}

    def _in_turn(self, waiting: Collection[str], most: int) -> list[str]:
        found = nsmallest(most, (name for name in waiting if name > self._last))
        self._last = found[-1] if len(found) == most else ""
        self._left = max(0, self._left - len(found))
        return found
