"""Cron expressions and due times. Pure: time is an argument.

An expression has five fields (minute hour day month weekday), or six with the second first; `L`, `5#2`, names of days
and months, and `@daily` and its like are understood.

Where clocks change, a fixed time of day (its minute and hour do not begin with `*`) comes when the clock first shows
it: in the hour that comes twice once, and in the gap, where the clock never does, at the gap's end. A time with `*`
comes whenever the clock shows it.

The parser is only asked about clocks that never change. It knows zones too, but it steps through them by whole hours,
and loses times where clocks change by half of one (Lord Howe) or in the middle of one (Chatham).
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

ALIASES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIELDS = {  # as the parser calls them: as people do, what they may hold, and where they stand from the end
    "second": ("second", "seconds are 0-59", 6),
    "minute": ("minute", "minutes are 0-59", 5),
    "hour": ("hour", "hours are 0-23", 4),
    "day-of-month": ("day", "days are 1-31, or L for the last, and some month must have it", 3),
    "month": ("month", "months are 1-12 or JAN-DEC", 2),
    "day-of-week": ("weekday", "weekdays are 0-7 or SUN-SAT, with 5L for the last Friday and 5#2 for the second", 1),
}
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def normal(text: str) -> str:
    """The expression with its alias written out; ValueError says what is wrong with it."""
    expression = ALIASES.get(text.strip().lower(), " ".join(text.split()))
    if expression.startswith("@"):
        raise ValueError(f"is no alias; there are {', '.join(ALIASES)}")
    parts = expression.split()
    if len(parts) not in (5, 6):
        raise ValueError(
            f"has {len(parts)} fields; write five (minute hour day month weekday), or six with seconds first"
        )
    try:
        found = next(CronSim(expression, _SOME_DAY), None)
    except CronSimError as error:
        name, holds, place = _FIELDS[str(error).removeprefix("Bad ")]
        raise ValueError(f"has {name} {parts[-place]}; {holds}") from None
    if found is None:
        raise ValueError("is never due; choose days that exist")
    return expression


def due_times(expression: str, tz: str, after: datetime) -> Iterator[datetime]:
    """The due times later than `after`, in UTC, until the calendar ends."""
    minute, hour = expression.split()[-5:-3]
    rule = _whenever_shown if minute.startswith("*") or hour.startswith("*") else _first_shown
    with contextlib.suppress(OverflowError):  # the calendar ends with the year 9999
        yield from rule(expression, ZoneInfo(tz), after.astimezone(UTC))


def _first_shown(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """When the clock first shows a time that matches, or something later."""
    last = after
    for wall in CronSim(expression, after.astimezone(zone).replace(tzinfo=None, fold=0)):
        due = wall.replace(tzinfo=zone).astimezone(UTC)
        if due.astimezone(zone).replace(tzinfo=None) != wall:  # no clock shows it
            before = due - _DAY
            due = _change(zone, _offset(zone, before), before, due) or due
        if due > last:
            yield due
            last = due


def _whenever_shown(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Each time the clock shows a matching time: one stretch of an equal offset after the other."""
    moment, offset = after, _offset(zone, after)
    while True:
        change = None
        for wall in CronSim(expression, (moment + offset).replace(tzinfo=None)):
            due = wall.replace(tzinfo=UTC) - offset
            change = _change(zone, offset, moment, due)
            if change is not None:
                break
            yield due
            moment = due
        if change is None:  # there is no such day within fifty years
            return
        moment, offset = change - _SECOND, _offset(zone, change)


def _change(zone: ZoneInfo, offset: timedelta, after: datetime, until: datetime) -> datetime | None:
    """The first second past `after`, up to `until`, at which the clock has another offset; None if there is none."""
    while after < until:
        step = min(after + _DAY, until)
        if _offset(zone, step) != offset:
            break
        after = step
    else:
        return None
    same, other = after.replace(microsecond=0), step
    while other - same > _SECOND:
        middle = same + (other - same) // (2 * _SECOND) * _SECOND
        same, other = (same, middle) if _offset(zone, middle) != offset else (middle, other)
    return other


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def ticks(every: timedelta, after: datetime) -> Iterator[datetime]:
    """The due times of a period later than `after`: whole periods since 1970, so that every node counts the same."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    number = (after - start) // every + 1
    with contextlib.suppress(OverflowError):
        while True:
            yield start + number * every
            number += 1
