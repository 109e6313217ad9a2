"""Steps and the commits they go in."""

from datetime import UTC, datetime

import msgspec

from rota.jobs.core.records import Cause, RunRecord
from rota.jobs.fleet.view import JobsView
from rota.jobs.fleet.writing import Step, StepWriter
from rota.model import keys
from rota.store import Absent, At, Delete, Put, Store, incarnation, open_store
from tests.kit.virtual_trials import CLOCK

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def run(number: int) -> RunRecord:
    return RunRecord(id=f"a/{number:04d}", job="a", due=NOW, cause=Cause.MANUAL, created=NOW)


def step(number: int) -> Step:
    key = keys.live_run(run(number).id)
    return Step({key: run(number)}, (Absent(key),), number)


async def writer(store: Store) -> StepWriter:
    return StepWriter(store, await incarnation.current(store, CLOCK), JobsView())


async def test_many_steps_go_in_few_commits() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        before = await store.revision()
        written = await writing.write(step(number) for number in range(250))
        assert len(written) == 250
        assert await store.revision() == before + 3
        assert len((await store.scan(keys.LIVE_RUNS)).entries) == 250


async def test_no_commit_is_larger_than_a_store_takes() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        large = [msgspec.structs.replace(run(number), payload="x" * 60_000) for number in range(40)]
        steps = [Step({keys.live_run(each.id): each}, ()) for each in large]
        assert len(await writing.write(steps)) == 40


async def test_one_that_was_overtaken_does_not_take_the_others_with_it() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        await store.commit(Put(keys.live_run(run(3).id), b"{}"))
        written = await writing.write(step(number) for number in range(6))
        assert [each.about for each in written] == [0, 1, 2, 4, 5]


async def test_steps_of_the_same_key_go_one_after_the_other() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        key = keys.live_run(run(1).id)
        assert len(await writing.write([step(1), Step({key: None}, ())])) == 2


async def test_nothing_is_written_into_another_incarnation() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        (entry,) = (await store.scan(keys.INCARNATIONS)).entries
        await store.commit(Delete(entry.key), expect=[At(entry.key, entry.modified)])
        assert await writing.write([step(1)]) == {}


async def test_what_was_written_is_in_the_view() -> None:
    async with open_store("memory://") as store:
        view = JobsView()
        writing = StepWriter(store, await incarnation.current(store, CLOCK), view)
        (revision,) = (await writing.write([step(1)])).values()
        assert view.live[run(1).id].modified == revision


async def test_steps_are_told_of_as_soon_as_their_own_commit_is_made() -> None:
    async with open_store("memory://") as store:
        writing = await writer(store)
        told: list[int] = []
        await store.commit(Put(keys.live_run(run(120).id), b"{}"))
        written = await writing.write((step(number) for number in range(250)), lambda done: told.append(len(done)))
        assert told == [100, 99, 50]
        assert len(written) == 249
