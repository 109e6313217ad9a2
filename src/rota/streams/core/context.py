"""What a stream's function is given: a batch of records."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from operator import attrgetter
from typing import Any, overload

import msgspec

from rota.kit.time.epoch import moment


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a partitioned log."""

    # A struct, and the time a number until it is read: there is one for each record, and these are built in no time.

    partition: int
    offset: int
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time_ms: int = -1
    """When its source says it was made, in milliseconds since 1970 (UTC); -1: it does not say."""

    @property
    def at(self) -> datetime | None:
        """When its source says it was made."""
        return None if self.time_ms < 0 else moment(self.time_ms)


_value = attrgetter("value")
_fields = attrgetter("offset"), _value, attrgetter("key"), attrgetter("headers"), attrgetter("time_ms")


class Records(Sequence[Record]):
    """Records of one partition as a source gave them; each becomes a `Record` when it is read."""

    def __init__(self, partition: int, read: Sequence[Any]) -> None:
        self._partition, self._read = partition, read

    @property
    def values(self) -> list[bytes]:
        """The value of each."""
        return list(map(_value, self._read))

    def __len__(self) -> int:
        return len(self._read)

    def __iter__(self) -> Iterator[Record]:
        return map(Record, repeat(self._partition), *(map(field, self._read) for field in _fields))

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> "Records": ...
    def __getitem__(self, place: int | slice) -> "Record | Records":
        if isinstance(place, slice):
            return Records(self._partition, self._read[place])
        (found,) = Records(self._partition, [self._read[place]])
        return found


class Batch(msgspec.Struct, frozen=True):
    """Records that were read together, in order per partition."""

    stream: str
    records: Sequence[Record]
    offsets: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Partition → the offset that comes after this batch."""

    topic: str = ""
    """The topic that its records are of, where the source has topics."""

    @property
    def values(self) -> list[bytes]:
        """The values of all records: for those who make columns of them, which is faster than record by record."""
        return self.records.values if isinstance(self.records, Records) else [each.value for each in self.records]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)
