"""The log on stderr, in the lines of `kit.text.loglines`.

Colour is for terminals: lines in a file, or with NO_COLOR set, have none.
"""

import atexit
import contextlib
import logging
import queue
import sys
import threading
from typing import TextIO

from rota.cli.terminal import colours
from rota.kit.text.loglines import JsonFormatter, TextFormatter

LINES = 10_000
"""Lines that may wait to be written."""

LAST_LINES = 1.0
"""Seconds to wait for the last ones."""


class Patient(logging.Handler):
    """Hands lines to a thread that writes them, so that logging never waits for the reader of stderr.

    A reader that stands still (a terminal under Ctrl-S, a pipe to a frozen process) would otherwise freeze the node.
    Then lines are dropped, and their number is logged when there is room again.
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
                line = f"({self._dropped} log lines were dropped because stderr was not read)\n{line}"
            self._lines.put_nowait(line)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)

    def end(self) -> None:
        """Write the lines that are left, if the reader takes them."""
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
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter(has_colour=colours.wanted(sys.stderr)))
    logging.basicConfig(level=level.upper(), handlers=[handler])
