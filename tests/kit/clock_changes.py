"""Due times over every clock change of twelve zones from 2026 to 2030, beside an oracle that walks minute by minute.

The oracle knows nothing of transitions: it steps through UTC in minutes and asks what a wall clock shows. A fixed time
of day comes when the clock first shows it; if it never does, as soon as the clock shows something later. What goes by
`*` comes whenever the clock shows it.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from rota.jobs.core.cron import due_times

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ZONES = [
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Havana",  # changes at midnight
    "America/Santiago",  # at midnight, in September and April
    "America/Asuncion",  # has done with changing
    "Asia/Beirut",  # at midnight
    "Asia/Jerusalem",
    "Africa/Cairo",  # at midnight, from Thursday to Friday
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Chatham",  # at 2:45
    "America/Scoresbysund",
]
FIXED: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
    "15 0 * * *": lambda wall: (wall.hour, wall.minute) == (0, 15),
    "0 1,23 * * *": lambda wall: wall.hour in (1, 23) and wall.minute == 0,
    "0 30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
    "0,30 2,3 * * *": lambda wall: wall.hour in (2, 3) and wall.minute in (0, 30),
    "45 1 * * 0": lambda wall: (wall.hour, wall.minute) == (1, 45) and wall.weekday() == 6,
}
THROUGH: dict[str, Callable[[datetime], bool]] = {
    "*/30 * * * *": lambda wall: wall.minute in (0, 30),
    "* * * * *": lambda wall: True,
    "20 */2 * * *": lambda wall: wall.hour % 2 == 0 and wall.minute == 20,
    "*/15 2 * * *": lambda wall: wall.hour == 2 and wall.minute % 15 == 0,
}


def changes(zone: ZoneInfo) -> Iterator[datetime]:
    """The UTC days on which a zone's offset changes."""
    day = datetime(2026, 1, 1, tzinfo=UTC)
    while day.year < 2031:
        if day.astimezone(zone).utcoffset() != (day + DAY).astimezone(zone).utcoffset():
            yield day
        day += DAY


def walk(zone: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Each minute, and what the wall clock shows then."""
    minutes = []
    while start <= end:
        minutes.append((start, start.astimezone(zone).replace(tzinfo=None)))
        start += MINUTE
    return minutes


def fixed(matches: Callable[[datetime], bool], minutes: list[tuple[datetime, datetime]]) -> list[datetime]:
    shown: dict[datetime, datetime] = {}
    for at, wall in minutes:
        shown.setdefault(wall, at)
    found = []
    wall, last = minutes[0][1], minutes[-1][1]
    while wall <= last:
        if matches(wall):
            found.append(shown[wall] if wall in shown else next(at for at, seen in minutes if seen > wall))
        wall += MINUTE
    return sorted(set(found))


def through(matches: Callable[[datetime], bool], minutes: list[tuple[datetime, datetime]]) -> list[datetime]:
    return [at for at, wall in minutes if matches(wall)]


def disagreements(name: str) -> Iterator[str]:
    """Around each change of a zone, the expressions whose due times are not the oracle's."""
    zone = ZoneInfo(name)
    for day in changes(zone):
        start, end = day - DAY, day + 2 * DAY
        minutes = walk(zone, start, end)
        for rule, expressions in ((fixed, FIXED), (through, THROUGH)):
            for expression, matches in expressions.items():
                due = list(takewhile(lambda at, end=end: at <= end, due_times(expression, name, start - MINUTE)))
                if due != rule(matches, minutes):
                    yield f"{expression} in {name} from {start}"
