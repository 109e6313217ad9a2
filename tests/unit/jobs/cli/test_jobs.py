"""`rota jobs` on a store in a file."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.jobs.cli.jobs import command
from rota.model.errors import Invalid
from rota.store import open_store
from tests.kit.jobs import add, over


def backfill(url: str, *more: str) -> Result:
    arguments = ["backfill", "backup", "2026-01-16T08:00Z", "2026-01-16T10:00Z", *more, "--store", url]
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_a_backfill_says_first_which_runs_it_would_make(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await add(store, cron="0 * * * *")

    asyncio.run(fill())
    shown = backfill(url, "--preview").output.splitlines()
    assert shown[-1] == "3 runs would be made"
    assert json.loads(backfill(url, "--preview", "-o", "json").output) == shown[:-1]
    assert backfill(url).output.splitlines() == [*shown[:-1], "3 runs made"]
    assert backfill(url, "--preview").output == "0 runs would be made\n"


def test_a_backfill_of_what_may_have_run_is_made_with_force_only(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await add(store, cron="0 * * * *")
            await over(store, "backup", datetime(2026, 1, 16, 9, tzinfo=UTC))

    asyncio.run(fill())
    for more in ((), ("--preview",)):
        with pytest.raises(Invalid, match="may have run before"):
            backfill(url, *more)
    assert backfill(url, "--preview", "--force").output.splitlines()[-1] == "2 runs would be made"
    assert backfill(url, "--force").output.splitlines()[-1] == "2 runs made"
