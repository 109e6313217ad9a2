"""What can be asked about jobs and runs: as operations, and over HTTP and gRPC."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc import transcode
from rota.doors.grpc.methods import GrpcCall, Method, StreamingMethod
from rota.doors.grpc.pb import jobs_pb2 as pb
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.jobs.core.outcome import bind, lose, release
from rota.jobs.core.records import Cause, JobSpec, Origin, Outcome, RunRecord, RunState, Try, run_id
from rota.jobs.doors import operations as job_operations
from rota.jobs.doors import reading as job_reading
from rota.jobs.doors import run_listing, run_operations, run_output
from rota.jobs.fleet import verbs
from rota.jobs.logs.folder import FolderLogs
from rota.jobs.logs.port import LogChunk, Logs
from rota.link.records import AttemptId, LogPiece
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import NodeId, Revision, SessionId
from rota.store import Delete, Put, Store, open_store
from tests.kit.http_caller import CLOCK, Caller
from tests.kit.http_door import GATE
from tests.kit.jobs import BACKUP, HOUR, NOON, add, over
from tests.kit.relay_records import count

YEAR = {"first": "2026-01-01T00:00Z", "last": "2026-12-31T00:00Z"}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return FolderLogs(tmp_path)


@pytest.fixture
def behind(store: Store, logs: Logs) -> NodeBackend:
    return NodeBackend(lambda: store, CLOCK, Watches(), count, lambda: logs)


@pytest.fixture
def ask(behind: NodeBackend) -> Caller:
    return Caller(
        door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=GATE, more=resources.routes(behind), clock=CLOCK)
    )


async def declare(store: Store, name: str = "report") -> None:
    """A job of an app."""
    await verbs.put_job(store, JobSpec(name=name, every=HOUR), Origin.APP, "n1", app="shop")


# Jobs


async def test_a_job_is_added_shown_changed_and_deleted(store: Store) -> None:
    await add(store)
    view = await job_operations.get_job(store, "backup")
    assert (view.schedule, view.enabled, view.origin, view.by) == ("0 3 * * * UTC", True, "api", "me")
    assert view.spec == {"cron": "0 3 * * *", "tz": "UTC", "concurrency": 1, "argv": ["pg_dump", "shop"]}
    assert view.next is not None
    assert (view.next.hour, view.next.minute) == (3, 0)
    again = await job_operations.put_job(store, {"name": "backup", **view.spec}, by="me", version=view.version)
    assert again.version == view.version
    changed = await job_operations.put_job(store, {**BACKUP, "cron": "@daily"}, by="you", version=view.version)
    assert changed.schedule == "0 0 * * * UTC"
    with pytest.raises(Conflict, match="look at it again"):
        await job_operations.put_job(store, BACKUP, by="me", version=view.version)
    await job_operations.delete_job(store, "backup", by="me")
    with pytest.raises(NotFound, match='there is no job "backup"'):
        await job_operations.get_job(store, "backup")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cron": "61 * * * *"}, "minutes are 0-59"),
        ({"tz": "Mars/Olympus"}, "Mars/Olympus"),
        ({"every": "1h"}, "both cron= and every="),
        ({"argv": []}, "write the program"),
        ({"argv": None}, "give argv"),
        ({"after": ["nothing"], "cron": None}, 'comes after "nothing", and there is no such job'),
        ({"colour": "red"}, 'there is no field "colour"'),
        ({"retry": 3}, 'did you mean "retries"'),
        ({"name": "a b"}, "name"),
        ({"name": None}, "a job needs a name"),
        ({"argv": None, "cwd": "/"}, "outside of apps a job runs a program, so give argv"),
    ],
)
async def test_a_bad_job_is_refused_before_anything_is_stored(store: Store, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        await add(store, **fields)
    assert (await store.scan("/")).entries == ()


async def test_jobs_that_come_after_each_other_in_a_circle_are_refused(store: Store) -> None:
    await add(store, name="a")
    await add(store, name="b", cron=None, after=["a"])
    with pytest.raises(Invalid, match="circle"):
        await add(store, name="a", cron=None, after=["b"])
    assert (await job_operations.get_job(store, "a")).schedule == "0 3 * * * UTC"


async def test_a_declared_job_is_changed_where_it_is_declared(store: Store) -> None:
    await declare(store)
    for change in (add(store, name="report"), job_operations.delete_job(store, "report", by="me")):
        with pytest.raises(Conflict, match='belongs to app "shop"; change it there, or switch it off'):
            await change
    off = await job_operations.disable_job(store, "report", by="me")
    assert (off.enabled, off.next) == (False, None)
    on = await job_operations.enable_job(store, "report", by="me")
    assert (on.enabled, on.next is None) == (True, False)


async def test_jobs_are_listed_in_pages(store: Store) -> None:
    for name in ("a", "b", "c"):
        await declare(store, name)
    await over(store, "b", NOON, RunState.FAILED)
    first = await job_operations.list_jobs(store, limit=2)
    assert [job.name for job in first.jobs] == ["a", "b"]
    assert first.jobs[1].last is not None
    assert first.jobs[1].last.state is RunState.FAILED
    second = await job_operations.list_jobs(store, limit=2, token=first.next)
    assert ([job.name for job in second.jobs], second.next) == (["c"], None)
    assert [job.name for job in (await job_operations.list_jobs(store, prefix="b")).jobs] == ["b"]


async def test_due_times_to_come_are_shown_with_what_is_odd(store: Store) -> None:
    await add(store, cron="30 2 * * *", tz="Europe/Berlin")
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    due = await job_operations.preview_job(store, "backup", count=2, after=before)
    assert [each.local.isoformat() for each in due] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert "clocks jump" in due[0].odd
    with pytest.raises(Invalid, match="from 1 to 1000"):
        await job_operations.preview_job(store, "backup", count=0)


@pytest.mark.parametrize("field", ["every", "jitter", "timeout"])
async def test_a_duration_that_leaves_the_calendar_is_refused(store: Store, field: str) -> None:
    timing = {} if field == "every" else {"cron": "0 3 * * *"}
    with pytest.raises(Invalid, match=f"{field} is 9999999d; it must be 36500d or less"):
        await job_operations.put_job(store, {"name": "a", "argv": ["x"], **timing, field: "9999999d"}, by="me")


# Runs


async def test_a_run_is_started_interrupted_and_done_again(store: Store, logs: Logs) -> None:
    await add(store)
    run = await run_operations.run_job(store, "backup", by="me", payload={"day": 1})
    assert (run.state, run.cause, run.by, run.payload) == (RunState.PENDING, Cause.MANUAL, "me", {"day": 1})
    assert (await run_operations.list_runs(store)).runs == (run,)
    stopped = await run_operations.interrupt_run(store, run.id, by="me", why="enough")
    assert (stopped.state, stopped.is_over) == (RunState.INTERRUPTED, True)
    with pytest.raises(Invalid, match="over already"):
        await run_operations.interrupt_run(store, run.id, by="me")
    again = await run_operations.restart_run(store, run.id, by="you")
    assert (again.of, again.payload, again.cause) == (run.id, {"day": 1}, Cause.RESTART)
    with pytest.raises(Invalid, match="is not over"):
        await run_operations.delete_run(store, logs, again.id)
    await logs.append([LogChunk(run.id, 1, 0, b"said\n", True)])
    await run_operations.delete_run(store, logs, run.id)
    assert await logs.read(run.id, 1) == b""
    with pytest.raises(NotFound, match="there is no run"):
        await run_operations.get_run(store, run.id)


@pytest.mark.parametrize("run", ["nothing", "backup/nothing", "", "a/b/c"])
async def test_a_run_that_there_is_not(store: Store, run: str) -> None:
    for asked in (run_operations.get_run(store, run), run_operations.restart_run(store, run, by="me")):
        with pytest.raises(NotFound, match="there is no run"):
            await asked


async def test_a_payload_has_a_limit(store: Store) -> None:
    await add(store)
    with pytest.raises(Invalid, match="at most 65536"):
        await run_operations.run_job(store, "backup", by="me", payload="x" * 70_000)


async def test_who_waits_is_told_when_the_run_is_over(store: Store) -> None:
    await add(store)
    run = await run_operations.run_job(store, "backup", by="me")
    waiting = asyncio.create_task(run_operations.await_run(store, run.id, timedelta(seconds=20)))
    entry = await store.get(keys.live_run(run.id))
    assert entry is not None
    record = codec.decode(RunRecord, entry.value)
    ended = replace(record, state=RunState.SUCCEEDED, ended=NOON, outcome=Outcome(state=RunState.SUCCEEDED))
    await store.commit(Delete(entry.key), Put(keys.run(run.id), codec.encode(ended)))
    assert (await waiting).state is RunState.SUCCEEDED
    patience = await run_operations.run_job(store, "backup", by="me", wait=timedelta(milliseconds=50))
    assert patience.state is RunState.PENDING


async def test_a_request_with_an_idempotency_key_starts_one_run_however_often_it_is_asked(store: Store) -> None:
    await add(store)
    start = partial(run_operations.run_job, store, "backup", by="me")
    first = await start(payload={"n": 7}, key="order-7")
    assert await start(payload={"n": 7}, key="order-7") == first
    assert (await start(payload={"n": 7}, key="order-8")).id != first.id
    with pytest.raises(Conflict, match="was used for another request"):
        await start(payload={"n": 8}, key="order-7")
    with pytest.raises(Invalid, match="printable ASCII"):
        await start(key="a b")
    together = await asyncio.gather(*(start(key="order-9") for _ in range(4)))
    assert len({run.id for run in together}) == 1
    assert len((await run_operations.list_runs(store)).runs) == 3
    await run_operations.interrupt_run(store, first.id, by="me")
    assert (await start(payload={"n": 7}, key="order-7")).state is RunState.INTERRUPTED
    await verbs.delete_run(store, first.id)
    with pytest.raises(Conflict, match="has been deleted since"):
        await start(payload={"n": 7}, key="order-7")


async def test_runs_are_listed_from_the_newest_on_across_jobs_and_pages(store: Store) -> None:
    made = []
    for number in range(7):
        for job in ("a", "b", "c"):
            made.append(await over(store, job, NOON + number * HOUR))
    made.append(await over(store, "b", NOON + 3 * HOUR, more="by-hand"))
    for limit in (1, 2, 3, 5, 100):
        found, token = [], None
        while True:
            page = await run_operations.list_runs(store, limit=limit, token=token)
            found += [run.id for run in page.runs]
            token = page.next
            if token is None:
                break
        assert sorted(found) == sorted(made)
        dues = [run.partition("/")[2].partition("-")[0] for run in found]
        assert dues == sorted(dues, reverse=True)
    only = await run_operations.list_runs(store, job="b", limit=3)
    assert [run.id for run in only.runs] == [run_id("b", NOON + number * HOUR) for number in (6, 5, 4)]


async def test_runs_that_are_not_over_come_first_page_by_page(store: Store) -> None:
    for job in ("a", "b"):
        await job_operations.put_job(store, {"name": job, "argv": ["true"]}, by="me")
    living = {(await run_operations.run_job(store, job, by="me")).id for job in "ababa"}
    ended = [await over(store, "a", NOON + number * HOUR) for number in range(3)]
    for limit in (1, 2, 5, 6, 100):
        found, token = [], None
        while True:
            page = await run_operations.list_runs(store, limit=limit, token=token)
            assert len(page.runs) <= limit
            found += [run.id for run in page.runs]
            token = page.next
            if token is None:
                break
        assert set(found[:5]) == living
        assert found[5:] == ended[::-1]
    only = await run_operations.list_runs(store, job="b", states=["pending"])
    assert {run.id for run in only.runs} == {run for run in living if run.startswith("b/")}
    assert only.next is None


async def test_runs_are_listed_by_state(store: Store) -> None:
    await over(store, "a", NOON)
    failed = await over(store, "a", NOON + HOUR, RunState.FAILED)
    await over(store, "a", NOON + 2 * HOUR, RunState.TIMED_OUT)
    page = await run_operations.list_runs(store, states=["failed"])
    assert [run.id for run in page.runs] == [failed]
    assert page.runs[0].error == "no luck"
    assert len((await run_operations.list_runs(store, states=["failed", "timed-out"])).runs) == 2
    with pytest.raises(Invalid, match='state is "broken"; there are pending'):
        await run_operations.list_runs(store, states=["broken"])
    with pytest.raises(NotFound, match='there is no job "z"'):
        await run_operations.list_runs(store, job="z")


async def test_runs_are_listed_by_the_node_that_had_an_attempt_and_from_a_due_time_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_listing, "MOST_LOOKED_AT", 6)
    await add(store)
    waiting = (await run_operations.run_job(store, "backup", by="me")).id
    ended = [await over(store, job, NOON + number * HOUR) for number in range(4) for job in "ab"]

    async def listed(**wanted: Any) -> list[str]:
        found, token = list[str](), None
        while True:
            page = await run_operations.list_runs(store, token=token, **wanted)
            assert page.looked_at <= 6
            found, token = [*found, *(run.id for run in page.runs)], page.next
            if token is None:
                return found

    assert sorted(await listed(node="n1")) == sorted(ended)
    assert await listed(node="n9") == []
    assert sorted(await listed(since=NOON + 2 * HOUR)) == sorted([waiting, *ended[4:]])
    assert await listed(since=NOON + 3 * HOUR, job="b", node="n1") == [ended[7]]
    recent = await run_operations.list_runs(store, since=NOON + 3 * HOUR, job="b")
    assert (recent.looked_at, recent.next) == (1, None), "the history before it is not read"


async def test_a_run_is_listed_for_the_nodes_of_its_earlier_attempts(store: Store) -> None:
    moved = await over(store, "a", NOON)
    tried = Try(attempt=1, epoch=5, node=NodeId("n7"), outcome=Outcome(state=RunState.LOST), ended=NOON)
    record = replace(await job_reading.run_record(store, moved), attempt=2, earlier=(tried,))
    await store.commit(Put(keys.run(moved), codec.encode(record)))
    assert [run.id for run in (await run_operations.list_runs(store, node="n7")).runs] == [moved]


async def test_one_call_looks_at_so_many_runs_and_the_next_goes_on_behind_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_listing, "MOST_LOOKED_AT", 4)
    failed = [await over(store, job, NOON, RunState.FAILED) for job in "ab"]
    for number in range(1, 6):
        for job in "ab":
            await over(store, job, NOON + number * HOUR)
    await add(store)
    waiting = [(await run_operations.run_job(store, "backup", by="me")).id for _ in range(6)]
    for states, expected in ((["failed"], failed), (["failed", "pending"], [*waiting, *failed])):
        found, calls, token = list[str](), 0, None
        while calls == 0 or token is not None:
            page = await run_operations.list_runs(store, states=states, token=token)
            found, calls, token = [*found, *(run.id for run in page.runs)], calls + 1, page.next
            assert page.looked_at <= 4
        assert sorted(found) == sorted(expected)
        assert calls == 5


async def test_due_times_that_had_no_run_are_filled_in(store: Store) -> None:
    await add(store, cron="0 * * * *")
    await over(store, "backup", NOON - 2 * HOUR)
    span = NOON - 4 * HOUR, NOON - HOUR
    with pytest.raises(Invalid, match="2 of these due times"):
        await job_operations.preview_backfill(store, "backup", *span)
    with pytest.raises(Invalid, match="2 of these due times"):
        await job_operations.backfill_job(store, "backup", *span, by="me")
    lacking = await job_operations.preview_backfill(store, "backup", *span, is_forced=True)
    assert (await run_operations.list_runs(store, states=["pending"])).runs == ()
    made = await job_operations.backfill_job(store, "backup", *span, by="me", is_forced=True)
    assert list(made) == [run_id("backup", NOON - number * HOUR) for number in (4, 3, 1)]
    assert lacking == made
    assert await job_operations.preview_backfill(store, "backup", NOON - 4 * HOUR, NOON - HOUR) == ()
    with pytest.raises(Invalid, match="must not be before"):
        await job_operations.backfill_job(store, "backup", NOON, NOON - HOUR, by="me")
    with pytest.raises(Invalid, match="must not be before"):
        await job_operations.preview_backfill(store, "backup", NOON, NOON - HOUR)
    with pytest.raises(NotFound, match='there is no job "z"'):
        await job_operations.preview_backfill(store, "z", NOON, NOON)


# Output


async def test_output_is_read_in_pieces_and_followed_to_its_end(store: Store, logs: Logs) -> None:
    run = await over(store, "a", NOON)
    await logs.append([LogChunk(run, 1, 0, b"one\n"), LogChunk(run, 1, 4, b"two\n", True)])
    part = await run_output.read_log(store, logs, run, offset=2)
    assert (part.data, part.next, part.is_whole) == (b"e\ntwo\n", 8, True)
    async with aclosing(run_output.follow_log(store, logs, run)) as parts:
        assert b"".join([each.data async for each in parts]) == b"one\ntwo\n"
    with pytest.raises(NotFound, match="has no attempt 7"):
        await run_output.read_log(store, logs, run, attempt=7)
    with pytest.raises(Invalid, match="below zero"):
        await run_output.read_log(store, logs, run, offset=-1)


async def test_output_that_is_asked_for_far_behind_its_end_is_empty(store: Store, logs: Logs) -> None:
    run = await over(store, "a", NOON)
    await logs.append([LogChunk(run, 1, 0, b"one\n", True)])
    for offset in (2**53, 2**63 - 1):
        part = await run_output.read_log(store, logs, run, offset=offset)
        assert (part.data, part.next, part.is_whole) == (b"", offset, True)
    with pytest.raises(Invalid, match=r"nor above 2\^63 - 1"):
        await run_output.read_log(store, logs, run, offset=2**63)


async def test_output_of_a_run_that_is_over_is_whole_when_all_of_it_is_there(
    store: Store, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "POLL", 0.01)
    run = await over(store, "a", NOON)
    entry = await store.get(keys.run(run))
    assert entry is not None
    record = codec.decode(RunRecord, entry.value)
    assert record.outcome is not None
    said = replace(record, outcome=replace(record.outcome, log_bytes=8))
    await store.commit(Put(entry.key, codec.encode(said)))
    await logs.append([LogChunk(run, 1, 0, b"one\n")])
    assert not (await run_output.read_log(store, logs, run)).is_whole, "the rest is still under way"
    async with aclosing(run_output.follow_log(store, logs, run)) as parts:
        assert (await anext(parts)).data == b"one\n"
        await logs.append([LogChunk(run, 1, 4, b"two\n")])
        assert [each.data async for each in parts] == [b"two\n"]
    assert (await run_output.read_log(store, logs, run)).is_whole


async def test_output_that_grows_is_followed(store: Store, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_output, "POLL", 0.01)
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    await logs.append([LogChunk(run, 1, 0, b"one\n")])
    async with aclosing(run_output.follow_log(store, logs, run)) as parts:
        assert (await anext(parts)).data == b"one\n"
        coming = asyncio.ensure_future(anext(parts))
        await asyncio.sleep(0.05)
        assert not coming.done()
        await logs.append([LogChunk(run, 1, 4, b"two\n", True)])
        assert (await coming).data == b"two\n"


async def test_who_follows_output_waits_for_a_store_that_is_away_whatever_is_asked_of_it(
    store: Store, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "POLL", 0.01)
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    await logs.append([LogChunk(run, 1, 0, b"one\n")])
    asked, reads = run_output.run_record, itertools.count()

    async def every_other(store: Store, id: str) -> RunRecord:
        if next(reads) % 2:  # the second question of each round
            raise Unavailable("the store is away")
        return await asked(store, id)

    async with aclosing(run_output.follow_log(store, logs, run)) as parts:
        assert (await anext(parts)).data == b"one\n"
        monkeypatch.setattr(run_output, "run_record", every_other)
        coming = asyncio.ensure_future(anext(parts))
        await asyncio.sleep(0.1)
        assert not coming.done()
        await logs.append([LogChunk(run, 1, 4, b"two\n", True)])
        assert (await coming).data == b"two\n"


async def test_output_of_a_lost_attempt_is_never_called_whole(
    store: Store, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "LINGER", 0.0)
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    entry = await store.get(keys.live_run(run))
    assert entry is not None
    bound = bind(codec.decode(RunRecord, entry.value), NodeId("n"), SessionId("s"), NOON)
    for again in (replace(bound, lost_left=1), replace(bound, lost_left=-1)):
        lost = lose(again, Revision(5), NOON)
        await store.commit(
            *((Delete(entry.key), Put(keys.run(run), codec.encode(lost))) if lost.is_over else
              (Put(entry.key, codec.encode(lost)),))
        )  # fmt: skip
        await logs.append([LogChunk(run, 1, 0, b"one\n")])
        part = await run_output.read_log(store, logs, run, attempt=1)
        assert (part.data, part.is_whole) == (b"one\n", False)
        told = [each.data async for each in run_output.follow_log(store, logs, run, attempt=1)]
        assert told == [b"one\n"], "and who follows is not kept waiting"


class Elsewhere:
    """The logs of other nodes, and who was asked for what."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], bytes] = {}
        self.asked: list[tuple[str, int, int]] = []

    async def __call__(self, node: NodeId, attempt: AttemptId, offset: int) -> LogPiece:
        self.asked.append((node, attempt.number, offset))
        if (node, attempt.number) not in self.logs:
            raise Unavailable(f"the log of {attempt} is kept at node {node}, which does not answer")
        return LogPiece(self.logs[node, attempt.number][offset:], is_last=False)


async def bound_to(store: Store, run: str, node: str, **changes: object) -> RunRecord:
    """A run that lives, bound to a node."""
    entry = await store.get(keys.live_run(run))
    assert entry is not None
    record = replace(bind(codec.decode(RunRecord, entry.value), NodeId(node), SessionId("s"), NOON), **changes)
    await store.commit(Put(entry.key, codec.encode(record)))
    return record


async def test_output_is_read_at_the_node_that_has_it_unless_the_place_is_shared(store: Store, logs: Logs) -> None:
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    elsewhere = Elsewhere()
    part = await run_output.read_log(store, logs, run, log_at=elsewhere)
    assert (part.data, part.is_whole, elsewhere.asked) == (b"", False, []), "it is bound to no node yet"
    await bound_to(store, run, "n1")
    with pytest.raises(Unavailable, match="is kept at node n1"):
        await run_output.read_log(store, logs, run, log_at=elsewhere)
    elsewhere.logs["n1", 1] = b"one"
    part = await run_output.read_log(store, logs, run, offset=1, log_at=elsewhere)
    assert (part.data, part.next, part.is_whole) == (b"ne", 3, False)
    assert elsewhere.asked == [("n1", 1, 0), ("n1", 1, 1)]
    await logs.append([LogChunk(run, 1, 0, b"shared")])
    logs.is_shared = True
    assert (await run_output.read_log(store, logs, run, log_at=elsewhere)).data == b"shared"
    assert len(elsewhere.asked) == 2


async def test_each_attempt_is_read_at_its_own_node_and_one_that_moved_at_the_present_one(
    store: Store, logs: Logs
) -> None:
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    elsewhere = Elsewhere()
    elsewhere.logs.update({("n1", 1): b"lost on n1", ("n2", 2): b"moved away", ("n3", 2): b"at work on n3"})
    lost = lose(await bound_to(store, run, "n1", lost_left=1), Revision(5), NOON)
    await store.commit(Put(keys.live_run(run), codec.encode(lost)))
    part = await run_output.read_log(store, logs, run, log_at=elsewhere)
    assert (part.attempt, part.data) == (1, b"lost on n1"), "the next attempt is bound to no node yet"
    refused = release(await bound_to(store, run, "n2"), NOON, "it is stopping")
    await store.commit(Put(keys.live_run(run), codec.encode(refused)))
    await bound_to(store, run, "n3")  # the same attempt has another node
    part = await run_output.read_log(store, logs, run, log_at=elsewhere)
    assert (part.attempt, part.data) == (2, b"at work on n3")
    assert (await run_output.read_log(store, logs, run, attempt=1, log_at=elsewhere)).data == b"lost on n1"


async def test_the_end_of_a_log_is_known_without_its_node(store: Store, logs: Logs) -> None:
    run, elsewhere = await over(store, "a", NOON), Elsewhere()
    entry = await store.get(keys.run(run))
    assert entry is not None
    record = codec.decode(RunRecord, entry.value)
    assert record.outcome is not None
    said = replace(record, node=NodeId("n1"), outcome=replace(record.outcome, log_bytes=8))
    await store.commit(Put(entry.key, codec.encode(said)))
    for offset in (8, 10**6):
        part = await run_output.read_log(store, logs, run, offset=offset, log_at=elsewhere)
        assert (part.data, part.next, part.is_whole) == (b"", offset, True)
    assert elsewhere.asked == []
    elsewhere.logs["n1", 1] = b""  # it was forgotten there
    assert not (await run_output.read_log(store, logs, run, log_at=elsewhere)).is_whole


async def test_who_follows_hears_when_the_node_stays_away(
    store: Store, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "POLL", 0.01)
    await add(store)
    run, elsewhere = (await run_operations.run_job(store, "backup", by="me")).id, Elsewhere()
    await bound_to(store, run, "n1")
    elsewhere.logs["n1", 1] = b"one\n"
    async with aclosing(run_output.follow_log(store, logs, run, log_at=elsewhere)) as parts:
        assert (await anext(parts)).data == b"one\n"
        elsewhere.logs["n1", 1] += b"two\n"
        assert (await anext(parts)).data == b"two\n"
        kept = elsewhere.logs.pop(("n1", 1))
        coming = asyncio.ensure_future(anext(parts))
        await asyncio.sleep(0.1)
        assert not coming.done(), "a node that is away may come back"
        elsewhere.logs["n1", 1] = kept + b"three\n"
        part = await coming
        assert (part.offset, part.data) == (8, b"three\n")
        monkeypatch.setattr(run_output, "AWAY", 0.05)
        elsewhere.logs.clear()
        with pytest.raises(Unavailable, match="kept at node n1"):
            await anext(parts)


async def test_every_door_reads_and_follows_at_the_node_that_has_the_log(store: Store, logs: Logs) -> None:
    elsewhere = Elsewhere()
    behind = NodeBackend(lambda: store, CLOCK, Watches(), count, lambda: logs, log_at=elsewhere)
    routes = resources.routes(behind)
    ask = Caller(door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=GATE, more=routes, clock=CLOCK))
    await add(store)
    run = (await run_operations.run_job(store, "backup", by="me")).id
    await bound_to(store, run, "n1")
    for path in ("log", "log/follow"):
        refused = await ask("GET", f"/v1/runs/{run}/{path}")
        assert (refused.status, refused.json["code"]) == (503, "unavailable")
        assert "is kept at node n1" in refused.json["detail"]
    elsewhere.logs["n1", 1] = b"out"
    assert (await ask("GET", f"/v1/runs/{run}/log")).body == b"out"

    call, request = GrpcCall(store, behind, None), pb.RunLogRequest(run=run, offset=1)
    read, follow = (grpc_door.METHODS[f"rota.v1.Runs.{name}"] for name in ("ReadLog", "FollowLog"))
    assert isinstance(read, Method)
    assert isinstance(follow, StreamingMethod)
    assert (await read.answer(call, request)).data == b"ut"
    async with aclosing(follow.answer(call, Watches(), request)) as parts:
        assert [part.data for part in await anext(parts)] == [b"ut"]


# Over HTTP


async def test_jobs_and_runs_over_http(ask: Caller, logs: Logs) -> None:
    made = await ask("PUT", "/v1/jobs/backup", {"argv": ["true"], "every": "1h"})
    assert (made.status, made.json["schedule"]) == (200, "every 1h")
    version = made.headers["etag"]
    stale = {"content-type": "application/json", "if-match": '"99"'}
    assert "look at it again" in await ask.refused(409, "PUT", "/v1/jobs/backup", {"argv": ["false"]}, headers=stale)
    assert (await ask("GET", "/v1/jobs/backup")).headers["etag"] == version
    assert [job["name"] for job in (await ask("GET", "/v1/jobs?prefix=b")).json["jobs"]] == ["backup"]
    assert (await ask("POST", "/v1/jobs/backup/disable", {})).json["enabled"] is False
    assert (await ask("POST", "/v1/jobs/backup/enable", {})).json["enabled"] is True
    assert len((await ask("GET", "/v1/jobs/backup/preview?count=3")).json["due"]) == 3
    started = await ask("POST", "/v1/jobs/backup/run", {"payload": [1]})
    run = started.json["id"]
    assert (started.status, started.headers["location"]) == (201, f"/v1/runs/{run}")
    nobody = "no node takes part in jobs; start one with an app, or wait"
    assert (await ask("GET", f"/v1/runs/{run}/why")).json["reasons"] == [nobody]
    assert (await ask("GET", f"/v1/runs/{run}")).json["why"] == nobody
    assert (await ask("GET", "/v1/runs")).json["runs"][0]["why"] == nobody
    assert (await ask("GET", "/v1/jobs/backup/why")).json["reasons"] == [f"a run of it gets no node now: {nobody}"]
    await ask.refused(404, "GET", "/v1/jobs/none/why")
    await ask.refused(404, "GET", "/v1/runs/backup/none/why")
    named = {"content-type": "application/json", "idempotency-key": "order-7"}
    once, twice = [await ask("POST", "/v1/jobs/backup/run", {"payload": 7}, headers=named) for _ in range(2)]
    assert once.json["id"] == twice.json["id"] != run
    assert (await ask("GET", f"/v1/runs/{run}")).json["payload"] == [1]
    assert (await ask("POST", f"/v1/runs/{run}/interrupt", {"why": "enough"})).json["state"] == "interrupted"
    again = await ask("POST", f"/v1/runs/{run}/restart", {})
    assert (again.status, again.json["of"]) == (201, run)
    assert {each["id"] for each in (await ask("GET", "/v1/runs?job=backup")).json["runs"]} == {
        run, once.json["id"], again.json["id"],
    }  # fmt: skip
    await logs.append([LogChunk(run, 1, 0, b"\xffout", True)])
    output = await ask("GET", f"/v1/runs/{run}/log")
    assert (output.body, output.headers["rota-next"], output.headers["rota-whole"]) == (b"\xffout", "4", "true")
    followed = await ask("GET", f"/v1/runs/{run}/log/follow?offset=1")
    assert b'"text":"out","next":4' in followed.body
    assert (await ask("DELETE", f"/v1/runs/{run}")).status == 204
    assert (await ask("DELETE", "/v1/jobs/backup")).status == 204


@pytest.mark.parametrize(
    ("status", "method", "path", "content", "why"),
    [
        (422, "PUT", "/v1/jobs/a", {"argv": ["true"], "cron": "61 * * * *"}, "minutes are 0-59"),
        (422, "PUT", "/v1/jobs/a", {"argv": ["true"], "name": "b"}, 'the path says job "a", and the body "b"'),
        (404, "POST", "/v1/jobs/a/run", {}, 'there is no job "a"'),
        (404, "GET", "/v1/runs/a/b", None, "there is no run a/b"),
        (422, "POST", "/v1/jobs/a/backfill", {"first": "yesterday"}, "first is"),
        (422, "POST", "/v1/jobs/a/backfill", {**YEAR, "force": "yes"}, "force is 'yes'; it must be true or false"),
        (422, "GET", "/v1/jobs/a/backfill?first=2026-01-01T00:00Z&last=2026-01-02T00:00Z&force=1", None, "force is"),
        (422, "GET", "/v1/jobs/a/backfill?first=2026-01-01T00:00Z", None, "last is missing"),
        (422, "GET", "/v1/runs?state=broken", None, "state is"),
        (422, "GET", "/v1/jobs?colour=red", None, "colour"),
    ],
)
async def test_what_is_refused_over_http(
    ask: Caller, status: int, method: str, path: str, content: object, why: str
) -> None:
    assert why in await ask.refused(status, method, path, content)


# Over gRPC


async def test_jobs_and_runs_over_grpc(behind: NodeBackend, store: Store, logs: Logs) -> None:
    call = GrpcCall(store, behind, None)

    async def asked(name: str, request: Any) -> Any:
        method = grpc_door.METHODS[f"rota.v1.{name}"]
        assert isinstance(method, Method)
        return await method.answer(call, request)

    job = await asked("Jobs.Put", pb.PutJobRequest(name="backup", spec_json='{"argv": ["true"], "every": "1h"}'))
    assert (job.schedule, job.HasField("next"), job.HasField("last")) == ("every 1h", True, False)
    assert (await asked("Jobs.Get", pb.JobRequest(name="backup"))).version == job.version
    assert not (await asked("Jobs.Disable", pb.JobRequest(name="backup"))).enabled
    assert (await asked("Jobs.Enable", pb.JobRequest(name="backup"))).enabled
    assert [each.name for each in (await asked("Jobs.List", pb.ListJobsRequest())).jobs] == ["backup"]
    assert len((await asked("Jobs.Preview", pb.PreviewJobRequest(name="backup", count=4))).due) == 4
    held = await asked("Jobs.Why", pb.JobRequest(name="backup"))
    assert (held.thing, [reason[:24] for reason in held.reasons]) == ("backup", ["a run of it gets no node"])
    run = await asked("Jobs.Start", pb.RunJobRequest(name="backup", payload_json="[1]"))
    assert (run.state, run.payload_json) == ("pending", "[1]")
    again = pb.RunJobRequest(name="backup", idempotency_key="order-7")
    assert (await asked("Jobs.Start", again)).id == (await asked("Jobs.Start", again)).id
    assert (await asked("Runs.Interrupt", pb.InterruptRunRequest(run=run.id))).state == "interrupted"
    assert (await asked("Runs.Restart", pb.RunRequest(run=run.id))).of == run.id
    assert len((await asked("Runs.List", pb.ListRunsRequest(job="backup"))).runs) == 3
    assert not (await asked("Runs.List", pb.ListRunsRequest(node="n9"))).runs
    recent = pb.ListRunsRequest()
    recent.since.FromDatetime(await store.now() + HOUR)
    assert not (await asked("Runs.List", recent)).runs
    await logs.append([LogChunk(run.id, 1, 0, b"out", True)])
    part = await asked("Runs.ReadLog", pb.RunLogRequest(run=run.id))
    assert (part.data, part.next, part.is_whole) == (b"out", 3, True)
    assert (await asked("Runs.Delete", pb.RunRequest(run=run.id))).run == run.id
    assert (await asked("Jobs.Delete", pb.JobRequest(name="backup"))).name == "backup"
    request = pb.BackfillJobRequest(name="backup")
    request.first.FromDatetime(NOON)
    for name in ("Backfill", "PreviewBackfill"):
        with pytest.raises(Invalid, match="last is missing"):
            await asked(f"Jobs.{name}", request)
    with pytest.raises(Invalid, match="spec_json must be an object"):
        await asked("Jobs.Put", pb.PutJobRequest(name="backup", spec_json="[]"))


async def test_attempts_that_came_to_nothing_are_shown(store: Store) -> None:
    id = await over(store, "a", NOON)
    entry = await store.get(keys.run(id))
    assert entry is not None
    lost = Try(attempt=1, epoch=5, node=NodeId("n2"), outcome=Outcome(state=RunState.LOST), ended=NOON)
    record = replace(codec.decode(RunRecord, entry.value), earlier=(lost,), attempt=2, late=(lost,))
    await store.commit(Put(entry.key, codec.encode(record)))
    view = await run_operations.get_run(store, id)
    shown: Any = transcode.encode(view, pb.Run.DESCRIPTOR)
    assert (shown.earlier[0].state, shown.late[0].node, shown.attempt) == ("lost", "n2", 2)
    assert view.earlier[0].epoch == Revision(5)


# What takes long


async def test_a_preview_and_a_backfill_are_computed_beside_the_event_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(store)
    threads: list[str] = []

    def seen(compute: Any) -> Any:
        def instead(*arguments: Any, **more: Any) -> Any:
            threads.append(threading.current_thread().name)
            return compute(*arguments, **more)

        return instead

    monkeypatch.setattr(job_operations, "preview", seen(job_operations.preview))
    monkeypatch.setattr(verbs, "missing_runs", seen(verbs.missing_runs))
    await job_operations.preview_job(store, "backup", count=3)
    await job_operations.preview_backfill(store, "backup", NOON - 4 * HOUR, NOON - HOUR, is_forced=True)
    assert threads == ["aside", "aside"]


async def test_one_caller_that_asks_for_many_heavy_views_is_told_to_wait(
    ask: Caller, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(store)
    gate = threading.Event()
    real = job_operations.preview

    def held(*arguments: Any, **more: Any) -> Any:
        gate.wait(60)
        return real(*arguments, **more)

    monkeypatch.setattr(job_operations, "preview", held)
    asked = [asyncio.create_task(ask("GET", "/v1/jobs/backup/preview")) for _ in range(20)]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    refused = done.pop().result()
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "one at a time" in refused.json["error"]
    gate.set()
    assert {(await each).status for each in asked} == {200, 429}
