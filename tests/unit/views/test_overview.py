"""The fleet at a glance, and what is wrong with it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rota.fleet.doors.nodes.answers import NodeView
from rota.jobs.core.records import Cause, RunRecord, RunState
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.ids import NodeId, SessionId
from rota.model.node import Leader, NodeStatus, PoolStatus
from rota.model.peers import Standing
from rota.relay.core.records import RelayStatus, SinkState, SinkStatus
from rota.relay.doors.operations import RelayList, RelayView
from rota.resources.core.records import Cordon, Drain, ResourceStatus, Trouble, WantedResource, record_of
from rota.store import Put, Store, open_store
from rota.streams.core.records import StreamError, StreamState, StreamStatus
from rota.views.overview import SHOWN, FleetSnapshot, concerns, failing_resources, overview
from tests.kit.fleet_records import join

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALM = FleetSnapshot(
    leader=None,
    nodes=(),
    work={},
    relays=RelayList(relays=(), map=None, as_of=NOW),
    pending={},
    failing={},
    streams={},
)
SINK = SinkStatus(sink="amqp://box", state=SinkState.DOWN, last_error="refused", spool_messages=7, confirmed=3)
RELAY = RelayView(
    node=NodeId("a"), is_home=True, status=RelayStatus(address="x", since=NOW, sinks=(SINK,), unreached={"b": "cut"})
)
POOL = PoolStatus(name="host", role="host", want=1, ready=0, starting=1, draining=0, crash_loop="it raised")
WORK = NodeStatus(
    app="app", generation=1, previous=None, reloading=None, pools=[POOL], tasks_ordered=3, tasks_running=2
)


def told(seen: FleetSnapshot) -> list[tuple[str, str, str, str]]:
    return [(each.severity, each.about, each.subject, each.text) for each in concerns(seen)]


def test_a_fleet_that_nobody_leads_is_told_first() -> None:
    ((severity, about, _, text),) = told(CALM)
    assert (severity, about) == ("error", "fleet")
    assert "no node leads" in text


def test_each_thing_that_is_wrong_is_named() -> None:
    node = NodeView(id=NodeId("a"), is_up=True, tasks=2)
    seen = replace(
        CALM,
        nodes=(
            replace(node, standing=Standing.OFFLINE, standing_why="no answer"),
            replace(node, id=NodeId("b"), standing=Standing.SUSPECT),
            replace(node, id=NodeId("c"), drain=Drain(node=NodeId("c"), since=NOW, tasks=5)),
            replace(node, id=NodeId("d"), cordon=Cordon(node=NodeId("d"), since=NOW, why="disk")),
            replace(node, id=NodeId("e"), not_understood="version 9"),
            replace(node, id=NodeId("f"), insecure=True),
        ),
        work={"a": WORK},
        relays=RelayList(relays=(RELAY, RelayView(node=NodeId("b"), is_home=False)), map=None, as_of=NOW),
        pending={"room/1": "no free slots"},
        streams={
            "clicks": StreamStatus(
                stream="clicks",
                state=StreamState.UNHEALTHY_TASKS,
                since=NOW,
                errors=(StreamError(at=NOW, why="bad row"),),
            ),
            "calm": StreamStatus(stream="calm", state=StreamState.RUNNING, since=NOW),
            "torn": StreamStatus(stream="torn", state=StreamState.RUNNING, since=NOW, waits="partition 3 waits: gone"),
        },
    )
    assert told(seen)[1:] == [
        ("error", "node", "a", "offline: no answer"),
        ("error", "node", "a", "host keeps failing: it raised"),
        ("warning", "node", "b", "suspect"),
        ("info", "node", "c", "it is drained; 2 of 5 tasks are left"),
        ("info", "node", "d", "it is cordoned: disk"),
        ("warning", "node", "e", "its record is not understood here: version 9"),
        ("warning", "node", "f", "other machines reach its doors without TLS, so tokens pass in the clear"),
        ("warning", "resource", "room/1", "no free slots"),
        ("error", "stream", "clicks", "unhealthy tasks: bad row"),
        ("error", "stream", "torn", "partition 3 waits: gone"),
        ("warning", "node", "a", "messages for the relay of b wait: cut"),
        ("error", "sink", "amqp://box", "down at node a: refused; 7 messages are spooled"),
    ]


async def test_everything_is_counted() -> None:
    async with open_store("memory://") as store:
        await join(store, "a", kinds=("room",))
        leader = Leader(node=NodeId("a"), session=SessionId("s-a"), since=await store.now() - timedelta(seconds=5))
        term = await store.commit(Put(keys.LEADER, codec.encode(leader)))
        await place(store, "1", assigned=1)
        await place(store, "2", assigned=0)
        await store.commit(
            Put(keys.job("tick"), b"{}"), Put(keys.relay_status(NodeId("a")), codec.encode(RELAY.status))
        )
        run = RunRecord(id="tick/1", job="tick", due=NOW, cause=Cause.MANUAL, created=NOW, state=RunState.RUNNING)
        await store.commit(Put(keys.live_run(run.id), codec.encode(run)))
        seen = await overview(store)
    assert seen.leader is not None
    assert (seen.leader.node, seen.leader.term, seen.leader.age_s) == ("a", term, 5)
    assert (seen.nodes, seen.nodes_up, seen.slots, seen.resources, seen.pending) == (1, 1, 10, 2, 1)
    assert (seen.jobs, seen.runs, seen.published, seen.spooled) == (1, {"running": 1}, 3, 7)
    assert [each.severity for each in seen.concerns] == ["error", "warning", "warning"]


async def test_of_very_many_concerns_some_are_told_and_the_rest_counted() -> None:
    async with open_store("memory://") as store:
        for number in range(SHOWN + 5):
            await place(store, str(number), assigned=0)
        seen = await overview(store)
    assert (len(seen.concerns), seen.concerns_left_out) == (SHOWN, 6)
    assert seen.concerns[0].about == "fleet"


async def test_a_resource_that_was_given_back_lately_is_a_concern_although_it_has_all_its_tasks() -> None:
    async with open_store("memory://") as store:
        now = await store.now()
        for id, ago in {"new": 9, "old": 11}.items():
            trouble = Trouble(node=NodeId("a"), at=now - timedelta(minutes=ago), why="no camera", strikes=4)
            await place(store, id, assigned=1, given_back=trouble)
        await place(store, "calm", assigned=1)
        seen = await overview(store)
    (found,) = [each for each in seen.concerns if each.about == "resource"]
    assert (found.severity, found.subject, seen.pending) == ("warning", "room/new", 0)
    assert found.text.startswith("node a gave it back at ")
    assert found.text.endswith("time 4 in a row: no camera")


async def test_of_a_resource_that_lacks_tasks_and_was_given_back_one_concern_says_both() -> None:
    async with open_store("memory://") as store:
        trouble = Trouble(node=NodeId("a"), at=await store.now(), why="no camera")
        await place(store, "1", assigned=0, given_back=trouble)
        seen = await overview(store)
    (found,) = [each for each in seen.concerns if each.about == "resource"]
    assert found.text.startswith("no free slots; node a gave it back at ")


async def test_a_resource_that_fails_is_a_concern_that_names_node_and_reason_and_is_counted() -> None:
    async with open_store("memory://") as store:
        await place(store, "1", assigned=1, failing={"a": "no camera"}, not_running=1)
        trouble = Trouble(node=NodeId("a"), at=await store.now(), why="no camera")
        await place(store, "fixed", assigned=1, given_back=trouble, failing={})
        seen = await overview(store)
    assert [(each.subject, each.text) for each in seen.concerns if each.about == "resource"] == [
        ("room/1", "0 of 1 tasks run; fails on a: no camera")
    ]
    assert (seen.failing, seen.pending) == (1, 0)


async def test_a_node_with_more_failing_tasks_than_it_names_is_a_concern() -> None:
    work = replace(WORK, failing={"room/1#0": "no camera"}, failing_left_out=2)
    node = NodeView(id=NodeId("a"), is_up=True)
    assert ("error", "node", "a", "3 of its 3 tasks keep failing") in told(
        replace(CALM, nodes=(node,), work={"a": work})
    )


async def test_what_fails_is_found_without_reading_all_resources() -> None:
    async with open_store("memory://") as store:
        now = await store.now()
        for id in ("fails", "fixed", "long ago", "calm"):
            await place(store, id, assigned=1, failing={"a": "no camera"} if id in ("fails", "calm") else {})
        for id, ago in {"fails": 1, "fixed": 1, "long ago": 60}.items():
            trouble = Trouble(node=NodeId("a"), at=now - timedelta(minutes=ago), why="no camera")
            await store.commit(Put(keys.trouble("room", id, trouble.node), codec.encode(trouble)))
        assert await failing_resources(store) == {"room/fails": "fails on a: no camera"}
        await store.commit(Put(keys.status(NodeId("a")), codec.encode(replace(WORK, failing={"room/calm#0": "no"}))))
        assert list(await failing_resources(store)) == ["room/calm", "room/fails"]


async def place(store: Store, id: str, *, assigned: int, **more: Any) -> None:
    """A resource that wants one task."""
    record = record_of(WantedResource(kind="room", id=id), f"uid-{id}", NOW)
    status = ResourceStatus(
        ID=record.uid, Name=id, AssignedNode="", CreationTime=0, kind="room", replicas=1, assigned=assigned,
        pending="" if assigned else "no free slots", **more,
    )  # fmt: skip
    await store.commit(
        Put(keys.resource("room", id), codec.encode(record)),
        Put(keys.resource_status("room", id), codec.encode(status)),
    )
