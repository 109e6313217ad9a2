"""Retention: how many of a partition's oldest segments may go. Pure.

The newest segment stays whatever its size and age: it is being appended to.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple


class KeptSegment(NamedTuple):
    """A segment that is there."""

    first: int
    size: int
    changed: datetime
    """When it was last appended to, by this machine's clock: what records say of their own time proves nothing."""


def surplus(
    segments: Sequence[KeptSegment], now: datetime, keep_bytes: int | None, keep_age: timedelta | None
) -> Sequence[KeptSegment]:
    """The oldest segments, as far as `keep_bytes` are left without them, or they are older than `keep_age`."""
    size = sum(segment.size for segment in segments)
    for place, segment in enumerate(segments[:-1]):
        size -= segment.size
        is_too_much = keep_bytes is not None and size >= keep_bytes
        is_too_old = keep_age is not None and now - segment.changed > keep_age
        if not is_too_much and not is_too_old:
            return segments[:place]
    return segments[:-1]
