"""Durations as people write them: `30s`, `1h30m`, `250ms`.

`parse` reads one, `render` writes one; `parse(render(d)) == d` to the microsecond. A bare number is refused: 30
of what? `parse` also reads what programs write, ISO 8601: `PT30S`, `PT1H30M`, `P1DT12H`; years and months are refused,
for they have no fixed length.
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
_NUMBER = r"(\d+(?:\.\d+)?)"
_ISO = re.compile(
    rf"P(?=[\dT])(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_ISO_UNITS = (7 * UNITS["d"], UNITS["d"], UNITS["h"], UNITS["m"], UNITS["s"])


def parse(text: str) -> timedelta:
    """The duration `text` means; ValueError says how to write one."""
    if iso := _ISO.fullmatch(text):
        sizes = [(number, unit) for number, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if number]
        return _total(text, sizes)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a duration; write a number and a unit, like 30s, 1h30m or 250ms')
    return _total(text, [(number, UNITS[unit]) for number, unit in parts])


def _total(text: str, parts: list[tuple[str, timedelta]]) -> timedelta:
    try:
        return sum((float(number) * unit for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f'"{text}" is longer than the longest possible duration') from None


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
