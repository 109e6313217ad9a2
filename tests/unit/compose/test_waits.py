"""The leader tells of what waits too long, once, and when that is over."""

import asyncio
from datetime import timedelta
from typing import Any

from rota.compose.waits import report_waits
from rota.fleet.events.event_log import read
from rota.fleet.leading.term import Term
from rota.jobs.core.records import Cause, JobRecord, JobSpec, Origin, RunRecord, RunState
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.ids import NodeId, SessionId
from rota.placement.fleet.placing import Placing
from rota.resources.core.records import ResourceStatus
from rota.sim.world import EPOCH
from rota.store import Delete, Put, Store
from rota.streams.core.records import StreamStatus
from tests.kit.elections import play
from tests.kit.relay_reports import Nodes

CONFIG = SupervisorConfig(lag_limit=100)
STATUS = ResourceStatus(
    ID="1", Name="1", AssignedNode="", CreationTime=0, kind="room", replicas=1, assigned=0, pending="no node has room"
)
SUBJECTS = [("resource.waits", "room/1"), ("stream.lags", "clicks"), ("run.waits", "report/1")]
ENDS = [("resource.wait_over", "room/1"), ("stream.lag_over", "clicks"), ("run.wait_over", "report/1")]


async def told(store: Store) -> list[tuple[str, str]]:
    return [(event.kind, event.subject) for event in (await read(store, limit=100)).events]


async def wait(store: Store, *, is_waiting: bool) -> None:
    """A resource lacks tasks, a stream lags, and a run gets no node; or not."""
    status = replace(STATUS, assigned=0 if is_waiting else 1)
    stream = StreamStatus(stream="clicks", since=EPOCH, lag=101 if is_waiting else 100)
    run = RunRecord(
        id="report/1", job="report", due=await store.now(), cause=Cause.MANUAL, created=await store.now(),
        **({} if is_waiting else {"state": RunState.RUNNING, "node": NodeId("a"), "session": SessionId("a")}),
    )  # fmt: skip
    await store.commit(
        Put(keys.resource_status("room", "1"), codec.encode(status)),
        Put(keys.resource_status("stream:clicks", "g1"), codec.encode(status)),
        Put(keys.STREAM_STATUS + "clicks", codec.encode(stream)),
        Put(keys.live_run(run.id), codec.encode(run)),
    )


def lead(name: str, placing: Placing):
    async def act(term: Term) -> None:
        await report_waits(term, NodeId(name), placing)

    return act


def test_what_waits_too_long_is_told_once_also_by_another_leader_and_so_is_its_end() -> None:
    async def story(store: Store, node: Nodes) -> None:
        first = node("a", lead("a", Placing(CONFIG)))
        await wait(store, is_waiting=True)
        await asyncio.sleep(280)
        assert await told(store) == []
        await asyncio.sleep(40)
        assert await told(store) == SUBJECTS[:2]
        await asyncio.sleep(300)
        assert await told(store) == SUBJECTS
        node("b", lead("b", Placing(CONFIG)))
        first.cancel()
        await asyncio.sleep(700)
        assert await told(store) == SUBJECTS, "what was told is not told again"
        await wait(store, is_waiting=False)
        await asyncio.sleep(15)
        assert sorted(await told(store)) == sorted([*SUBJECTS, *ENDS])
        assert not (await store.scan(keys.EPISODES)).entries
        await asyncio.sleep(700)
        assert len(await told(store)) == 6

    play(story)


def test_what_waits_for_a_short_time_or_is_switched_off_is_not_told() -> None:
    async def story(store: Store, node: Nodes) -> None:
        placing = Placing(CONFIG)
        node("a", lead("a", placing))
        for _ in range(4):
            await wait(store, is_waiting=True)
            await asyncio.sleep(200)
            await wait(store, is_waiting=False)
            await asyncio.sleep(20)
        assert await told(store) == []
        none = timedelta()
        placing.change(SupervisorConfig(pending_after=none, run_after=none, lag_after=none, lag_limit=1))
        await wait(store, is_waiting=True)
        await asyncio.sleep(2000)
        assert await told(store) == []

    play(story)


def test_the_end_of_what_is_gone_is_told_too() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", lead("a", Placing(CONFIG)))
        await wait(store, is_waiting=True)
        await asyncio.sleep(700)
        await store.commit(
            Delete(keys.resource_status("room", "1")),
            Delete(keys.STREAM_STATUS + "clicks"),
            Delete(keys.live_run("report/1")),
        )
        await asyncio.sleep(15)
        assert sorted(await told(store)) == sorted([*SUBJECTS, *ENDS])

    play(story)


def test_a_run_that_waits_for_its_jobs_own_limit_is_not_told_until_it_waits_for_a_node() -> None:
    async def story(store: Store, node: Nodes) -> None:
        now = await store.now()

        def run(name: str, **more: Any) -> Put:
            record = RunRecord(id=name, job="report", due=now, cause=Cause.MANUAL, created=now, **more)
            return Put(keys.live_run(name), codec.encode(record))

        job = JobRecord(spec=JobSpec(name="report"), origin=Origin.API, since=now, at=now)
        first = run("report/1", state=RunState.RUNNING, node=NodeId("a"), session=SessionId("a"))
        await store.commit(Put(keys.job("report"), codec.encode(job)), first, run("report/2"), run("report/3"))
        node("a", lead("a", Placing(CONFIG)))
        await asyncio.sleep(2000)
        assert await told(store) == []
        await store.commit(Delete(keys.live_run("report/1")))
        await asyncio.sleep(500)
        assert await told(store) == [], "they have waited for a node since then only"
        await asyncio.sleep(200)
        assert await told(store) == [("run.waits", "report/2"), ("run.waits", "report/3")]
        await store.commit(run("report/2", state=RunState.RUNNING, node=NodeId("a"), session=SessionId("a")))
        await asyncio.sleep(20)
        assert (await told(store))[2:] == [("run.wait_over", "report/2"), ("run.wait_over", "report/3")]

    play(story)
