"""Colours mean something: each state has one, and there are none where nobody wants them."""

import asyncio
import io
import os
import pty
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from rota.cli.terminal import colours
from rota.cli.terminal.colours import GREEN, PLAIN, RED, STATES, YELLOW, colour
from rota.jobs.core.records import RunState
from rota.model.peers import Standing
from rota.relay.core.records import SinkState
from rota.resources.core.records import CoverageState
from rota.store import open_store
from rota.streams.core.records import StreamState
from tests.kit.cli import ROTA
from tests.kit.jobs import HOUR, NOON, over


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        pytest.param(Screen(), {}, True, id="a screen"),
        pytest.param(io.StringIO(), {}, False, id="a file"),
        pytest.param(Screen(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Screen(), {"NO_COLOR": ""}, True, id="NO_COLOR that is empty"),
        pytest.param(Screen(), {"TERM": "dumb"}, False, id="a screen that has none"),
    ],
)
def test_when_there_is_colour(stream: io.StringIO, environ: Mapping[str, str], expected: bool) -> None:
    assert colours.wanted(stream, environ) is expected


@pytest.mark.parametrize("states", [RunState, CoverageState, StreamState, Standing, SinkState])
def test_every_state_is_good_bad_on_its_way_or_neither(states: type[StrEnum]) -> None:
    assert {str(state) for state in states} <= {*RED, *YELLOW, *GREEN, *PLAIN}


def test_no_state_has_two_colours() -> None:
    assert len(STATES) == len(RED) + len(YELLOW) + len(GREEN)
    assert not set(STATES) & set(PLAIN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("failed", "red"),
        ("failed 11-16 03:00:00", "red"),
        ("unhealthy tasks", "red"),
        ("drained: new kernel, cordoned", "yellow"),
        ("running (to be suspended)", "green"),
        ("up", "green"),
        ("upright", None),
        ("idle", None),
        ("", None),
        ("5m", None),
    ],
)
def test_the_state_at_the_beginning_counts(text: str, expected: str | None) -> None:
    assert colour(text) == expected


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A fleet with a run that failed and one that succeeded, of a job that is called failed."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await over(store, "failed", NOON, RunState.FAILED)
            await over(store, "failed", NOON + HOUR)

    asyncio.run(fill())
    return url


def on_a_terminal(*words: str, **environ: str) -> str:
    """What a command prints whose stdout is a terminal."""
    ours, theirs = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "FORCE_COLOR")}
    process = subprocess.Popen(
        [ROTA, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**known, **environ}
    )
    with process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # how Linux says that nobody has the terminal open any more
            pass
        os.close(ours)
        assert process.wait() == 0, said
    return said.decode().replace("\r\n", "\n")


def test_a_terminal_shows_states_in_their_colours_and_nothing_else(url: str) -> None:
    heading, succeeded, failed = on_a_terminal("runs", "ls", "--store", url, TERM="xterm").splitlines()
    assert heading.startswith("\x1b[1mRUN\x1b[0m ")
    assert "  \x1b[32msucceeded\x1b[0m  " in succeeded
    assert "  \x1b[31mfailed\x1b[0m" in failed
    assert failed.startswith("failed/"), "a job of that name is no state"
    assert "\x1b[31mleader: none\x1b[0m" in on_a_terminal("status", "--store", url, TERM="xterm")


@pytest.mark.parametrize("command", [("runs", "ls"), ("status",)], ids=" ".join)
@pytest.mark.parametrize("environ", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_who_wants_no_colours_gets_no_escape_at_all(
    command: tuple[str, ...], environ: dict[str, str], url: str
) -> None:
    said = on_a_terminal(*command, "--store", url, **environ)
    assert "\x1b" not in said
    assert said


def test_json_has_no_colours_on_a_terminal_either(url: str) -> None:
    for command in (("runs", "ls"), ("status",)):
        said = on_a_terminal(*command, "-o", "json", "--store", url, TERM="xterm")
        assert "\x1b" not in said
        assert said.startswith("{\n")
