"""Which records of a batch are taken: those of the group's times, and those that have a value. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from rota.kit.epoch import milliseconds
from rota.model.stream import Group
from rota.sources.port import Record as Read
from rota.workloads.context import Records

LATE, EARLY, EMPTY = "late", "early", "without a value"
"""Why records are dropped."""

_value = attrgetter("value")


def taken(partition: int, records: Sequence[Read], group: Group, dropped: Counter[str]) -> Records:
    """The records that the stream's function gets to see; the others are counted by reason."""
    earliest, latest = _ms(group.earliest), _ms(group.latest)
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


def _ms(time: datetime | None) -> int | None:
    return None if time is None else milliseconds(time)
