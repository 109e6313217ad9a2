"""Batches: what one append leaves in a segment. Pure.

A batch is one checksummed record (`kit.records`) whose number is the offset of its first record, so that it is there as
a whole or not at all, and one checksum and one decoding serve thousands of records. `layout.PartitionFolder.seed` says
what the checksums of a segment begin with.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rota.kit import records
from rota.kit.decoding import UNREADABLE
from rota.sources.port import NewRecord, Record

MOST_BYTES = 16 * 2**20
"""How large a record may be, and so a batch."""

MOST_RECORDS = 4096
"""How many records a batch has at most: a reader that wants one decodes all."""

TARGET_BYTES = 256 * 1024
"""How large a batch grows before another one is begun: several fit into what is read at a time."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode

OVERHEAD = 64
"""About what a record takes beside its key, value and headers."""


class Sound(NamedTuple):
    """A batch that was found, and where the next one begins."""

    records: list[Record]
    end: int

    @property
    def first(self) -> int:
        """The offset of its first record."""
        return self.records[0].offset

    @property
    def next(self) -> int:
        """The offset behind its last one."""
        return self.records[-1].offset + 1

    @property
    def latest_ms(self) -> int:
        """The greatest of its times."""
        return max(record.time_ms for record in self.records)


def numbered(new: Sequence[NewRecord], first: int, now_ms: int) -> list[Record]:
    """The records as they will be read."""
    return [
        Record(offset, now_ms if one.time_ms is None else one.time_ms, one.key, one.value, one.headers)
        for offset, one in enumerate(new, first)
    ]


def cut(numbered: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records in parts that are batches."""
    begin = size = 0
    for place, record in enumerate(numbered):
        if size >= TARGET_BYTES or place - begin >= MOST_RECORDS:
            yield numbered[begin:place]
            begin, size = place, 0
        size += weight(record)
    if begin < len(numbered):
        yield numbered[begin:]


def weight(record: Record | NewRecord) -> int:
    """About how many bytes a record takes."""
    headers = sum(len(name) + len(value or b"") + 8 for name, value in record.headers) if record.headers else 0
    return OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def encode(batch: Sequence[Record], seed: int) -> bytes:
    """A batch as bytes."""
    return records.encode(batch[0].offset, _encode(batch), seed)


def at(data: bytes, start: int, seed: int) -> Sound | None:
    """The batch that begins at `start`; None if there is no sound one."""
    return _sound(records.at(data, start, seed))


def after(data: bytes, start: int, last: int, seed: int) -> Sound | None:
    """The next sound batch from `start` on whose records come behind the offset `last`; None if there is none."""
    return _sound(records.after(data, start, last, seed))


def _sound(found: records.FramedRecord | None) -> Sound | None:
    if found is None:
        return None
    try:
        batch = _decode(found.content)
    except UNREADABLE:
        return None
    return Sound(batch, found.end) if batch and batch[0].offset == found.sequence else None
