"""What people ask of jobs and runs, on stores that differ."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.jobs.core.due import new_run
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, Origin, RunRecord, RunState, Skipped
from rota.jobs.fleet import verbs
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound
from rota.model.ids import Revision
from rota.store import Put, Store, open_store
from rota.store.port import Expect, Write

HOUR = timedelta(hours=1)
REPORT = JobSpec(name="report", argv=("true",), retries=2)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with open_store(url) as opened:
        yield opened


async def put(store: Store, job: JobSpec = REPORT) -> int:
    return await verbs.put_job(store, job, Origin.API, "me")


async def job(store: Store, name: str = "report") -> JobRecord:
    entry = await store.get(keys.job(name))
    assert entry is not None
    return codec.decode(JobRecord, entry.value)


async def live(store: Store, id: str) -> RunRecord:
    entry = await store.get(keys.live_run(id))
    assert entry is not None
    return codec.decode(RunRecord, entry.value)


async def over(store: Store, id: str) -> RunRecord:
    entry = await store.get(keys.run(id))
    assert entry is not None
    return codec.decode(RunRecord, entry.value)


class TestPut:
    async def test_a_new_job_is_due_from_now_on(self, store: Store) -> None:
        await put(store)
        record = await job(store)
        assert (record.spec, record.origin, record.by, record.enabled) == (REPORT, Origin.API, "me", True)
        assert record.since == record.at <= await store.now()

    async def test_putting_the_same_again_changes_nothing(self, store: Store) -> None:
        assert await put(store) == await put(store)

    async def test_another_schedule_counts_from_now_and_what_was_switched_off_stays_off(self, store: Store) -> None:
        await put(store)
        await verbs.disable(store, "report", "me")
        before = await job(store)
        await put(store, JobSpec(name="report", argv=("true",), every=HOUR))
        after = await job(store)
        assert not after.enabled
        assert after.since >= before.since
        assert after.spec.every == HOUR

    async def test_only_the_expected_version_is_changed(self, store: Store) -> None:
        version = await verbs.put_job(store, REPORT, Origin.API, "me", expected=0)
        changed = JobSpec(name="report", argv=("false",))
        with pytest.raises(Conflict, match="look at it again"):
            await verbs.put_job(store, changed, Origin.API, "me", expected=version + 1)
        assert (await job(store)).spec == REPORT
        await verbs.put_job(store, changed, Origin.API, "me", expected=version)
        assert (await job(store)).spec == changed

    async def test_after_must_exist_and_must_not_go_in_a_circle(self, store: Store) -> None:
        with pytest.raises(Invalid, match='comes after "nobody", and there is no such job'):
            await put(store, JobSpec(name="report", argv=("true",), after=("nobody",)))
        await put(store, JobSpec(name="a", argv=("true",)))
        await put(store, JobSpec(name="b", argv=("true",), after=("a",)))
        with pytest.raises(Invalid, match="a after b after a; break it"):
            await put(store, JobSpec(name="a", argv=("true",), after=("b",)))


class TestSwitch:
    async def test_enabling_counts_from_now(self, store: Store) -> None:
        await put(store)
        await verbs.disable(store, "report", "me")
        off = await job(store)
        await verbs.enable(store, "report", "you")
        on = await job(store)
        assert (off.enabled, on.enabled, on.by) == (False, True, "you")
        assert on.since >= off.since

    async def test_no_such_job(self, store: Store) -> None:
        with pytest.raises(NotFound, match='no job "report"'):
            await verbs.enable(store, "report", "me")


class TestRuns:
    async def test_run_now_makes_one_for_each_payload(self, store: Store) -> None:
        await put(store)
        ids = await verbs.run_now(store, "report", "me", payloads=[{"n": 1}, {"n": 2}])
        runs = [await live(store, id) for id in ids]
        assert [run.payload for run in runs] == [{"n": 1}, {"n": 2}]
        assert {(run.cause, run.by, run.state, run.retries_left) for run in runs} == {
            (Cause.MANUAL, "me", RunState.PENDING, 2)
        }

    async def test_many_at_once(self, store: Store) -> None:
        await put(store)
        ids = await verbs.run_now(store, "report", "me", payloads=[None] * 120)
        assert len({*ids}) == 120
        assert len((await store.scan(keys.LIVE_RUNS)).entries) == 120

    async def test_payloads_may_be_large_but_not_huge(self, store: Store) -> None:
        await put(store)
        ids = await verbs.run_now(store, "report", "me", payloads=["x" * 60_000] * 40)
        assert len((await live(store, ids[-1])).payload) == 60_000
        with pytest.raises(Invalid, match="more than 65536 bytes; hand large input over by reference"):
            await verbs.run_now(store, "report", "me", payloads=["x" * 80_000])

    async def test_one_that_waits_is_interrupted_at_once_and_can_be_done_again(self, store: Store) -> None:
        await put(store)
        (id,) = await verbs.run_now(store, "report", "me", payloads=["x"])
        with pytest.raises(Invalid, match="is not over"):
            await verbs.restart(store, id, "me")
        assert (await verbs.interrupt(store, id, "enough", "me")).state is RunState.INTERRUPTED
        assert await store.get(keys.live_run(id)) is None
        again = await live(store, await verbs.restart(store, id, "you"))
        old = await over(store, id)
        assert (again.cause, again.of, again.payload, again.due) == (Cause.RESTART, id, "x", old.due)
        with pytest.raises(Invalid, match="over already"):
            await verbs.interrupt(store, id, "enough", "me")

    async def test_one_that_is_bound_is_marked_and_keeps_its_epoch(self, store: Store) -> None:
        await put(store)
        (id,) = await verbs.run_now(store, "report", "me")
        bound = RunRecord(**{**_fields(await live(store, id)), "state": RunState.DISPATCHED, "node": "n"})
        epoch = await store.commit(Put(keys.live_run(id), codec.encode(bound)))
        told = await verbs.interrupt(store, id, "enough", "me")
        assert (told.state, told.stop, told.epoch) == (RunState.DISPATCHED, "enough (me)", epoch)
        assert await live(store, id) == told

    async def test_only_what_is_over_is_deleted(self, store: Store) -> None:
        await put(store)
        (id,) = await verbs.run_now(store, "report", "me")
        with pytest.raises(Invalid, match="interrupt it first"):
            await verbs.delete_run(store, id)
        await verbs.interrupt(store, id, "", "me")
        await verbs.delete_run(store, id)
        with pytest.raises(NotFound):
            await verbs.delete_run(store, id)

    async def test_backfill_makes_what_is_missing_once(self, store: Store) -> None:
        await put(store, JobSpec(name="report", argv=("true",), every=HOUR))
        now = await store.now()
        cursor = Put(keys.job_cursor("report"), codec.encode(JobCursor(upto=now)))
        await store.commit(cursor)
        span = now - 3 * HOUR, now
        with pytest.raises(Invalid, match="may have run before"):
            await verbs.backfill(store, "report", *span, "me")
        with pytest.raises(Invalid, match="may have run before"):
            await verbs.preview_backfill(store, "report", *span)
        assert len(await verbs.preview_backfill(store, "report", *span, is_forced=True)) == 3
        made = await verbs.backfill(store, "report", *span, "me", is_forced=True)
        assert len(made) == 3
        assert {(await live(store, id)).cause for id in made} == {Cause.BACKFILL}
        assert await verbs.backfill(store, "report", *span, "me") == []

    async def test_of_two_backfills_at_once_the_later_leaves_the_result_of_the_earlier(self, store: Store) -> None:
        await put(store, JobSpec(name="report", argv=("true",), every=HOUR))
        now = await store.now()
        slow = Overtaken(store, lambda: self._run_all(store, now))
        assert await verbs.backfill(slow, "report", now - 3 * HOUR, now, "me") == []
        assert slow.refused == 1
        assert not (await store.scan(keys.LIVE_RUNS)).entries

    async def _run_all(self, store: Store, now: datetime) -> None:
        for id in await verbs.backfill(store, "report", now - 3 * HOUR, now, "you"):
            await verbs.interrupt(store, id, "", "you")  # over is over, however it ended

    async def test_the_run_of_a_missed_due_time_takes_the_place_of_its_record(self, store: Store) -> None:
        await put(store, JobSpec(name="report", argv=("true",), every=HOUR))
        now = await store.now()
        due = now.replace(minute=0, second=0, microsecond=0)
        skipped = Skipped(first=due - HOUR, last=due, count=2)
        missed = new_run(JobSpec(name="report", every=HOUR), due, Cause.SCHEDULE, now)
        missed = msgspec.structs.replace(missed, state=RunState.MISSED, skipped=skipped, ended=now)
        cursor = Put(keys.job_cursor("report"), codec.encode(JobCursor(upto=due)))
        await store.commit(cursor, Put(keys.run(missed.id), codec.encode(missed)))
        made = await verbs.backfill(store, "report", due - HOUR, due, "me")
        assert len(made) == 2
        assert made[-1] == missed.id
        assert await store.get(keys.run(missed.id)) is None
        assert (await live(store, missed.id)).skipped == skipped


class Overtaken:
    """A store whose first commit arrives after `meanwhile`."""

    def __init__(self, store: Store, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        try:
            return await self._store.commit(*writes, expect=expect)
        except Conflict:
            self.refused += 1
            raise


async def test_a_deleted_job_leaves_its_history(store: Store) -> None:
    await put(store)
    (id,) = await verbs.run_now(store, "report", "me")
    await verbs.interrupt(store, id, "", "me")
    await verbs.delete_job(store, "report")
    assert await store.get(keys.job("report")) is None
    assert (await over(store, id)).state is RunState.INTERRUPTED
    with pytest.raises(NotFound):
        await verbs.run_now(store, "report", "me")


def _fields(run: RunRecord) -> dict[str, object]:
    return {name: getattr(run, name) for name in run.__struct_fields__}
