"""Progress: how far an operation is that the user waits for.

On a terminal it is one line on stderr with a bar, counts and how long it lasts, rewritten in place and gone in the end.
Elsewhere, in a log or a pipe, it is a plain line now and then, so that short waits say nothing. The answer of a command
is never written here.

`line` and `drawn` decide what is shown, on data. `NO_COLOR` is respected; a terminal that is dumb counts as none.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Self, TextIO

import click

from rota.cli.terminal import colours
from rota.kit.time import durations

PACE = 0.1
"""Seconds between two drawings on a terminal."""

TURN = 0.25
"""Seconds after which the age is drawn anew while nothing happens."""

PLAIN_PACE = 10.0
"""Seconds between two lines where there is no terminal."""

SHORTEST_BAR, LONGEST_BAR = 5, 30


def line(what: str, done: int, total: int | None, age: float, note: str = "") -> str:
    """The progress as a line for a log; `total` None: the amount is not known."""
    counts = f" {done} of {total}" if total else ""
    shown = durations.render(timedelta(seconds=int(age)))
    return f"{what}{counts}, {shown}{f'; {note}' if note else ''}"


def drawn(what: str, done: int, total: int | None, age: float, note: str, width: int, *, has_colour: bool) -> str:
    """The same with a bar, in at most `width` columns; without one where there is no room for it."""
    text = line(what, done, total, age, note)
    room = min(LONGEST_BAR, width - len(text) - len(" []"))
    if not total or room < SHORTEST_BAR:
        return text[:width]
    full = room * min(done, total) // total
    bar = click.style("#" * full, fg="green") if has_colour and full else "#" * full
    return f"{what} [{bar}{'-' * (room - full)}]{text.removeprefix(what)}"


class ProgressLine:
    """One wait; a context manager, after which nothing of it is left on a terminal."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """`what` is done, like "draining n1"; `total`: how many of it there are, if that is known."""
        self._what, self._total, self._done, self._note = what, total, 0, ""
        self._stream, self._now = stream or sys.stderr, now or time.monotonic
        self.is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        """Is it drawn in place?"""

        self._has_colour = colours.wanted(self._stream)
        self._began = self._now()
        self._drawn = float("-inf") if self.is_live else self._began
        self._is_there = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def at(self, done: int, total: int | None = None, note: str = "") -> None:
        """It has come to here."""
        self._done, self._note = done, note
        self._total = self._total if total is None else total
        self._draw_if_due()

    def clear(self) -> None:
        """Make room for something else; the next drawing brings it back."""
        if self._is_there:
            self._write("\r\033[K")
            self._is_there = False

    @contextlib.asynccontextmanager
    async def turning(self) -> AsyncIterator[Self]:
        """Inside, the age goes on while nothing else does; nothing is left in the end."""
        turning = asyncio.create_task(self._turn(), name="progress")
        try:
            yield self
        finally:
            turning.cancel()
            self.clear()

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TURN)
            self._draw_if_due()

    def _draw_if_due(self) -> None:
        now = self._now()
        if now - self._drawn < (PACE if self.is_live else PLAIN_PACE):
            return
        self._drawn = now
        state = self._what, self._done, self._total, now - self._began, self._note
        if self.is_live:
            self._write(f"\r{drawn(*state, self._columns() - 1, has_colour=self._has_colour)}\033[K")
            self._is_there = True
        else:
            self._write(f"{line(*state)}\n")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # stderr was closed; the operation continues
            self._stream.write(text)
            self._stream.flush()
