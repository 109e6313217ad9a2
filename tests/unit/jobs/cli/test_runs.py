"""`rota runs ls`: how far it looks for runs in a state, and from when on."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rota.jobs.cli import runs
from rota.jobs.core.records import RunState
from rota.jobs.doors import run_listing, run_output
from rota.jobs.doors.answers import LogPart
from rota.store import open_store
from tests.kit.jobs import HOUR, NOON, over


def test_a_list_by_state_looks_at_so_many_runs_and_says_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    monkeypatch.setattr(run_listing, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(runs, "LOOKED", 6)

    async def fill() -> str:
        async with open_store(url) as store:
            failed = await over(store, "backup", NOON, RunState.FAILED)
            for number in range(1, 10):
                await over(store, "backup", NOON + number * HOUR)
            return failed

    failed = asyncio.run(fill())
    listing = ["ls", "--state", "failed", "--store", url]
    runs.command.main(listing, standalone_mode=False)
    first = capsys.readouterr()
    assert failed not in first.out
    assert first.err.startswith("looked at 6 runs; go on with --page ")
    token = first.err.split()[-1]
    runs.command.main([*listing, "--page", token], standalone_mode=False)
    second = capsys.readouterr()
    assert failed in second.out
    assert second.err == ""


def test_runs_since_a_time_or_some_time_ago(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> tuple[str, str]:
        async with open_store(url) as store:
            recent = await store.now() - timedelta(minutes=30)
            return await over(store, "backup", NOON), await over(store, "backup", recent.replace(microsecond=0))

    old, new = asyncio.run(fill())

    def listed(since: str) -> str:
        return CliRunner().invoke(runs.command, ["ls", "--since", since, "--store", url], catch_exceptions=False).stdout

    for since in ("1h", f"{NOON + HOUR:%Y-%m-%dT%H:%M}", f"{NOON + HOUR:%Y-%m-%dT%H:%M}+00:00"):
        assert new in listed(since)
        assert old not in listed(since)
    assert old in listed(f"{NOON:%Y-%m-%d}")


def test_a_since_that_is_neither_says_how_to_write_one(tmp_path: Path) -> None:
    given = ["ls", "--since", "yesterday", "--store", f"sqlite:///{tmp_path / 'rota.db'}"]
    refused = CliRunner().invoke(runs.command, given)
    assert refused.exit_code == 2
    assert '"yesterday" is neither a duration nor a time; write how long ago, like 30m, 2h or 7d' in refused.output


class Retried:
    """A fleet with a run whose first attempt is followed; when that has ended, a second is at work."""

    logs: Any = None

    def __init__(self) -> None:
        self.attempt = 1

    async def do(self, operation: object, *_: object, attempt: int | None = None, offset: int = 0) -> LogPart:
        assert operation is run_output.read_log
        number = attempt or self.attempt
        return LogPart(run="r", attempt=number, offset=offset, data=b"", next=offset, is_whole=number < self.attempt)

    async def each(self, operation: object, *_: object, **__: object) -> AsyncGenerator[LogPart, None]:
        assert operation is run_output.follow_log
        self.attempt = 2
        yield LogPart(run="r", attempt=1, offset=0, data=b"first\n", next=6, is_whole=False)


def test_the_end_of_what_was_followed_is_that_of_the_same_attempt(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def on_fleet(_: object, show: Callable[[Any], Awaitable[None]], **__: object) -> None:
        asyncio.run(show(Retried()))

    monkeypatch.setattr(runs, "on_fleet", on_fleet)
    runs.command.main(["logs", "r", "-f", "--store", "memory://none"], standalone_mode=False)
    told = capfd.readouterr()
    assert (told.out, told.err) == ("first\n", "")
