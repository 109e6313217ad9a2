"""Preview: when a job is due next, and which of these times are odd.

A time is odd where clocks change: one that falls into the gap comes at its end, one in the hour that comes twice comes
once, at its first time. The list shows why a run is not where the expression seems to put it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import msgspec

from rota.jobs.core import cron
from rota.jobs.core.due import times
from rota.jobs.core.records import JobSpec

MOST = 10_000
"""Due times that one preview shows at most."""

HORIZON = timedelta(days=36_525)
"""How far one preview reaches: a schedule that is rarely due takes long to walk through."""


class UpcomingDueTime(msgspec.Struct, frozen=True):
    """A due time to come."""

    due: datetime
    """In UTC."""

    local: datetime
    """In the job's time zone."""

    odd: str = ""
    """What is odd about it, if anything."""


def preview(spec: JobSpec, after: datetime, *, count: int = 10, until: datetime | None = None) -> list[UpcomingDueTime]:
    """The due times after a moment: at most `count`, not later than `until`, and within `HORIZON`."""
    end = _later(after, HORIZON)
    return list(islice(_coming(spec, after, end if until is None else min(end, until)), min(count, MOST)))


def _later(moment: datetime, span: timedelta) -> datetime:
    """The moment after a span, or the last one that a datetime can hold."""
    try:
        return moment.astimezone(UTC) + span
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _coming(spec: JobSpec, after: datetime, until: datetime) -> Iterator[UpcomingDueTime]:
    zone = ZoneInfo(spec.tz)
    for due in takewhile(lambda due: due <= until, times(spec, after)):
        local = due.astimezone(zone)
        yield UpcomingDueTime(due, local, _odd(spec, local) if spec.cron is not None else "")


def _odd(spec: JobSpec, local: datetime) -> str:
    before = (local.astimezone(UTC) - timedelta(seconds=1)).astimezone(local.tzinfo)
    jump = (local.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    if jump > timedelta() and not _is_meant(spec, local):
        missing = (local - jump).replace(tzinfo=None)
        return f"clocks jump from {missing:%H:%M} to {local:%H:%M}, and its time lies between"
    if local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset() and not jump > timedelta():
        return "this hour comes twice" + ("; this is its second time" if local.fold else "")
    return ""


def _is_meant(spec: JobSpec, local: datetime) -> bool:
    """Does the expression name this time of day, ignoring clock changes?"""
    assert spec.cron is not None
    plain = local.replace(tzinfo=UTC, fold=0)
    return next(cron.due_times(spec.cron, "UTC", plain - timedelta(seconds=1))) == plain
