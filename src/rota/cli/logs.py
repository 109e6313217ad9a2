"""Log lines on stderr: for people (time, level, event, fields) or for programs (one JSON object per line).

Colour is for screens: a line that goes to a file, or to somebody who set NO_COLOR, has none.
"""

import atexit
import contextlib
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

LINES = 10_000
"""Lines that may wait to be written."""

LAST_LINES = 1.0
"""Seconds to wait for the last ones."""

_ALWAYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}


class Lines(logging.Formatter):
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


class JsonLines(logging.Formatter):
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


class Patient(logging.Handler):
    """Hands lines to a thread that writes them, so that nobody waits for whoever reads them.

    A reader that stands still (a terminal under Ctrl-S, a pipe to a frozen process) would otherwise freeze the node.
    Then lines are dropped, and how many is told when there is room again.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(LINES)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            if self._dropped:
                line = f"({self._dropped} log lines were dropped because nobody read them)\n{line}"
            self._lines.put_nowait(line)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)

    def end(self) -> None:
        """Write what is left, if somebody reads it."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(LAST_LINES)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(line + "\n")
                self._stream.flush()


def to_stderr(level: str, format: str = "text") -> None:
    """Send the log to stderr, as `text` or `json`."""
    handler = Patient(sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else Lines(has_colour=wants_colour(sys.stderr, os.environ)))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Is this a screen, and its owner not against colour?"""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _ALWAYS}


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text
