"""Output goes with its run, and is not left behind."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.jobs.core.records import run_id
from rota.jobs.fleet import retention
from rota.jobs.fleet.retention import OldRuns, forget_left, keep_runs, trim
from rota.jobs.logs.folder import FolderLogs
from rota.jobs.logs.open import open_logs
from rota.jobs.logs.port import LogChunk
from rota.model import event, keys
from rota.model.config import JobsConfig
from rota.model.errors import Unavailable
from rota.store import Delete, Put, Store, open_store
from rota.store.port import ScanResult
from tests.kit.waiting import eventually

NOW = datetime.now(UTC)


def _nobody(kind: str, subject: str, **fields: object) -> None:
    """Nobody listens to events."""


async def test_output_goes_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY", 0.01)
    async with open_store("memory://old-runs") as store:
        logs = FolderLogs(tmp_path)
        runs = [run_id("report", NOW - timedelta(days=days)) for days in (40, 1)]
        for run in runs:
            await store.commit(Put(keys.run(run), b"{}"))
            await logs.append([LogChunk(run, 1, 0, b"said", is_last=True)])
        clearing = asyncio.create_task(keep_runs(store, logs, JobsConfig(), _nobody))

        async def is_gone() -> bool:
            return await store.get(keys.run(runs[0])) is None

        await eventually(is_gone)
        assert await logs.read(runs[0], 1) == b""
        assert await logs.read(runs[1], 1) == b"said"
        clearing.cancel()


async def test_output_goes_before_its_run_so_that_a_visit_that_failed_is_resumed(tmp_path: Path) -> None:
    class Flaky(FolderLogs):
        is_away = True

        async def forget(self, runs: Sequence[str]) -> None:
            if self.is_away:
                await super().forget(runs[:1])
                raise Unavailable("the place is away")
            await super().forget(runs)

    async with open_store("memory://fails-half-way") as store:
        logs = Flaky(tmp_path)
        runs = [run_id("report", NOW - timedelta(days=days)) for days in (40, 41, 42)]
        for run in runs:
            await store.commit(Put(keys.run(run), b"{}"))
            await logs.append([LogChunk(run, 1, 0, b"said", is_last=True)])
        old = OldRuns(store, most=1000, keep=timedelta(days=30), forget=logs.forget)
        with pytest.raises(Unavailable):
            await old.visit(NOW)
        assert [bool(await store.get(keys.run(run))) for run in runs] == [True] * 3
        logs.is_away = False
        assert sorted(await old.visit(NOW)) == sorted(runs)
        assert [await logs.read(run, 1) for run in runs] == [b""] * 3


async def test_output_that_was_left_goes_unless_its_run_still_lives(tmp_path: Path) -> None:
    async with open_store("memory://left-output") as store:
        logs = FolderLogs(tmp_path)
        for run in ("report/1", "report/2"):
            await logs.append([LogChunk(run, 1, 0, b"said")])
        await store.commit(Put(keys.live_run("report/2"), b"{}"))
        assert await forget_left(store, logs, timedelta(hours=1)) == []
        assert await forget_left(store, logs, -timedelta(hours=1)) == ["report/1"]
        assert await logs.read("report/1", 1) == b""
        assert await logs.read("report/2", 1) == b"said"


async def test_output_beyond_the_bound_goes_the_oldest_first_and_that_is_reported(tmp_path: Path) -> None:
    told: list[tuple[str, str, dict[str, object]]] = []

    def tell(kind: str, subject: str, **fields: object) -> None:
        event.make(kind, subject, {}, node="n1", at=NOW, number=1)  # it is a known kind
        told.append((kind, subject, fields))

    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        logs = open_logs(None, f"sqlite:///{tmp_path}/store.db", store, tmp_path)
        for number in range(5):
            await logs.append([LogChunk(f"report/{number}", 1, 0, bytes(100))])
        await store.commit(Put(keys.live_run("report/0"), b"{}"), Put(keys.run("report/1"), b"{}"))
        assert await trim(store, logs, 500, tell) == []
        assert await trim(store, logs, 350, tell) == ["report/1", "report/2"]
        assert await logs.held() == 300
        assert await store.get(keys.run("report/1"))
        assert await trim(store, logs, 50, tell) == ["report/3", "report/4"], "the one that is live stays"
    assert told[0] == ("run.trimmed", "report/2", {"runs": 2, "bytes": 200, "most": 350})


async def test_all_output_that_was_left_goes_at_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOGS", 2)
    async with open_store("memory://much-output") as store:
        logs = FolderLogs(tmp_path)
        runs = {f"report/{number}" for number in range(5)}
        for run in runs:
            await logs.append([LogChunk(run, 1, 0, b"said")])
        assert set(await forget_left(store, logs, -timedelta(hours=1))) == runs


async def test_a_visit_looks_at_many_jobs_but_not_at_too_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS", 4)
    async with open_store("memory://many-jobs") as store:
        runs = [run_id(job, NOW - timedelta(minutes=number)) for job in "abc" for number in range(3)]
        await store.commit(*(Put(keys.run(run), b"{}") for run in runs))
        old = OldRuns(store, most=2, keep=timedelta(days=1))
        assert await old.visit(NOW) == [runs[2], runs[5]], "four runs were seen, so the third job has to wait"
        assert await old.visit(NOW) == [runs[8]]


class Counted:
    """A store that counts the entries that were read."""

    def __init__(self, store: Store) -> None:
        self._store, self.read = store, 0
        self.commit = store.commit

    async def scan(self, *args: Any, **more: Any) -> ScanResult:
        listing = await self._store.scan(*args, **more)
        self.read += len(listing.entries)
        return listing


async def test_a_job_with_very_many_runs_is_cleared_in_visits_that_read_a_bounded_number_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "RUNS", 4)
    monkeypatch.setattr(retention, "PAGE", 2)
    async with open_store("memory://long-job") as store:
        runs = [run_id("a", NOW - timedelta(minutes=number)) for number in range(13)]
        await store.commit(*(Put(keys.run(run), b"{}") for run in runs))
        counted = Counted(store)
        old = OldRuns(counted, most=3, keep=timedelta(days=1))  # type: ignore[arg-type]  # it scans and commits
        gone: list[str] = []
        while True:
            before = counted.read
            gone += await old.visit(NOW)
            assert counted.read - before <= 6, "four runs, and one that names the job"
            if not old.is_behind:
                break
        assert gone == runs[3:]


async def test_a_job_that_cannot_have_too_many_runs_is_not_read_again_but_for_what_is_past_keeping() -> None:
    async with open_store("memory://calm-job") as store:
        runs = [run_id("a", NOW - timedelta(minutes=number)) for number in range(500)]
        for start in range(0, len(runs), 100):
            await store.commit(*(Put(keys.run(run), b"{}") for run in runs[start : start + 100]))
        counted = Counted(store)
        old = OldRuns(counted, most=1000, keep=timedelta(minutes=499.5))  # type: ignore[arg-type]  # it scans and commits
        assert await old.visit(NOW) == []
        await store.commit(Put(keys.run(run_id("a", NOW + timedelta(seconds=1))), b"{}"))
        counted.read = 0
        assert await old.visit(NOW + timedelta(minutes=2)) == runs[498:]
        assert counted.read <= 110, "the newest hundred and the two that go"
        counted.read = 0
        assert await old.visit(NOW + timedelta(minutes=2)) == []
        assert counted.read <= 3


async def test_runs_that_somebody_deleted_are_not_counted_when_others_are_too_many() -> None:
    async with open_store("memory://deleted-by-hand") as store:
        runs = [run_id("a", NOW - timedelta(minutes=number)) for number in range(20)]
        await store.commit(*(Put(keys.run(run), b"{}") for run in runs))
        old = OldRuns(store, most=20, keep=timedelta(days=1))
        assert await old.visit(NOW) == []
        await store.commit(*(Delete(keys.run(run)) for run in runs[:10]))
        new = [run_id("a", NOW + timedelta(minutes=number)) for number in range(5)]
        await store.commit(*(Put(keys.run(run), b"{}") for run in new))
        assert await old.visit(NOW) == []


async def test_runs_that_came_in_among_the_older_ones_are_counted_within_the_hour() -> None:
    async with open_store("memory://backfilled") as store:
        runs = [run_id("a", NOW - timedelta(minutes=number)) for number in range(8)]
        await store.commit(Put(keys.run(runs[0]), b"{}"))
        old = OldRuns(store, most=5, keep=timedelta(days=1))
        assert await old.visit(NOW) == []
        await store.commit(*(Put(keys.run(run), b"{}") for run in runs[1:]))
        assert await old.visit(NOW + retention.RECOUNT) == runs[5:]


def test_a_visit_follows_soon_while_there_is_more_to_look_at() -> None:
    assert retention.pause(2.0, is_behind=False) == retention.EVERY
    assert retention.pause(2.0, is_behind=True) == 18.0
    assert retention.pause(0.0, is_behind=True) == 1.0
    assert retention.pause(100.0, is_behind=True) == retention.EVERY
