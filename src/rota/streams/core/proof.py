"""Whether the output of a partition has every record once. Pure: ranges, moves and offsets in, flaws out.

What was published of a partition is a walk: ranges lead from their start to their end, and moves (an operator set the
offset) from one offset to another. It begins somewhere and ends at the committed offset. So how often each record was
published is known: once between beginning and end, once more for each move back over it, once less for each move past
it. What was really published is counted from the ranges alone; where the two differ, there is a gap or a repeat.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

Span = tuple[int, int]
"""From an offset up to, and without, another."""

Step = tuple[int, int, int]
"""A span, and how often."""


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are not as often in the output as they should be."""

    partition: int
    start: int
    end: int
    """The offset behind the last of them."""

    times: int
    due: int

    def __str__(self) -> str:
        last = self.end - 1
        which = f"record {self.start} is" if last == self.start else f"records {self.start} to {last} are"
        if not self.times:
            return f"partition {self.partition}: {which} not in the output"
        return f"partition {self.partition}: {which} in the output {_times(self.times)} instead of {_times(self.due)}"


class Walk:
    """How one partition came to its committed offset."""

    def __init__(self, spans: Iterable[Span], moves: Iterable[Span], committed: int) -> None:
        self._spans = [each for each in spans if each[0] < each[1]]
        self._moves = [each for each in moves if each[0] != each[1]]
        self.committed = committed
        self.begin = self._beginning()
        self._due = _steps([(self.begin, committed, 1), *(_back(move) for move in self._moves)])
        self._edges = [start for start, _, _ in self._due]

    @property
    def ranges(self) -> int:
        """How many were published."""
        return len(self._spans)

    def due(self, offset: int) -> int:
        """How often a record should be in the output."""
        index = bisect_right(self._edges, offset) - 1
        if index < 0:
            return 0
        _, end, times = self._due[index]
        return times if offset < end else 0

    def flaws(self, partition: int, within: Span) -> list[Flaw]:
        """Where records were not published as often as they should have been, in order."""
        published = _steps([(start, end, 1) for start, end in self._spans])
        wrong = _steps([*((start, end, times) for start, end, times in published), *_less(self._due)])
        found = []
        for start, end, off in wrong:
            first, last = max(start, within[0]), min(end, within[1])
            if off and first < last:
                due = self.due(first)
                found.append(Flaw(partition=partition, start=first, end=last, times=due + off, due=due))
        return found

    def _beginning(self) -> int:
        """The offset that more ranges and moves leave than reach; the lowest if there are several."""
        balance = Counter(start for start, _ in (*self._spans, *self._moves))
        balance.subtract(end for _, end in (*self._spans, *self._moves))
        balance[self.committed] += 1
        return min((offset for offset, more in balance.items() if more > 0), default=self.committed)


def _back(move: Span) -> Step:
    """A move as a span of records, and by how much it changes the times each should be in the output."""
    before, after = move
    return (after, before, 1) if after < before else (before, after, -1)


def _less(steps: Iterable[Step]) -> Iterator[Step]:
    return ((start, end, -times) for start, end, times in steps)


def _steps(parts: Iterable[Step]) -> list[Step]:
    """Overlapping parts merged: in order, without overlap, and without those whose counts add up to zero."""
    changes: Counter[int] = Counter()
    for start, end, times in parts:
        changes[start] += times
        changes[end] -= times
    found: list[Step] = []
    height, since = 0, 0
    for offset, change in sorted(changes.items()):
        if change and height:
            found.append((since, offset, height))
        if change:
            height, since = height + change, offset
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
