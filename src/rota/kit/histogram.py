"""A histogram of durations: cheap to fill, exact enough for percentiles. Pure.

Values are whole microseconds. Each power of two is cut into sixteen parts, so a percentile is at most a sixteenth too
high, whatever its size, and a histogram has a few hundred counters at most. Histograms of several processes add up.
"""

from collections.abc import Mapping


class Histogram:
    """Counts of values, by their size."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, value: int) -> None:
        """Count a value; a negative one counts as 0."""
        shift = value.bit_length() - 5
        index = (shift << 4) + (value >> shift) if shift > 0 else max(value, 0)
        self.counts[index] = self.counts.get(index, 0) + 1

    def merge(self, counts: Mapping[int, int]) -> None:
        """Add the counts of another one."""
        for index, count in counts.items():
            self.counts[index] = self.counts.get(index, 0) + count

    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts.values())

    def percentile(self, percent: float) -> int:
        """The value that `percent` percent of the values do not exceed; 0 without values."""
        wanted = self.total() * percent / 100
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return _highest(index)
        return 0


def _highest(index: int) -> int:
    """The largest value that is counted under `index`."""
    shift = (index >> 4) - 1
    if shift <= 0:
        return index
    return ((index - (shift << 4) + 1) << shift) - 1
