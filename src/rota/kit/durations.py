"""Durations as people write them: `30s`, `1h30m`, `250ms`.

`parse` reads one, `render` writes one; `parse(render(d)) == d` to the microsecond. A bare number is refused: 30
of what?
"""

import re
from datetime import timedelta

UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|d|h|m|s)")


def parse(text: str) -> timedelta:
    """The duration `text` means; ValueError says how to write one."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a duration; write a number and a unit, like 30s, 1h30m or 250ms')
    try:
        return sum((float(number) * UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f'"{text}" is too long; nobody can wait for that') from None


def render(duration: timedelta) -> str:
    """The shortest exact way to write `duration`."""
    if duration < timedelta():
        raise ValueError(f"{duration} is negative; a duration is not")
    out, rest = [], duration
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            out.append(f"{count}{unit}")
    return "".join(out) or "0s"
