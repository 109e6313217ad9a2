"""Log lines: for people (time, level, event, fields) or for programs (one JSON object per line)."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_ALWAYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}


class TextFormatter(logging.Formatter):
    """`12:00:01 INFO    leading node=a term=3`."""

    def __init__(self, *, has_colour: bool = False) -> None:
        super().__init__()
        self._has_colour = has_colour

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%H:%M:%S")
        fields = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items())
        line = f"{time} {self._level(record.levelname)} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

    def _level(self, name: str) -> str:
        padded = f"{name:<7}"
        colour = _COLOURS.get(name) if self._has_colour else None
        return f"\x1b[{colour}m{padded}\x1b[0m" if colour else padded


class JsonFormatter(logging.Formatter):
    """`{"time": "2026-01-01T12:00:01.250Z", "level": "info", "event": "leading", …}`.

    A field that has the name of one of ours gets an underscore behind it.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {
            "time": time,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def to_stderr(level: str, format: str) -> None:
    """Write the log of this process, and of those it forks, at once: there is no thread that could do it later."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _ALWAYS}


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text
