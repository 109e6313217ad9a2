"""How many records a stream's function is given at a time. Pure.

While a function runs its task does nothing else, and rows it makes while a group pauses are made again. So it is given
few records at first, and more as long as it is quick: as many as it handles in about a second.
"""

FIRST = 100
GROWTH = 4
TARGET = 1.0
"""Seconds that a function should take."""


class ReadPace:
    """The pace of one task."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(most, FIRST)
        """Records to be read next, at most."""

    def took(self, records: int, seconds: float) -> None:
        """Note how long the function took for what was read."""
        if seconds > 2 * TARGET:
            self.size = max(1, min(self._most, int(records * TARGET / seconds)))
        elif seconds < TARGET / 2 and records >= self.size:
            self.size = min(self._most, GROWTH * self.size)
