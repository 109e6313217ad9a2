"""Records in files that are only appended to: bytes behind a mark, their length, their number and a checksum.

The mark lets a reader find the next record after a damaged one, and the number shows how many were lost between. The
checksum is over length, number and content, so a record that was cut or filled with zeros is none. With a `seed`, which
is the file's own, neither is one that was copied from another file. No files here: bytes in, records out.

The spool of a relay and the log of streams are made of them.
"""

import struct
from typing import NamedTuple
from zlib import crc32

MARK = b"\xf5rs\x01"
HEAD = struct.Struct("!4sIQI")
_SUMMED = struct.Struct("!IQ")


class FramedRecord(NamedTuple):
    """One record, and where it ends."""

    sequence: int
    content: bytes
    end: int


def encode(sequence: int, content: bytes, seed: int = 0) -> bytes:
    """`content` as the record of that number."""
    return HEAD.pack(MARK, len(content), sequence, _sum(len(content), sequence, content, seed)) + content


def at(data: bytes, start: int, seed: int = 0) -> FramedRecord | None:
    """The record that begins at `start`; None if there is no sound one."""
    if len(data) - start < HEAD.size:
        return None
    mark, length, sequence, checksum = HEAD.unpack_from(data, start)
    begin = start + HEAD.size
    end = begin + length
    if mark != MARK or end > len(data):
        return None
    content = data[begin:end]
    return FramedRecord(sequence, content, end) if _sum(length, sequence, content, seed) == checksum else None


def after(data: bytes, start: int, last: int, seed: int = 0) -> FramedRecord | None:
    """The next sound record from `start` on with a number above `last`; None if there is none."""
    while start >= 0:
        record = at(data, start, seed)
        if record is None:
            start = data.find(MARK, start + 1)
        elif record.sequence <= last:
            start = record.end  # not inside its content: that may contain bytes that look like a record
        else:
            return record
    return None


def length_at(data: bytes, start: int) -> int | None:
    """How long the record that begins at `start` claims to be, head included; None if none begins there."""
    if len(data) - start < HEAD.size:
        return None
    mark, length, _, _ = HEAD.unpack_from(data, start)
    return HEAD.size + int(length) if mark == MARK else None


def _sum(length: int, sequence: int, content: bytes, seed: int) -> int:
    return crc32(content, crc32(_SUMMED.pack(length, sequence), seed))
