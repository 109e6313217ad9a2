"""The reading port of streams: what Rota asks of Kafka, of its own log or of a list, and the laws it relies on.

A source has partitions, a partition has records, and a record has an offset. The reader alone chooses the partitions
and offsets, so no group protocol of the server is used, and readers do not affect each other. The reader itself keeps
its position.

Adapters are opened by URL (`sources.open`) and translate their driver's errors at the edge; no caller imports one.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

import msgspec

from rota.model.errors import RotaError

# Structs rather than dataclasses: there is one per record, and these are built ten times as fast.


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record of a partition."""

    offset: int
    time_ms: int
    """When it was written, in milliseconds since 1970 (UTC), by whichever clock its source goes; -1: it has none.

    A number, because a `datetime` for each record would cost more than the rest of it."""

    key: bytes | None
    value: bytes | None
    """None where a compacted source says that the key is gone."""

    headers: tuple[tuple[str, bytes | None], ...] = ()


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that has no offset yet."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time_ms: int | None = None
    """None: the time at which it is appended."""


class Gap(msgspec.Struct, frozen=True):
    """Offsets that have no record, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1


class Batch(msgspec.Struct, frozen=True):
    """Records of one partition, in order."""

    partition: int
    records: list[Record]
    next: int
    """Where to read on: behind the last record, and behind the gap that may follow it."""

    gaps: tuple[Gap, ...] = ()
    """Offsets passed over on the way: compacted away, or a transaction's. Nothing is missing there."""

    topic: str = ""
    """Which topic it is of, where a source has topics."""


class Bounds(msgspec.Struct, frozen=True):
    """What a partition has: offsets from `start` on, and below `end`."""

    start: int
    end: int


class Vanished(RotaError):
    """The next records are gone for good; choose where to continue, and call `assign`.

    They were deleted (retention), damaged on disk, or the source was made anew and is shorter now.
    """

    def __init__(self, source: str, partition: int, gap: Gap, bounds: Bounds, why: str) -> None:
        super().__init__(
            f"source {source}: partition {partition}: {gap} cannot be read: {why}; it has offsets from {bounds.start} "
            f"up to {bounds.end} now; go on at earliest or latest, which leaves a gap, or bring the records back"
        )
        self.partition, self.gap, self.bounds, self.why = partition, gap, bounds, why


class Reader(Protocol):
    """A reader of some partitions of a source; for one caller at a time."""

    @property
    def positions(self) -> Mapping[int, int]:
        """The partitions that are read, and the offset that comes next of each."""

    @property
    def trouble(self) -> str | None:
        """Why nothing can be read at the moment, or None."""

    async def assign(self, offsets: Mapping[int, int]) -> None:
        """From now on read these partitions, and no others; a partition whose position is the one given goes on."""

    async def read(self, most: int = 1000) -> list[Batch]:
        """The next records, at most `most`, one batch for each partition that has some; waits until there are some."""

    async def close(self) -> None:
        """Close connections, threads and files."""


class Source(Protocol):
    """Partitions of records. Every adapter keeps these laws (`tests/contract/test_source.py`):

    1. A reader gives the records of a partition in the order of their offsets, each once. An offset that it passes
       over is in a batch's `gaps`, and then there never was a record to read; nothing is left out silently.
    2. A reader that begins at `next` of another's batch goes on exactly behind that batch.
    3. A reader at the end waits, and gives what is appended soon after it is there.
    4. Where records that come next are gone, `read` raises Vanished, which names the offsets and what there is, and
       goes on doing so until `assign` says where to go on. Nothing is skipped unasked, of no partition.
    5. `bounds` tells the first offset that can be read and the one behind the last. What a transaction has not
       committed is not there yet, and what it took back never was.
    6. `offset_at` is the offset of the first record that is as late as the time asked for, and the end if none is.
    7. `partitions` tells of partitions that were added since. A source or partition that is not there is NotFound.
    8. Records are fetched ahead only up to a bound; who does not call `read` is not buried.
    9. `read` may be cancelled: what it would have returned, the next call returns.
    10. An outage delays a reader, and `trouble` says why. Everything else is Unavailable within the time-out, and all
        works again by itself when the server does. What an operator has to fix is Denied or Invalid.
    11. `identity` is another one when a source was made anew under the same name. It is None where a server has none.
    """

    async def partitions(self) -> tuple[int, ...]:
        """The numbers of its partitions, in order, as they are now."""

    async def identity(self) -> str | None:
        """An id that changes when the source is made anew; None if the server has none."""

    async def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        """What each of these partitions has."""

    async def offset_at(self, partition: int, when: datetime) -> int:
        """Where a partition's records of that time and later begin."""

    async def reader(self, offsets: Mapping[int, int]) -> Reader:
        """A reader of these partitions, from these offsets on; close it in the end."""

    async def close(self) -> None:
        """Close connections, threads and files; close your readers first."""


@runtime_checkable
class Replaceable(Protocol):
    """A source whose partitions are made anew one by one, each under another number: several topics read as one."""

    async def replaced(self, partitions: Iterable[int]) -> tuple[int, ...]:
        """Those of these partitions in whose place there is another one now; one that was only deleted is not."""
