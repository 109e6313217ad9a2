"""What was published of a stream: ranges of records, and the files that hold what came of them.

A stream's output is exactly what its manifests name. A manifest is written in one commit with the offsets it moves, so
either both are there or neither.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from rota.model.codec import stored

Offsets: TypeAlias = Mapping[int, int]
"""Partition → the offset of the record that comes next."""


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one partition, from `start` up to, and without, `end`."""

    partition: int
    """The partition."""

    start: int
    """The first offset."""

    end: int
    """The offset behind the last one."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A file with rows of a stream."""

    path: str
    """Below the stream's folder."""

    rows: int
    """Rows in the file."""

    bytes: int
    """Its size."""


@stored()
class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One publish."""

    id: str
    """The id of the draft that became this manifest: a leftover draft can be checked for whether it was published."""

    stream: str
    """The name of the stream."""

    ranges: tuple[Range, ...]
    """The records that were published."""

    rows: int
    """Rows that came of them."""

    segments: tuple[Segment, ...]
    """The files that hold the rows."""

    file: str | None = None
    """Below the stream's folder, the list of segments, where there are too many for a record."""

    at: datetime
    """When it was published."""

    by: str
    """The task that published."""


@stored()
class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The offset up to which one partition of a stream is in its output."""

    offset: int
    manifest: str | None = None
    """The publish that committed it; None: the stream began here, or an operator set it."""

    together: int = 0
    """How many partitions began with it, if too many for one commit; none of them has begun until all are stored."""
