"""Keeping declared jobs, and clearing away what is old or undeclared."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from rota.control.jobs import verbs
from rota.control.jobs.declared import Undeclared, keep_declared_jobs
from rota.control.jobs.retention import OldRuns
from rota.decide.jobs.declared import Owner
from rota.kit import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.job import Cause, JobRecord, Origin, RunRecord, RunState, WantedJob, run_id
from rota.model.node import NodeStatus
from rota.store import Put, Store, open_store
from tests.kit.virtual_trials import CLOCK

SHOP, ME = Owner(Origin.APP, "shop"), NodeId("n")


async def names(store: Store) -> list[str]:
    return [entry.key.removeprefix(keys.JOBS) for entry in (await store.scan(keys.JOBS)).entries]


def command(name: str, **options: object) -> WantedJob:
    return WantedJob(name=name, argv=("true",), **options)  # type: ignore[arg-type]  # as the test says


def test_what_is_declared_is_written_now_and_when_it_changes_and_misfits_are_told() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            declared: list[WantedJob] = [command("b", after=("a",)), command("a"), command("odd", after=("nobody",))]
            told: list[tuple[str, str]] = []

            def now() -> tuple[Owner, Sequence[WantedJob]]:
                return SHOP, tuple(declared)

            def tell(kind: str, subject: str, **_: object) -> None:
                told.append((kind, subject))

            keeping = asyncio.create_task(keep_declared_jobs(store, ME, now, tell))
            await asyncio.sleep(3)
            assert await names(store) == ["a", "b"]
            await verbs.disable(store, "a", "me")
            declared[1] = command("a", retries=3)
            await asyncio.sleep(2)
            entry = await store.get(keys.job("a"))
            assert entry is not None
            record = codec.decode(JobRecord, entry.value)
            assert (record.spec.retries, record.enabled, record.app) == (3, False, "shop")
            assert told == [("job.refused", "odd")], "once, not at each look"
            keeping.cancel()

    virtual.run(story())


def test_a_job_that_a_newer_rota_wrote_stops_nobody() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            await store.commit(Put(keys.job("odd"), b'{"v": 99}'))
            told: list[tuple[str, str]] = []

            def tell(kind: str, subject: str, **_: object) -> None:
                told.append((kind, subject))

            declared = SHOP, (command("a"), command("odd"))
            keeping = asyncio.create_task(keep_declared_jobs(store, ME, lambda: declared, tell))
            await asyncio.sleep(3)
            assert not keeping.done()
            assert await names(store) == ["a", "odd"]
            assert told == [("job.refused", "odd")]
            await Undeclared(store, tell).look()
            keeping.cancel()

    virtual.run(story())


async def test_what_no_app_declares_any_more_goes_at_the_second_look() -> None:
    async with open_store("memory://") as store:
        for name in ("a", "b"):
            await verbs.put_job(store, command(name), Origin.APP, "n", app="shop")
        await store.commit(Put(keys.status(ME), codec.encode(_status("shop", ["a"]))))
        told: list[str] = []
        chore = Undeclared(store, lambda kind, subject, **_: told.append(f"{kind} {subject}"))
        await chore.look()
        assert await names(store) == ["a", "b"]
        await chore.look()
        assert await names(store) == ["a"]
        assert told == ["job.removed b"]


async def test_old_runs_go_job_by_job() -> None:
    async with open_store("memory://") as store:
        now = await store.now()
        for job, count in (("a", 7), ("a.b", 3), ("c", 5)):
            for number in range(count):
                due = now - number * timedelta(hours=1)
                run = RunRecord(
                    id=run_id(job, due), job=job, due=due, cause=Cause.SCHEDULE, created=due, state=RunState.SUCCEEDED
                )
                await store.commit(Put(keys.run(run.id), codec.encode(run)))
        old = OldRuns(store, most=4, keep=timedelta(hours=2, minutes=30))
        gone = await old.visit(now)
        left = [entry.key.split("/")[2] for entry in (await store.scan(keys.RUNS)).entries]
        assert {job: left.count(job) for job in {*left}} == {"a": 3, "a.b": 3, "c": 3}
        assert len(gone) == 15 - 9
        assert await old.visit(now) == []


def _status(app: str, jobs: list[str]) -> NodeStatus:
    return NodeStatus(
        app=app, generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0, jobs=jobs
    )
