"""What can be asked about streams: as operations, and over HTTP and gRPC. What a leader would do is written by hand."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc import transcode
from rota.doors.grpc.methods import GrpcCall, Method
from rota.doors.grpc.pb import streams_pb2 as pb
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.store import Store, open_store
from rota.streams.core.manifest import Manifest, Range, Segment
from rota.streams.core.records import MoveRecord, Phase, SkipRecord, StreamRecord, StreamState, StreamWishes, TaskState
from rota.streams.core.spec import StreamSpec, declared
from rota.streams.doors import operations
from tests.kit.http_caller import CLOCK, Caller
from tests.kit.http_door import GATE
from tests.kit.relay_records import count
from tests.kit.stream_records import NOON, STATUS, TASK, declare, group, put, remember, say

SOON = timedelta(milliseconds=50)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store with a stream, as a node and a leader have left it."""
    async with open_store("memory://") as store:
        await declare(store, "clicks")
        await say(store, STATUS)
        for number in (0, 1):
            await put(store, keys.stream_group("clicks", f"g{number}"), group(number))
        await put(store, keys.stream_task("clicks", "g0", 0, 7), TASK)
        yield store


@pytest.fixture
def behind(store: Store) -> NodeBackend:
    return NodeBackend(lambda: store, CLOCK, Watches(), count)


@pytest.fixture
def ask(behind: NodeBackend) -> Caller:
    return Caller(
        door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=GATE, more=resources.routes(behind), clock=CLOCK)
    )


async def wishes(store: Store) -> StreamWishes:
    entry = await store.get(keys.STREAM_WISHES + "clicks")
    return codec.decode(StreamWishes, entry.value) if entry else StreamWishes()


MANIFEST = Manifest(
    id="20260116T120000-a",
    stream="clicks",
    ranges=(Range(partition=0, start=0, end=100),),
    rows=99,
    segments=(Segment(path="a-0.parquet", rows=99, bytes=1000),),
    at=NOON,
    by="clicks/g0#0",
)


# Looking


async def test_streams_are_listed_by_name_a_page_at_a_time(store: Store) -> None:
    await declare(store, "orders")
    strange = StreamRecord(name="strange", app="shop", digest="d", spec={"name": 3})
    await put(store, keys.STREAMS + "strange", strange)
    first = await operations.list_streams(store, limit=1)
    assert ([view.name for view in first.streams], first.next) == (["clicks"], "clicks")
    rest = await operations.list_streams(store, token=first.next)
    assert [(view.name, view.state, view.since) for view in rest.streams] == [("orders", StreamState.PENDING, None)]
    assert "update this node" in rest.not_understood["strange"]
    assert [view.name for view in (await operations.list_streams(store, prefix="o")).streams] == ["orders"]
    with pytest.raises(Invalid, match="limit is 0; it must be from 1 to 1000"):
        await operations.list_streams(store, limit=0)


async def test_a_backfill_that_is_completed_is_left_out_unless_all_are_asked_for(
    store: Store, behind: NodeBackend, ask: Caller
) -> None:
    for name, state in {
        "clicks~20260116T120000": StreamState.COMPLETED,
        "clicks~20260116T130000": StreamState.RUNNING,
        "until-noon": StreamState.COMPLETED,
    }.items():
        await declare(store, name)
        await say(store, replace(STATUS, stream=name, state=state))
    everything = ["clicks", "clicks~20260116T120000", "clicks~20260116T130000", "until-noon"]
    shown = [name for name in everything if name != "clicks~20260116T120000"]
    page = await operations.list_streams(store)
    assert ([view.name for view in page.streams], page.left_out) == (shown, 1)
    page = await operations.list_streams(store, with_past=True)
    assert ([view.name for view in page.streams], page.left_out) == (everything, 0)
    first = await operations.list_streams(store, limit=2)
    assert ([view.name for view in first.streams], first.left_out) == (["clicks"], 1)
    assert [view.name for view in (await operations.list_streams(store, token=first.next)).streams] == shown[1:]
    assert (await ask("GET", "/v1/streams")).json["left_out"] == 1
    assert [each["name"] for each in (await ask("GET", "/v1/streams?all=true")).json["streams"]] == everything
    assert (await ask("GET", "/v1/streams?all=yes")).status == 422
    listed = grpc_door.METHODS["rota.v1.Streams.List"]
    assert isinstance(listed, Method)
    for is_all, names in ((False, shown), (True, everything)):
        found: Any = await listed.answer(GrpcCall(store, behind, None), pb.ListStreamsRequest(all=is_all))
        assert ([each.name for each in found.streams], found.left_out) == (names, 0 if is_all else 1)
    assert (await operations.get_stream(store, "clicks~20260116T120000")).is_past


async def test_a_stream_is_shown_with_what_is_wanted_of_it(store: Store) -> None:
    await operations.scale_stream(store, "clicks", 3, by="me")
    view = await operations.get_stream(store, "clicks")
    assert (view.source, view.sink, view.app) == ("log:///data/in", "parquet:///data/out", "shop")
    assert (view.tasks, view.spec["tasks"], view.lag, view.healthy, view.by) == (3, 2, 30, True, "me")
    await say(store, replace(STATUS, state=StreamState.UNHEALTHY_TASKS))
    assert not (await operations.get_stream(store, "clicks")).healthy
    await say(store, replace(STATUS, waits="partition 0 waits", dropped={"late": 7}))
    view = await operations.get_stream(store, "clicks")
    assert (view.state, view.healthy, view.dropped) == (StreamState.RUNNING, False, {"late": 7})
    assert dict(transcode.encode(view, pb.Stream.DESCRIPTOR).dropped) == {"late": 7}  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match='there is no stream "click"; did you mean "clicks"'):
        await operations.get_stream(store, "click")


async def test_the_status_has_groups_tasks_and_what_was_left_out(store: Store) -> None:
    skip = SkipRecord(
        stream="clicks", partition=0, first=3, last=9, offset=10, policy="earliest", why="retention", at=NOON
    )
    move = MoveRecord(id="a", stream="clicks", before={0: 5}, after={0: 0}, by="me", why="a user requested it", at=NOON)
    await put(store, keys.stream_skip("clicks", 0, 3), skip)
    await put(store, keys.stream_move("clicks", move.id), move)
    detail = await operations.stream_status(store, "clicks")
    assert [(each.number, each.ends, len(each.tasks)) for each in detail.groups] == [(0, {}, 1), (1, {1: 40}, 0)]
    (task,) = detail.groups[0].tasks
    assert (task.node, task.state, task.lag, task.rows, task.dropped) == ("n1", TaskState.READING, 10, 120, {"late": 3})
    assert (detail.skips, detail.moves) == ((skip,), (move,))


async def test_the_lag_is_told_by_partition(store: Store) -> None:
    await say(store, replace(STATUS, committed={0: 100, 1: 50, 2: 7}))
    found = await operations.stream_lag(store, "clicks")
    assert [(each.partition, each.latest, each.lag) for each in found] == [(0, 130, 30), (1, 50, 0), (2, None, 0)]


async def test_a_source_does_not_end_before_what_was_published_of_it(store: Store) -> None:
    await say(store, replace(STATUS, committed={0: 200, 1: 50}, latest={0: 100, 1: 60}, lag=10))
    found = await operations.stream_lag(store, "clicks")
    assert [(each.committed, each.latest, each.lag) for each in found] == [(200, 200, 0), (50, 60, 10)]
    assert (await operations.get_stream(store, "clicks")).latest == {0: 200, 1: 60}


async def test_what_was_published_is_listed(store: Store) -> None:
    later = replace(MANIFEST, id="20260116T130000-b")
    for each in (MANIFEST, later):
        await put(store, keys.manifest("clicks", each.id), each)
    first = await operations.list_published(store, "clicks", limit=1)
    assert (first.published, first.next) == ((MANIFEST,), MANIFEST.id)
    assert (await operations.list_published(store, "clicks", token=first.next)).published == (later,)


# Asking


async def test_a_stream_is_suspended_resumed_and_terminated(store: Store) -> None:
    assert (await operations.suspend_stream(store, "clicks", by="me")).suspended
    assert not (await operations.resume_stream(store, "clicks", by="me")).suspended
    assert (await operations.terminate_stream(store, "clicks", by="me")).terminated
    assert not (await operations.resume_stream(store, "clicks", by="me")).terminated
    for asked in (operations.suspend_stream, operations.resume_stream, operations.terminate_stream):
        with pytest.raises(NotFound, match='there is no stream "x"'):
            await asked(store, "x", by="me")


async def test_who_waits_is_told_when_everything_is_published(store: Store) -> None:
    waiting = asyncio.create_task(operations.suspend_stream(store, "clicks", by="me", wait=timedelta(seconds=20)))
    await asyncio.sleep(0.02)
    await say(store, replace(STATUS, state=StreamState.SUSPENDED, phases={"publishing": 2}))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await say(store, replace(STATUS, state=StreamState.SUSPENDED, phases={}))
    assert (await waiting).has_ended
    late = await operations.hand_off_groups(store, "clicks", by="me", wait=SOON)
    assert late.hand_off == (0, 1), "it is told as it is when the time is over"
    with pytest.raises(Invalid, match="wait"):
        await operations.suspend_stream(store, "clicks", by="me", wait=timedelta(hours=1))


async def test_groups_that_read_are_handed_off(store: Store) -> None:
    await put(store, keys.stream_group("clicks", "g1"), group(1, Phase.PUBLISHING))
    await operations.hand_off_groups(store, "clicks", by="me")
    assert (await wishes(store)).hand_off == (0,)
    for wrong in (1, 7, "a", True):
        with pytest.raises(Invalid, match=f"no group {wrong} is reading; those that do are 0"):
            await operations.hand_off_groups(store, "clicks", [wrong], by="me")


@pytest.mark.parametrize("tasks", [0, -1, 20_000, "3", True])
async def test_a_stream_has_a_number_of_tasks_that_there_can_be(store: Store, tasks: object) -> None:
    with pytest.raises(Invalid, match="it must be from 1 to 10000, or null for as declared"):
        await operations.scale_stream(store, "clicks", tasks, by="me")


async def test_a_stream_that_the_leader_has_scaled_says_so_unless_somebody_wants_another_number(store: Store) -> None:
    await say(store, replace(STATUS, tasks=4))
    assert (await operations.get_stream(store, "clicks")).tasks == 4
    assert (await operations.scale_stream(store, "clicks", 3, by="me")).tasks == 3


async def test_a_stream_has_as_many_tasks_as_declared_again(store: Store) -> None:
    await operations.scale_stream(store, "clicks", 5, by="me")
    assert (await operations.scale_stream(store, "clicks", None, by="me")).tasks == 2
    await say(store, replace(STATUS, tasks=4))
    assert (await operations.get_stream(store, "clicks")).tasks == 4  # because of its lag


async def test_a_reset_goes_where_a_new_stream_would_begin_unless_it_says_where(store: Store) -> None:
    view = await operations.reset_stream(store, "clicks", by="me")
    assert view.reset is not None
    assert view.reset.to == "latest"
    view = await operations.reset_stream(store, "clicks", by="me", to="2026-01-16T12:00Z")
    assert view.reset is not None
    assert view.reset.to == "2026-01-16T12:00Z"
    for wrong in ("newest", "120", 120, ""):
        with pytest.raises(Invalid, match="earliest, latest or"):
            await operations.reset_stream(store, "clicks", by="me", to=wrong)


async def test_what_a_reset_leaves_out_is_read_by_another_stream_if_somebody_wants_it(store: Store) -> None:
    view = await operations.reset_stream(store, "clicks", by="me", to="latest", backfill=True)
    assert view.reset is not None
    assert view.reset.is_backfilled
    with pytest.raises(Invalid, match="backfill is yes; it must be true or false"):
        await operations.reset_stream(store, "clicks", by="me", to="latest", backfill="yes")
    await declare(store, "clicks~1")
    with pytest.raises(Invalid, match="fills a gap itself"):
        await operations.reset_stream(store, "clicks~1", by="me", to="latest", backfill=True)


async def test_offsets_of_some_partitions_are_reset(store: Store) -> None:
    await operations.reset_offsets(store, "clicks", {"0": 12, 1: "earliest"}, by="me")
    found = (await wishes(store)).reset
    assert found is not None
    assert (found.to, found.partitions) == ("", {0: "12", 1: "earliest"})


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ({}, "say which partitions go on where"),
        ({"7": 1}, "has no partition 7; there are 0, 1"),
        ({"a": 1}, "has no partition a"),
        ({True: 1}, "has no partition True"),
        ({"0": 131}, "partition 0 ends at 130, before 131; choose one up to it"),
        ({"0": -1}, "no place in a source"),
        ({"0": None}, "no place in a source"),
        ({"0": "soon"}, "no place in a source"),
    ],
)
async def test_offsets_that_cannot_be_are_refused(store: Store, offsets: dict[Any, object], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        await operations.reset_offsets(store, "clicks", offsets, by="me")
    assert (await wishes(store)).reset is None


async def test_the_history_of_a_stream_says_what_changed(store: Store) -> None:
    assert await operations.stream_history(store, "clicks") == ()
    await remember(store, hours=0)
    await remember(store, hours=1, tasks=2, idle_after="5m")
    first, second = await operations.stream_history(store, "clicks")
    assert (first.at, first.node, first.app, first.changed) == (NOON, "n1", "shop", {})
    assert second.changed == {"tasks": (1, 2), "idle_after": (None, "5m")}
    with pytest.raises(NotFound, match='there is no stream "x"'):
        await operations.stream_history(store, "x")


async def test_passwords_in_urls_are_shown_to_nobody_and_kept_for_who_opens_them(store: Store) -> None:
    secret, sink = "pa@ss:wo%2Frd", "postgresql://ann:{}@db/shop?table=clicks"
    options = {"source": f"kafka://ann:{secret}@broker/clicks?sasl=plain", "sink": sink.format(secret)}
    given = {"name": "clicks", "source": "log:///data/in", "sink": "parquet:///data/out", "is_async": False}
    await put(store, keys.STREAMS + "clicks", declared("shop", StreamSpec.parse(**{**given, **options})))
    await remember(store, hours=0)
    await remember(store, hours=1, **options)
    await remember(store, hours=2, **{**options, "sink": sink.format("another")})
    view, history = await operations.get_stream(store, "clicks"), await operations.stream_history(store, "clicks")
    assert (view.source, view.sink) == ("kafka://ann:…@broker/clicks?sasl=plain", sink.format("…"))
    assert history[-1].changed == {"sink": (sink.format("…"), sink.format("…"))}
    assert not [each for each in ("pa@", "ss:", "wo%2Frd", "another") if each in f"{view} {history}"]
    assert (await operations.stream_spec(store, "clicks")).sink == sink.format(secret)


# Over HTTP


async def test_streams_over_http(ask: Caller, store: Store) -> None:
    await put(store, keys.manifest("clicks", MANIFEST.id), MANIFEST)
    assert [each["name"] for each in (await ask("GET", "/v1/streams?prefix=c")).json["streams"]] == ["clicks"]
    assert (await ask("GET", "/v1/streams/clicks")).json["committed"] == {"0": 100, "1": 50}
    detail = (await ask("GET", "/v1/streams/clicks/status")).json
    assert detail["groups"][0]["tasks"][0]["state"] == "reading"
    assert (await ask("GET", "/v1/streams/clicks/lag")).json["partitions"][0]["lag"] == 30
    why = (await ask("GET", "/v1/streams/clicks/why")).json
    assert (why["thing"], why["reasons"][0]) == ("clicks", "no node leads, so the stream is not managed")
    assert (await ask("GET", "/v1/streams/clicks/published?limit=5")).json["published"][0]["rows"] == 99
    await remember(store, hours=0)
    assert (await ask("GET", "/v1/streams/clicks/history")).json["versions"][0]["node"] == "n1"
    assert (await ask("POST", "/v1/streams/clicks/suspend", {})).json["suspended"] is True
    assert (await ask("POST", "/v1/streams/clicks/resume", {})).json["suspended"] is False
    assert (await ask("POST", "/v1/streams/clicks/scale", {"tasks": 4})).json["tasks"] == 4
    assert (await ask("POST", "/v1/streams/clicks/scale", {"tasks": None})).json["tasks"] == 2
    assert (await ask("POST", "/v1/streams/clicks/handoff?wait=10ms", {"groups": [1]})).json["hand_off"] == [1]
    moved = await ask("POST", "/v1/streams/clicks/reset-offsets", {"offsets": {"0": 12}})
    assert moved.json["reset"]["partitions"] == {"0": "12"}
    assert (await ask("POST", "/v1/streams/clicks/reset", {"to": "earliest"})).json["reset"]["to"] == "earliest"
    filled = await ask("POST", "/v1/streams/clicks/reset", {"to": "latest", "backfill": True})
    assert filled.json["reset"]["is_backfilled"] is True
    assert (await ask("POST", "/v1/streams/clicks/terminate", {})).json["terminated"] is True


@pytest.mark.parametrize(
    ("status", "path", "content", "why"),
    [
        (404, "/v1/streams/x/suspend", {}, 'there is no stream "x"'),
        (422, "/v1/streams/clicks/suspend", {"now": True}, 'there is no field "now"'),
        (422, "/v1/streams/clicks/scale", {}, "tasks is missing"),
        (422, "/v1/streams/clicks/handoff", {"groups": 1}, "groups must be a list of numbers"),
        (422, "/v1/streams/clicks/handoff", {"groups": None}, "groups must be a list of numbers"),
        (422, "/v1/streams/clicks/reset", {"to": 5}, "it must be earliest, latest or a time"),
        (422, "/v1/streams/clicks/reset-offsets", {"offsets": [1]}, "offsets must be an object"),
        (422, "/v1/streams/clicks/reset-offsets", {"offsets": {"9": 1}}, "has no partition 9"),
        (422, "/v1/streams/clicks/suspend?wait=2h", {}, "wait"),
    ],
)
async def test_what_is_refused_over_http(ask: Caller, status: int, path: str, content: object, why: str) -> None:
    assert why in await ask.refused(status, "POST", path, content)


# Over gRPC


async def test_streams_over_grpc(behind: NodeBackend, store: Store) -> None:
    await put(store, keys.manifest("clicks", MANIFEST.id), MANIFEST)
    skip = SkipRecord(stream="clicks", partition=0, first=3, last=9, offset=10, policy="earliest", why="gone", at=NOON)
    move = MoveRecord(
        id="a", stream="clicks", before={0: 5}, after={0: 0}, by="me", why="so", at=NOON, backfill="clicks~1"
    )
    await put(store, keys.stream_skip("clicks", 0, 3), skip)
    await put(store, keys.stream_move("clicks", move.id), move)
    call = GrpcCall(store, behind, None)

    async def asked(name: str, request: Any) -> Any:
        method = grpc_door.METHODS[f"rota.v1.Streams.{name}"]
        assert isinstance(method, Method)
        return await method.answer(call, request)

    assert [each.name for each in (await asked("List", pb.ListStreamsRequest(limit=3))).streams] == ["clicks"]
    assert (
        "no node leads, so the stream is not managed" in (await asked("Why", pb.StreamRequest(name="clicks"))).reasons
    )
    stream = await asked("Get", pb.StreamRequest(name="clicks"))
    assert (stream.state, dict(stream.committed), stream.errors[0].why) == ("running", {0: 100, 1: 50}, "a blip")
    detail = await asked("Status", pb.StreamRequest(name="clicks"))
    assert (detail.groups[0].tasks[0].node, detail.groups[1].ends[1]) == ("n1", 40)
    assert (detail.skips[0].last, detail.moves[0].before[0], detail.moves[0].backfill) == (9, 5, "clicks~1")
    assert (await asked("Lag", pb.StreamRequest(name="clicks"))).partitions[0].lag == 30
    published = (await asked("Published", pb.ListPublishedRequest(name="clicks"))).published[0]
    assert (published.ranges[0].end, published.files[0].path) == (100, "a-0.parquet")
    await remember(store, hours=0)
    await remember(store, hours=1, tasks=2)
    versions = (await asked("History", pb.StreamRequest(name="clicks"))).versions
    assert [(each.node, each.changed_json) for each in versions] == [("n1", "{}"), ("n1", '{"tasks":[1,2]}')]
    assert (await asked("Suspend", pb.StreamVerb(name="clicks"))).suspended
    assert not (await asked("Resume", pb.StreamVerb(name="clicks"))).suspended
    assert (await asked("Scale", pb.ScaleStreamRequest(name="clicks", tasks=4))).tasks == 4
    assert (await asked("Scale", pb.ScaleStreamRequest(name="clicks"))).tasks == 2
    assert list((await asked("HandOff", pb.HandOffRequest(name="clicks", groups=[1]))).hand_off) == [1]
    moved = await asked("ResetOffsets", pb.ResetOffsetsRequest(name="clicks", offsets={0: "12"}))
    assert dict(moved.reset.partitions) == {0: "12"}
    assert (await asked("Reset", pb.ResetStreamRequest(name="clicks", to="earliest"))).reset.to == "earliest"
    assert (await asked("Reset", pb.ResetStreamRequest(name="clicks", to="latest", backfill=True))).reset.backfill
    assert (await asked("Terminate", pb.StreamVerb(name="clicks"))).terminated
    with pytest.raises(NotFound):
        await asked("Get", pb.StreamRequest(name="x"))
