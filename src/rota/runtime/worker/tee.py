"""What a worker prints goes where it always went, and line by line into the node's files (`runtime.printed`) too.

`install` puts a `Tee` in the place of stdout and stderr, and of these in the handlers of `logging`. Which work a line
is about follows from the context it is printed in (`about`): what a thread prints that runs with a copy of its task's
context counts as its task's, and else as the worker's.

Nothing here raises into the app, and nothing is locked: signal handlers and forked children print too. A line that
cannot be kept is counted, and the next one that can be says so. What a program of another language or a child process
writes to the descriptors is not seen here.
"""

import logging
import os
import sys
import threading
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO, cast

from rota.kit.time.clock import SYSTEM, Clock
from rota.runtime.printed import LONGEST, Printed, written

UNFINISHED = 100
"""Lines without an end that a thread may have begun, each about another work."""


TOGETHER = 16
"""Lines of one `print` that are written in one call; if all have the largest size, they take a quarter of a file."""


class About(NamedTuple):
    """The subject of a line."""

    subject: str
    part: str = ""


about: ContextVar[About | None] = ContextVar("about", default=None)
"""The work done in this context, in a worker that does several pieces of work."""


class LineBuffer:
    """Cuts what is printed into lines, and keeps them."""

    def __init__(self, printed: Printed, usual: About, clock: Clock = SYSTEM) -> None:
        """`usual`: the subject of lines that are printed outside of any context with a work of its own."""
        self.dropped = 0
        """Lines that could not be kept since the last one that was."""

        self._printed, self._usual, self._clock = printed, usual, clock
        self._pid = os.getpid()
        self._local = threading.local()

    def take(self, text: str) -> None:
        """Keep the lines that end in `text`, and remember the beginning of the next."""
        try:
            self._take(text, about.get() or self._usual)
        except Exception:  # whatever went wrong, the app's print must not fail
            self.dropped += 1

    def end(self) -> None:
        """Keep the unfinished line that this thread printed last."""
        for work, begun in list(self._begun().items()):
            if begun:
                self._keep(work, [begun])
        self._begun().clear()

    def _take(self, text: str, work: About) -> None:
        begun = self._begun()
        *lines, rest = (begun.pop(work, "") + text).split("\n")
        if len(rest) > LONGEST or len(begun) >= UNFINISHED:
            lines, rest = [*lines, rest], ""
        if rest:
            begun[work] = rest
        if lines:
            self._keep(work, lines)

    def _begun(self) -> dict[About, str]:
        """Unfinished lines of this thread, by subject; a child process has none of its parent's."""
        if self._pid != os.getpid():
            self._pid, self._local = os.getpid(), threading.local()
        found: dict[About, str] | None = getattr(self._local, "begun", None)
        if found is None:
            found = self._local.begun = {}
        return found

    def _keep(self, work: About, lines: list[str]) -> None:
        at = self._clock.wall()
        for start in range(0, len(lines), TOGETHER):
            some, dropped = lines[start : start + TOGETHER], self.dropped
            notice = [f"[rota: {dropped} lines before this one could not be kept]"] if dropped else []
            data = b"".join(written(at, self._pid, work.part, line.rstrip("\r")) for line in (*notice, *some))
            try:
                self._printed.append(work.subject, data)
            except OSError:
                self.dropped += len(some)
            else:
                self.dropped -= dropped


class Tee:
    """A stream whose text is kept too; everything else of it is the old stream's."""

    def __init__(self, stream: TextIO, keeper: LineBuffer) -> None:
        self._stream, self._keeper = stream, keeper

    def write(self, text: str) -> int:
        """Write to the old stream, and keep it."""
        count = self._stream.write(text)
        self._keeper.take(text)
        return count

    def writelines(self, lines: Any) -> None:
        """Write each of these."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> "TeeBuffer":
        """The same for bytes."""
        return TeeBuffer(self._stream.buffer, self._keeper)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)


class TeeBuffer:
    """The stream of bytes below a stream, whose bytes are kept too, as text."""

    def __init__(self, buffer: Any, keeper: LineBuffer) -> None:
        self._buffer, self._keeper = buffer, keeper

    def write(self, data: Any) -> int:
        """Write to the old stream, and keep it."""
        count: int = self._buffer.write(data)
        self._keeper.take(bytes(data).decode(errors="replace"))
        return count

    def writelines(self, lines: Any) -> None:
        """Write each of these."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)


def install(keeper: LineBuffer) -> None:
    """Keep what this process prints from now on, and what it logs to stdout or stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            continue
        tee = cast(TextIO, Tee(stream, keeper))
        setattr(sys, name, tee)
        loggers = [logging.root, *logging.root.manager.loggerDict.values()]
        for handler in [each for logger in loggers if isinstance(logger, logging.Logger) for each in logger.handlers]:
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                handler.stream = tee
