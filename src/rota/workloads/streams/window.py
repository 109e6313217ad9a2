"""Which records of a batch are taken: those of the group's times, and those that have a value. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rota.model.stream import Group
from rota.sources.port import Record as Read
from rota.workloads.context import Record

LATE, EARLY, EMPTY = "late", "early", "without a value"
"""Why records are dropped."""

_START = datetime(1970, 1, 1, tzinfo=UTC)


def taken(partition: int, records: Sequence[Read], group: Group, dropped: Counter[str]) -> list[Record]:
    """The records that the stream's function gets to see; the others are counted by reason."""
    earliest, latest = _ms(group.earliest), _ms(group.latest)
    found = []
    for read in records:
        # A record without a time is of any time.
        if earliest is not None and 0 <= read.time_ms < earliest:
            dropped[LATE] += 1
        elif latest is not None and read.time_ms > latest:
            dropped[EARLY] += 1
        elif read.value is None:
            dropped[EMPTY] += 1
        else:
            at = _START + timedelta(milliseconds=read.time_ms) if read.time_ms >= 0 else None
            found.append(Record(partition=partition, offset=read.offset, value=read.value, key=read.key, at=at))
    return found


def _ms(time: datetime | None) -> int | None:
    return None if time is None else (time - _START) // timedelta(milliseconds=1)
