"""What is shown to somebody who waits: on a terminal, and elsewhere."""

import asyncio
import fcntl
import io
import os
import re
import select
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from rota.cli.terminal.progress import PLAIN_PACE, ProgressLine, drawn, line

ESCAPES = re.compile(r"\033\[[0-9;]*[A-Za-z]")
COLOUR, CLEARED = "\033[32m", "\033[K"


class Terminal:
    """A terminal of so many columns, and what was written to it."""

    def __init__(self, columns: int) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream: TextIO = os.fdopen(slave, "w")

    def written(self, last: str) -> str:
        """Everything since the last time, up to where it ends like this; the kernel passes it on by and by."""
        found = ""
        while not found.endswith(last):
            assert select.select([self._master], [], [], 20)[0], found
            found += os.read(self._master, 65_536).decode()
        return found

    def close(self) -> None:
        self.stream.close()
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Terminal(60)
    yield made
    made.close()


class Clock:
    """A time that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_has_counts_age_and_what_else_there_is_to_say() -> None:
    assert line("draining n1", 3, 8, 75.9, "2 cannot") == "draining n1 3 of 8, 1m15s; 2 cannot"
    assert line("suspending clicks", 0, None, 4) == "suspending clicks, 4s"


@pytest.mark.parametrize(
    ("done", "total", "width", "expected"),
    [
        pytest.param(5, 10, 80, "x [###############---------------] 5 of 10, 1s", id="half of it"),
        pytest.param(10, 10, 80, f"x [{'#' * 30}] 10 of 10, 1s", id="all of it"),
        pytest.param(12, 10, 80, f"x [{'#' * 30}] 12 of 10, 1s", id="more than there was"),
        pytest.param(0, 0, 80, "x, 1s", id="nothing to do"),
        pytest.param(5, 10, 25, "x [####-----] 5 of 10, 1s", id="a narrow one"),
        pytest.param(5, 10, 12, "x 5 of 10, 1", id="too narrow for a bar"),
    ],
)
def test_a_bar_fits_its_terminal(done: int, total: int, width: int, expected: str) -> None:
    assert drawn("x", done, total, 1, "", width, has_colour=False) == expected


def test_on_a_terminal_one_line_is_rewritten_and_gone_in_the_end(terminal: Terminal) -> None:
    clock = Clock()
    with ProgressLine("simulating", 4, stream=terminal.stream, now=clock) as progress:
        progress.at(1)
        clock.now += 0.01
        progress.at(2)  # too soon to be drawn
        clock.now += 1
        progress.at(3, note="1 failed")
        written = terminal.written("1 failed" + CLEARED)
    assert COLOUR in written
    assert ESCAPES.sub("", written).split("\r")[1:] == [
        "simulating [#######-----------------------] 1 of 4, 0s",
        "simulating [##################-------] 3 of 4, 1s; 1 failed",
    ]
    assert "\n" not in written
    assert terminal.written(CLEARED) == f"\r{CLEARED}"


def test_no_color_is_respected(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    ProgressLine("simulating", 4, stream=terminal.stream).at(2)
    written = terminal.written(CLEARED)
    assert "##--" in written
    assert COLOUR not in written


def test_a_dumb_terminal_gets_plain_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    clock = Clock()
    with ProgressLine("simulating", 4, stream=terminal.stream, now=clock) as progress:
        clock.now += PLAIN_PACE
        progress.at(2)
    assert terminal.written("\n") == "simulating 2 of 4, 10s\r\n"


def test_elsewhere_a_short_wait_says_nothing_and_a_long_one_a_line_now_and_then() -> None:
    clock, log = Clock(), io.StringIO()
    with ProgressLine("simulating", 100, stream=log, now=clock) as progress:
        for done in range(100):
            progress.at(done)
            clock.now += 0.25
    assert log.getvalue().splitlines() == ["simulating 40 of 100, 10s", "simulating 80 of 100, 20s"]


async def test_the_age_goes_on_while_nothing_happens(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.cli.terminal.progress.TURN", 0.0)
    clock = Clock()
    progress = ProgressLine("suspending clicks", stream=terminal.stream, now=clock)
    async with asyncio.timeout(20), progress.turning():
        for age in (0, 1, 2):
            text = await asyncio.to_thread(terminal.written, f"suspending clicks, {age}s{CLEARED}")
            assert text.startswith("\r")
            clock.now += 1
    assert terminal.written(f"\r{CLEARED}")
