"""Cron expressions and due times. Pure: time is an argument.

An expression has five fields (minute hour day month weekday), or six with the second first; `L`, `5#2`, names of days
and months, and `@daily` and its like are understood. In a time zone with summer time a due time in the gap comes at its
end, and one in the repeated hour comes once; `*/30` and the like go on through both.
"""

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
    """The due times later than `after`, in UTC, for ever."""
    for due in CronSim(expression, after.astimezone(ZoneInfo(tz))):
        yield due.astimezone(UTC)


def ticks(every: timedelta, after: datetime) -> Iterator[datetime]:
    """The due times of a period later than `after`: whole periods since 1970, so that every node counts the same."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    number = (after - start) // every + 1
    while True:
        yield start + number * every
        number += 1
