"""Keeping declared jobs, and clearing away what is old or undeclared."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from unittest.mock import Mock

from rota.jobs.core.declared import DeclarationOwner
from rota.jobs.core.records import Cause, JobRecord, JobSpec, Origin, RunRecord, RunState, run_id
from rota.jobs.fleet import verbs
from rota.jobs.fleet.declared import Undeclared, Written, keep_declared_jobs
from rota.jobs.fleet.retention import OldRuns
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.node import NodeStatus
from rota.store import Put, Store, open_store
from tests.kit.virtual_trials import CLOCK

SHOP, ME = DeclarationOwner(Origin.APP, "shop"), NodeId("n")


async def names(store: Store) -> list[str]:
    return [entry.key.removeprefix(keys.JOBS) for entry in (await store.scan(keys.JOBS)).entries]


def command(name: str, **options: object) -> JobSpec:
    return JobSpec(name=name, argv=("true",), **options)  # type: ignore[arg-type]  # as the test says


def test_what_is_declared_is_written_now_and_when_it_changes_and_misfits_are_told() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            declared: list[JobSpec] = [command("b", after=("a",)), command("a"), command("odd", after=("nobody",))]
            told: list[tuple[str, str]] = []

            def now() -> tuple[DeclarationOwner, Sequence[JobSpec]]:
                return SHOP, tuple(declared)

            def tell(kind: str, subject: str, **_: object) -> None:
                told.append((kind, subject))

            keeping = asyncio.create_task(keep_declared_jobs(store, ME, "/i", now, tell, Written()))
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
            keeping = asyncio.create_task(keep_declared_jobs(store, ME, "/i", lambda: declared, tell, Written()))
            await asyncio.sleep(3)
            assert not keeping.done()
            assert await names(store) == ["a", "odd"]
            assert told == [("job.refused", "odd")]
            await Undeclared(store, tell).look()
            keeping.cancel()

    virtual.run(story())


async def kept(
    store: Store, owner: DeclarationOwner, written: Written, *jobs: JobSpec, incarnation: str = "/i"
) -> None:
    """One session of a node that declares these jobs; it ends after a while."""
    tell = Mock()
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            await keep_declared_jobs(store, NodeId(owner.name), incarnation, lambda: (owner, jobs), tell, written)


async def retries(store: Store, name: str) -> int:
    entry = await store.get(keys.job(name))
    assert entry is not None
    return codec.decode(JobRecord, entry.value).spec.retries


def test_a_node_that_lost_its_session_does_not_put_its_older_declarations_back() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            old, new = Written(), Written()
            await kept(store, SHOP, old, command("a", retries=1), command("b"))
            await kept(store, SHOP, new, command("a", retries=2), command("b"))
            await verbs.delete_job(store, "b")
            await kept(store, SHOP, old, command("a", retries=1), command("b"))
            assert await retries(store, "a") == 2
            assert await names(store) == ["a", "b"], "what is gone is added again"
            await kept(store, SHOP, old, command("a", retries=1), command("b"), incarnation="/restored")
            assert await retries(store, "a") == 1, "a restored store has what was declared long ago"
            await kept(store, SHOP, old, command("a", retries=3), command("b"))
            assert await retries(store, "a") == 3, "it has loaded anew"

    virtual.run(story())


def test_a_job_of_a_file_that_was_refused_is_taken_over_when_its_name_is_free() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            n1, n2, told = DeclarationOwner(Origin.FILE, "n1"), DeclarationOwner(Origin.FILE, "n2"), Mock()
            await kept(store, n1, Written(), command("a"))
            declared = n2, (command("a"),)
            other = keep_declared_jobs(store, NodeId("n2"), "/i", lambda: declared, told, Written())
            keeping = asyncio.create_task(other)
            await asyncio.sleep(150)
            assert told.call_count == 1
            await kept(store, n1, Written())
            assert await names(store) == []
            await asyncio.sleep(90)
            assert await names(store) == ["a"]
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
