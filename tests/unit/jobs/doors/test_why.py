"""Why runs wait, by what is in the store: the decisions of the nodes, made once more."""

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from rota.jobs.core.records import RunRecord, RunState
from rota.jobs.doors import run_operations
from rota.jobs.doors import why as job_why
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import NotFound
from rota.model.ids import NodeId, SessionId
from rota.model.node import Node, NodeLoad
from rota.resources.core.records import Cordon
from rota.store import Put, Store, open_store
from tests.kit.fleet_records import join
from tests.kit.jobs import add


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


async def worker(store: Store, name: str = "a", executors: int = 2, **labels: str) -> None:
    await join(store, name)
    entry = await store.get(keys.node(NodeId(name)))
    assert entry is not None
    node = replace(codec.decode(Node, entry.value), executors=executors, labels=labels)
    await store.commit(Put(entry.key, codec.encode(node)))


async def start(store: Store) -> str:
    return (await run_operations.run_job(store, "backup", by="me")).id


async def bind(store: Store, run: str, node: str = "a") -> None:
    """A node takes a run."""
    entry = await store.get(keys.live_run(run))
    assert entry is not None
    taken = msgspec.structs.replace(
        codec.decode(RunRecord, entry.value),
        state=RunState.RUNNING,
        node=NodeId(node),
        session=SessionId(f"s-{node}"),
    )
    await store.commit(Put(entry.key, codec.encode(taken)))


async def reasons(store: Store, run: str) -> tuple[str, ...]:
    return (await job_why.why_run(store, run)).reasons


async def test_a_run_waits_for_the_limit_of_its_job(store: Store) -> None:
    await worker(store)
    await add(store, concurrency=1)
    first, second, third = [await start(store) for _ in range(3)]
    await bind(store, first)
    assert (await job_why.why_run(store, first)).says == "it is running on a, attempt 1"
    limit = "1 of it run already, and that is its limit"
    assert await reasons(store, second) == (limit,)
    assert await reasons(store, third) == (limit, "1 runs of its job were due before it")
    page = await job_why.explained(store, await run_operations.list_runs(store))
    assert {view.id: view.why.partition(";")[0] for view in page.runs} == {first: "", second: limit, third: limit}
    assert (await job_why.why_job(store, "backup")).reasons[-1] == f"a run of it gets no node now: {limit}"


async def test_a_run_waits_for_a_node_that_has_its_labels_is_open_and_has_an_executor_free(store: Store) -> None:
    await add(store, labels={"disk": "ssd"})
    run = await start(store)
    await worker(store, "a", disk="hdd")
    (why,) = await reasons(store, run)
    assert why == 'no node can run it; a: its label disk is "hdd", and the job wants "ssd"'
    await worker(store, "b", disk="ssd")
    held = await job_why.why_run(store, run)
    assert (held.reasons, held.says.startswith("nothing holds it back")) == ((), True)
    load = NodeLoad(score=50, cpu=0.5, memory=0.5, executors=2, executors_used=2)
    await store.commit(Put(keys.node_load(NodeId("b")), codec.encode(load)))
    assert await reasons(store, run) == ("no executor is free on b",)
    cordon = Cordon(node=NodeId("b"), since=await store.now())
    await store.commit(Put(keys.cordon(cordon.node), codec.encode(cordon)))
    assert await reasons(store, run) == ("the nodes that can run it take nothing now; b: it is cordoned",)


async def test_a_run_waits_for_its_back_off(store: Store) -> None:
    await worker(store)
    await add(store)
    run = await start(store)
    entry = await store.get(keys.live_run(run))
    assert entry is not None
    later = await store.now() + timedelta(hours=1)
    delayed = msgspec.structs.replace(codec.decode(RunRecord, entry.value), attempt=2, not_before=later)
    await store.commit(Put(entry.key, codec.encode(delayed)))
    (why,) = await reasons(store, run)
    assert why.startswith("attempt 2 is held back after the one before until ")


async def test_no_more_runs_are_read_than_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_why, "LOOKED", 2)
    await worker(store)
    await add(store, concurrency=2)
    runs = [await start(store) for _ in range(4)]
    for run in sorted(runs)[:2]:
        await bind(store, run)
    assert await reasons(store, sorted(runs)[-1]) == ("2 of it run already, and that is its limit",)


async def test_what_there_is_not_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await job_why.why_run(store, "backup/1")
    with pytest.raises(NotFound):
        await job_why.why_job(store, "backup")
