"""A source in memory: `memory://name`.

A complete adapter for tests, the tutorial and the simulator. `topic(name)` is the server behind the URL: records are
appended there, it can be stopped and started, and it can do what real ones do to their readers: delete, leave gaps, add
partitions, be made anew.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from operator import attrgetter

from rota.kit.time.epoch import milliseconds
from rota.model.errors import NotFound, Unavailable
from rota.sources.gaps import between, outside
from rota.sources.port import Batch, Bounds, NewRecord, Record, Vanished
from rota.sources.url import Options, SourceUrl

_offset = attrgetter("offset")
_identities = count(1)


@dataclass
class MemoryPartition:
    """Records by offset; those between `start` and `end` that are not in the list never were there."""

    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def from_offset(self, offset: int, most: int) -> list[Record]:
        """The next records, at most `most`."""
        first = bisect_left(self.records, offset, key=_offset)
        return self.records[first : first + most]


class Topic:
    """What stands behind a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.readers: dict[MemoryReader, None] = {}  # in order, so that a simulated story is always the same
        self.is_up = True
        self.make_anew(0)

    def make_anew(self, partitions: int) -> None:
        """Forget everything, and begin with `partitions` empty partitions."""
        self.identity = f"{self.name}-{next(_identities)}"
        self.partitions = [MemoryPartition() for _ in range(partitions)]
        self._notify()

    def grow(self, partitions: int) -> None:
        """Set the number of partitions."""
        self.partitions += [MemoryPartition() for _ in range(partitions - len(self.partitions))]

    def append(self, partition: int, records: Sequence[NewRecord], now_ms: int = 0) -> int:
        """Append records; returns the offset of the first."""
        into = self.partitions[partition]
        first = into.end
        for new in records:
            time_ms = now_ms if new.time_ms is None else new.time_ms
            into.records.append(Record(into.end, time_ms, new.key, new.value, new.headers))
            into.end += 1
        self._notify()
        return first

    def leave_gap(self, partition: int, size: int) -> None:
        """Let offsets pass without a record, as the marks of a transaction do."""
        self.partitions[partition].end += size
        self._notify()

    def delete(self, partition: int, before: int) -> None:
        """Delete what is older, as retention does."""
        of = self.partitions[partition]
        of.records, of.start = of.from_offset(before, len(of.records)), max(of.start, before)

    def stop(self) -> None:
        """Stop answering."""
        self.is_up = False

    def start(self) -> None:
        """Answer again."""
        self.is_up = True
        self._notify()

    def _notify(self) -> None:
        for reader in self.readers:
            reader.nudge.set()


_TOPICS: dict[str, Topic] = {}


def topic(name: str) -> Topic:
    """The topic of that name, made without partitions when it is first asked for."""
    if name not in _TOPICS:
        _TOPICS[name] = Topic(name)
    return _TOPICS[name]


async def open(url: SourceUrl) -> "MemorySource":
    """A source on the topic that the URL names."""
    Options(url).done()
    source = MemorySource(topic(",".join(url.hosts)), str(url))
    await source.partitions()
    return source


class MemorySource:
    """One client of a topic."""

    def __init__(self, topic: Topic, shown: str) -> None:
        self._topic, self._shown = topic, shown

    async def partitions(self) -> tuple[int, ...]:
        self._check()
        return tuple(range(len(self._topic.partitions)))

    async def identity(self) -> str | None:
        self._check()
        return self._topic.identity

    async def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        self._check()
        return {number: _bounds(self.partition(number)) for number in partitions}

    async def offset_at(self, partition: int, when: datetime) -> int:
        self._check()
        of, time_ms = self.partition(partition), milliseconds(when)
        return next((record.offset for record in of.records if record.time_ms >= time_ms), of.end)

    async def reader(self, offsets: Mapping[int, int]) -> "MemoryReader":
        reader = MemoryReader(self, self._topic, self._shown)
        await reader.assign(offsets)
        return reader

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    def partition(self, number: int) -> MemoryPartition:
        """A partition, or NotFound."""
        if not 0 <= number < len(self._topic.partitions):
            have = len(self._topic.partitions)
            raise NotFound(f"source {self._shown} has no partition {number}; it has {have}, counted from 0")
        return self._topic.partitions[number]

    def _check(self) -> None:
        if not self._topic.is_up:
            raise Unavailable(f"source {self._shown}: the topic was stopped")
        if not self._topic.partitions:
            raise NotFound(f"source {self._shown} has no partitions; make it, or correct the URL")


class MemoryReader:
    """A reader; it looks at the topic itself, so there is nothing that it fetches ahead."""

    def __init__(self, source: MemorySource, topic: Topic, shown: str) -> None:
        self.nudge = asyncio.Event()
        self._source, self._topic, self._shown = source, topic, shown
        self._positions: dict[int, int] = {}
        topic.readers[self] = None

    @property
    def positions(self) -> Mapping[int, int]:
        return self._positions

    @property
    def trouble(self) -> str | None:
        return None if self._topic.is_up else f"source {self._shown}: the topic was stopped"

    async def assign(self, offsets: Mapping[int, int]) -> None:
        for number in offsets:
            self._source.partition(number)
        self._positions = dict(offsets)
        self.nudge.set()

    async def read(self, most: int = 1000) -> list[Batch]:
        while True:
            self.nudge.clear()
            if self._topic.is_up and (batches := self._take(most)):
                return batches
            await self.nudge.wait()

    async def close(self) -> None:
        self._topic.readers.pop(self, None)

    def _take(self, most: int) -> list[Batch]:
        batches = []
        for number, position in self._positions.items():
            of = self._source.partition(number)
            if missing := outside(position, _bounds(of)):
                raise Vanished(self._shown, number, missing.gap, _bounds(of), missing.why)
            if most and position < of.end:
                records = of.from_offset(position, most)
                most -= len(records)
                then = of.end if not records or records[-1] is of.records[-1] else records[-1].offset + 1
                batches.append(Batch(number, records, then, between(position, records, then)))
        # Who came last in this turn comes first in the next: a full partition does not starve the others.
        self._positions = dict(reversed(self._positions.items()))
        self._positions.update((batch.partition, batch.next) for batch in batches)
        return batches


def _bounds(of: MemoryPartition) -> Bounds:
    return Bounds(of.start, of.end)
