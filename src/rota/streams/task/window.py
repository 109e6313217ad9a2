"""Which records of a batch are taken: those of the group's times, and those that have a value. Pure.

A group may be read long after it was made: the fleet was stopped, or no node could run it. So a record is early only if
its time is also too far ahead of the moment of reading; a record whose time has passed is never dropped as early.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from rota.kit.time.epoch import milliseconds
from rota.sources.port import Record as Read
from rota.streams.core.context import Records
from rota.streams.core.records import Group

LATE, EARLY, EMPTY = "late", "early", "without a value"
"""Why records are dropped."""

_value = attrgetter("value")


def taken(partition: int, records: Sequence[Read], group: Group, dropped: Counter[str], now: datetime) -> Records:
    """The records that the stream's function gets to see, read at `now`; the others are counted by reason."""
    earliest, latest = _ms(group.earliest), _ms(_latest(group, now))
    if earliest is None and latest is None and None not in map(_value, records):
        return Records(partition, records)
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
            found.append(read)
    return Records(partition, found)


def _latest(group: Group, now: datetime) -> datetime | None:
    """The newest time that is not early: by when the group was made, or by when it is read."""
    if group.latest is None:
        return None
    return max(group.latest, now + (group.early or timedelta()))


def _ms(time: datetime | None) -> int | None:
    return None if time is None else milliseconds(time)
