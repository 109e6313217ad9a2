"""`rota runs ls`: how far it looks for runs in a state."""

import asyncio
from pathlib import Path

import pytest

from rota.api import job_operations
from rota.cli import runs
from rota.model.job import RunState
from rota.store import open_store
from tests.unit.api.test_jobs import HOUR, NOON, over


def test_a_list_by_state_looks_at_so_many_runs_and_says_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    monkeypatch.setattr(job_operations, "MOST_LOOKED_AT", 2)
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
