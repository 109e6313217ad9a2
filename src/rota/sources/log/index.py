"""The index of a segment: hints where to look for an offset or a time. Pure.

A hint is written every now and then, before a batch: the offset it begins with, where it lies, and the latest time of
all batches before it in the segment. Hints have checksums, and a reader looks whether the batch is really there;
without a hint that holds it begins at the front. So an index may be damaged, cut short or lost: that is slow, and never
wrong.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

EVERY = 64 * 1024
"""Bytes of a segment between two hints."""

NEVER = -(2**63)
"""Before any time."""

_ENTRY = struct.Struct("!QQq")
_SUM = struct.Struct("!I")
SIZE = _ENTRY.size + _SUM.size


class Hint(NamedTuple):
    """A batch that begins with `offset` lies at `position`; before it there is nothing later than `latest_ms`."""

    offset: int
    position: int
    latest_ms: int


def front(first: int) -> Hint:
    """What is known of every segment."""
    return Hint(first, 0, NEVER)


def encode(hint: Hint) -> bytes:
    """A hint as bytes."""
    entry = _ENTRY.pack(*hint)
    return entry + _SUM.pack(crc32(entry))


def decode(data: bytes, first: int) -> list[Hint]:
    """The sound hints in order, the front of the segment before them."""
    hints = [front(first)]
    for start in range(0, len(data) - SIZE + 1, SIZE):
        entry = data[start : start + _ENTRY.size]
        (checksum,) = _SUM.unpack_from(data, start + _ENTRY.size)
        hint = Hint(*_ENTRY.unpack(entry))
        if crc32(entry) == checksum and hint.offset > hints[-1].offset and hint.position > hints[-1].position:
            hints.append(hint)
    return hints


def for_offset(hints: Sequence[Hint], offset: int) -> list[Hint]:
    """Where to begin looking for an offset: the nearest hint first."""
    return list(reversed(hints[: bisect_right(hints, offset, key=lambda hint: hint.offset)]))


def for_time(hints: Sequence[Hint], time_ms: int) -> list[Hint]:
    """Where to begin looking for the first record that is as late: the nearest hint first."""
    return list(reversed([hint for hint in hints if hint.latest_ms < time_ms]))
