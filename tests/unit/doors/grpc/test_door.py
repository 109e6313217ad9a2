"""The operations over gRPC, asked through a real port by a caller that knows only the contracts."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec.structs import fields

from rota.doors.behind import NodeBackend
from rota.doors.grpc import door, introspection, methods, refusals, wire
from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.grpc.pb import crawler_pb2, health_pb2, reflection_pb2
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.verbs import OPERATIONS
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, known
from rota.fleet.events.event_log import EventLog
from rota.link import open_link
from rota.model.errors import Compacted, Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.relay.core.records import SinkStatus
from rota.resources.core.records import Trouble
from rota.resources.doors import operations as resource_operations
from rota.store import Store, open_store
from rota.views import overview
from tests.kit.contracts import assert_is_generated_from
from tests.kit.fleet_records import assign, declare, join, lead, settle
from tests.kit.grpc_caller import CLOCK, Caller, Code, opened, refused
from tests.kit.link_server import NODE
from tests.kit.process import ROOT
from tests.kit.relay_records import SINK, count, status, write_map
from tests.kit.waiting import PATIENCE, eventually

Served = health_pb2.HealthCheckResponse
Asked = reflection_pb2.ServerReflectionRequest


@pytest.fixture(params=["memory://", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store in which one kind, `room`, is declared."""
    url = f"sqlite:///{tmp_path}/rota.db" if request.param == "sqlite" else request.param
    async with open_store(url) as store:
        await declare(store, "room")
        yield store


@pytest.fixture
async def ask(store: Store) -> AsyncIterator[Caller]:
    async with opened(lambda: store) as caller:
        yield caller


@asynccontextmanager
async def leader(store: Store, id: str, *nodes: str, **more: Any) -> AsyncIterator[None]:
    """Inside, somebody places `room/id` when it is there, as a leader would."""

    async def place() -> None:
        view = await eventually(lambda: resource_operations.get_resource(store, "room", id), despite=(NotFound,))
        await settle(store, view, *nodes, **more)

    placing = asyncio.create_task(place())
    try:
        yield
        await placing
    finally:
        placing.cancel()
        await asyncio.wait([placing])


# The contracts


CONTRACTS = ["rota/v1/api", *(f"rota/v1/{name}" for name in ("jobs", "safety", "services", "streams"))]


@pytest.mark.parametrize("contract", [*CONTRACTS, "crawler", "grpc/health", "grpc/reflection"])
def test_the_generated_code_is_that_of_the_contract(contract: str, tmp_path: Path) -> None:
    assert_is_generated_from(contract, "rota/doors/grpc/pb", tmp_path)


def test_every_method_has_an_operation_that_says_what_it_needs() -> None:
    described = {method.full_name for service in door.SERVICES for method in service.methods}
    assert described == set(door.METHODS)
    assert {method.operation for method in door.METHODS.values()} <= set(OPERATIONS)


def test_whatever_is_asked_over_http_can_be_asked_over_grpc() -> None:
    """All but the pulse, which is for pages in a browser, and what only the command line and nodes ask."""
    over_http = {endpoint.operation for endpoint in resources.table()}
    assert over_http - {method.operation for method in door.METHODS.values()} == {
        "watch_pulse",
        "fleet_status",
        "sync_source",
        "read_printed",
        "follow_printed",
        "node_printed",
    }


def test_grpc_is_imported_by_nothing_but_its_door() -> None:
    lazily = "import rota, rota.compose.doors, rota.cli.main, sys; assert 'grpc' not in sys.modules"
    subprocess.run([sys.executable, "-c", lazily], check=True, cwd=ROOT, timeout=60)


# The fleet


async def test_the_fleet_at_a_glance_and_what_is_wrong_with_it(ask: Caller, store: Store) -> None:
    await join(store, "a", kinds=("room",))
    alone = await ask("rota.v1.Fleet.Overview", pb.OverviewRequest(), pb.OverviewAnswer)
    assert not alone.HasField("leader")
    assert (alone.concerns[0].severity, alone.concerns[0].about) == ("error", "fleet")
    await lead(store, "a")
    await status(store, "a")
    await ask.create()
    seen = await ask("rota.v1.Fleet.Overview", pb.OverviewRequest(), pb.OverviewAnswer)
    expected = await overview.overview(store)
    assert expected.leader is not None
    assert (seen.leader.node, seen.leader.term) == ("a", expected.leader.term)
    assert seen.leader.since.ToDatetime(tzinfo=UTC) == expected.leader.since
    plain = {field.name for field in fields(expected)} - {"as_of", "leader", "concerns"}
    for name in plain:
        told, value = getattr(seen, name), getattr(expected, name)
        assert (told if isinstance(value, int) else type(value)(told)) == value, name
    assert [overview.Concern(**{name: getattr(each, name) for name in CONCERN}) for each in seen.concerns] == list(
        expected.concerns
    )


CONCERN = [field.name for field in fields(overview.Concern)]


# Relays


async def test_relays_and_what_they_counted(ask: Caller, store: Store) -> None:
    await status(store, "a")
    await write_map(store, "a", "b")
    found = await ask("rota.v1.Relays.List", pb.ListRelaysRequest(), pb.RelayList)
    assert (list(found.map.nodes), found.map.version) == (["a", "b"], 1)
    (relay,) = found.relays
    assert (relay.node, relay.is_home, relay.status.lines) == ("a", True, 3)
    (sink,) = relay.status.sinks
    told = {name: getattr(sink, name) for name in SinkStatus.__struct_fields__}
    assert SinkStatus(**{**told, "rejected": dict(sink.rejected)}) == SINK
    async with refused(Code.NOT_FOUND, "has no relay"):
        await ask("rota.v1.Relays.List", pb.ListRelaysRequest(node="b"), pb.RelayList)
    await ask.create()
    counted = await ask.resources("CountMessages", pb.CountMessagesRequest(kind="room", id="1"), pb.ResourceTally)
    assert wire.from_tally(counted) == await count("room", "1")


# Resources


async def test_a_resource_is_made_read_and_deleted(ask: Caller) -> None:
    spec = '{"depth":3,"id":1604065810010083328}'
    made = await ask.create(
        spec_json=spec, priority=-2, replicas=2, cost=3, labels={"zone": "a"}, pin="n1", wait=Duration()
    )
    assert (made.kind, made.id, made.spec_json, made.priority, made.replicas) == ("room", "1", spec, -2, 2)
    assert (made.cost, dict(made.labels), made.pin, made.origin) == (3, {"zone": "a"}, "n1", "api")
    assert made.uid
    assert made.version > 0
    assert not made.HasField("status")
    assert made.created.ToDatetime(tzinfo=UTC) == CLOCK.wall()
    assert await ask.resources("Get", pb.GetResourceRequest(kind="room", id="1")) == made
    assert await ask.resources("Delete", pb.DeleteResourceRequest(kind="room", id="1")) == made
    async with refused(Code.NOT_FOUND, "room/1"):
        await ask.resources("Get", pb.GetResourceRequest(kind="room", id="1"))


async def test_what_is_left_out_is_as_its_kind_and_the_defaults_say(ask: Caller) -> None:
    made = await ask.create()
    assert (made.spec_json, made.priority, made.cost) == ("{}", 0, 1)
    assert not made.HasField("replicas")
    assert not made.HasField("pin")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": ""}, "kind is missing"),
        ({"id": ""}, "id is missing"),
        ({"id": "a/b"}, "a/b"),
        ({"kind": "rom"}, "room"),
        ({"replicas": 0}, "replicas"),
        ({"cost": -1}, "cost"),
        ({"priority": 2**40}, "priority"),
        ({"spec_json": "{"}, "spec_json is not JSON"),
        ({"spec_json": "[" * 100_000}, "spec_json"),
        ({"spec_json": "[1]"}, "must be an object"),
        ({"pin": ""}, "pin"),
        ({"idempotency_key": "a b"}, "key"),
        ({"wait": Duration(seconds=61)}, "1m"),
        ({"wait": Duration(seconds=-1)}, "wait"),
        ({"wait": Duration(seconds=2**62)}, "wait is not a possible duration"),
    ],
)
async def test_a_wrong_request_is_refused_with_a_sentence(ask: Caller, fields: dict[str, Any], words: str) -> None:
    async with refused(Code.INVALID_ARGUMENT, words):
        await ask.create(**fields)
    assert not (await ask.resources("List", pb.ListResourcesRequest(), pb.ResourcePage)).resources


async def test_a_name_that_is_taken_is_refused_and_a_repeat_by_key_is_not(ask: Caller) -> None:
    made = await ask.create(idempotency_key="k1", cost=2)
    assert await ask.create(idempotency_key="k1", cost=2) == made
    async with refused(Code.ALREADY_EXISTS, "room/1", "exists already"):
        await ask.create()
    async with refused(Code.ALREADY_EXISTS, "k1"):
        await ask.create(idempotency_key="k1", cost=3)


async def test_who_waits_is_answered_when_the_leader_has_decided(ask: Caller, store: Store) -> None:
    async with leader(store, "1", "n1", "n2", replicas=2, chosen={"n1": "most free"}):
        made = await ask.create(wait=Duration(seconds=30), replicas=2)
    assert [(each.node, each.address) for each in made.status.places] == [("n1", "n1:7701"), ("n2", "n2:7701")]
    assert (made.status.replicas, made.status.assigned, dict(made.status.chosen)) == (2, 2, {"n1": "most free"})
    async with leader(store, "2", pending="no slots are free", refusals={"n1": "full"}):
        made = await ask.create("2", wait=Duration(seconds=30))
    assert (made.status.pending, dict(made.status.refusals)) == ("no slots are free", {"n1": "full"})


@pytest.fixture
def in_good_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers are answered after half a second, and have time for that however busy the machine is."""
    monkeypatch.setattr(methods, "MARGIN", timedelta(seconds=PATIENCE - 0.5))


@pytest.mark.usefixtures("in_good_time")
async def test_a_wait_ends_before_the_callers_deadline(ask: Caller) -> None:
    request = pb.CreateResourceRequest(kind="room", id="1", wait=Duration(seconds=60))
    made = await ask.resources("Create", request)
    assert not made.HasField("status")
    request.id = "2"
    assert (await ask.resources("Create", request, timeout=PATIENCE / 2)).id == "2"  # too little time to wait at all


@pytest.mark.parametrize(
    ("wait", "remaining", "expected"), [(60, None, 60), (60, 100, 60), (60, 10, 9.8), (60, 0.1, 0), (0, 10, 0)]
)
def test_a_wait_is_as_long_as_the_caller_has_time(wait: float, remaining: float | None, expected: float) -> None:
    left = None if remaining is None else timedelta(seconds=remaining)
    behind = NodeBackend(lambda: None, CLOCK, Watches(), count)
    call = methods.GrpcCall(store=None, behind=behind, remaining=left)  # type: ignore[arg-type]  # it asks no store
    assert call.bounded(timedelta(seconds=wait)) == timedelta(seconds=expected)


async def test_a_list_comes_in_pages(ask: Caller, store: Store) -> None:
    for id in ("a1", "a2", "b1"):
        view = await resource_operations.create_resource(store, CLOCK, {"kind": "room", "id": id})
        if id == "a1":
            trouble = Trouble(node=NodeId("n2"), at=CLOCK.wall(), why="no camera", strikes=3)
            await settle(store, view, "n1", given_back=trouble, failing={"n1": "no camera"}, not_running=1)

    async def listed(**how: Any) -> Any:
        return await ask.resources("List", pb.ListResourcesRequest(**how), pb.ResourcePage)

    first = await listed(limit=2)
    assert ([each.id for each in first.resources], first.revision > 0) == (["a1", "a2"], True)
    back = first.resources[0].status.given_back
    assert (back.node, back.why, back.strikes) == ("n2", "no camera", 3)
    status = first.resources[0].status
    assert (status.state, status.running, dict(status.failing)) == ("failing", 0, {"n1": "no camera"})
    second = await listed(limit=2, token=first.next)
    assert ([each.id for each in second.resources], second.next) == (["b1"], "")
    assert [each.id for each in (await listed(kind="room", prefix="a", pending=True)).resources] == ["a2"]
    assert not (await listed(kind="other")).resources
    for limit in (0, -1, 1001):
        async with refused(Code.INVALID_ARGUMENT, f"limit is {limit}"):
            await listed(limit=limit)


async def test_a_page_that_would_be_too_large_has_fewer(ask: Caller, store: Store) -> None:
    for number in range(200):
        fields = {"kind": "room", "id": f"{number:03}", "spec": {"x": "x" * 8000}}
        await resource_operations.create_resource(store, CLOCK, fields)
    seen: list[str] = []
    token = ""
    while True:
        request = pb.ListResourcesRequest(limit=1000, token=token)
        page = await ask.resources("List", request, pb.ResourcePage)
        assert page.ByteSize() <= refusals.LARGEST
        seen += [each.id for each in page.resources]
        token = page.next
        if not token:
            break
    assert seen == [f"{number:03}" for number in range(200)]


async def test_a_resource_is_changed_at_the_version_that_was_seen(ask: Caller) -> None:
    made = await ask.create(replicas=2, pin="n1", labels={"zone": "a"}, spec_json='{"x":1}')

    async def update(**how: Any) -> Any:
        return await ask.resources("Update", pb.UpdateResourceRequest(kind="room", id="1", **how))

    changed = await update(version=made.version, cost=4, spec_json='{"y":2}', reset=["pin"])
    assert (changed.cost, changed.spec_json, changed.replicas, dict(changed.labels)) == (4, '{"y":2}', 2, {"zone": "a"})
    assert not changed.HasField("pin")
    assert changed.version > made.version
    cleared = await update(labels=pb.Labels(), reset=["replicas", "spec"])
    assert not cleared.labels
    assert not cleared.HasField("replicas")
    assert cleared.spec_json == "{}"
    async with refused(Code.ABORTED, f"at version {cleared.version}, not {made.version}"):
        await update(version=made.version, cost=5)
    async with refused(Code.ABORTED, "it was changed meanwhile"):
        await ask.resources("Delete", pb.DeleteResourceRequest(kind="room", id="1", version=made.version))
    async with refused(Code.INVALID_ARGUMENT, "nothing is to change"):
        await update()
    async with refused(Code.INVALID_ARGUMENT, "kind", "reset"):
        await update(reset=["kind"])
    async with refused(Code.INVALID_ARGUMENT, "both"):
        await update(cost=2, reset=["cost"])
    async with refused(Code.NOT_FOUND, "room/2"):
        await ask.resources("Update", pb.UpdateResourceRequest(kind="room", id="2", cost=2))


async def test_kinds_are_told_as_they_were_declared(ask: Caller) -> None:
    (kind,) = (await ask.resources("ListKinds", pb.ListKindsRequest(), pb.KindList)).kinds
    assert (kind.name, kind.app, kind.replicas, kind.silent_after) == ("room", "app", 1, Duration(seconds=30))


# Nodes, why, events


async def test_nodes_are_listed_cordoned_and_explained(ask: Caller, store: Store) -> None:
    await join(store, "n1", kinds=("room",))
    await lead(store, "n1")
    await assign(store, "n1", "1", cost=3)
    listed = await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)
    (node,) = listed.nodes
    assert (node.id, node.is_up, node.leads, node.role, node.grpc) == ("n1", True, True, "both", "n1:7701")
    assert (node.slots, node.used, node.tasks, list(node.kinds), node.app) == (10, 3, 1, ["room"], "app")
    assert not node.HasField("cordon")
    assert node.HasField("since")
    assert listed.HasField("as_of")

    cordon = await ask.nodes("Cordon", pb.CordonRequest(node="n1", why="new disk"), pb.CordonAnswer)
    assert (cordon.node, cordon.why, cordon.since.ToDatetime(tzinfo=UTC)) == ("n1", "new disk", CLOCK.wall())
    assert (await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)).nodes[0].cordon == cordon
    why = await ask.nodes("Why", pb.WhyNodeRequest(node="n1"), pb.WhyAnswer)
    assert why.thing == "n1"
    assert "3 of 10 slots" in why.says
    assert list(why.holds)
    assert "new disk" in why.reasons[0]
    for had_one in (True, False):
        answer = await ask.nodes("Uncordon", pb.UncordonRequest(node="n1"), pb.UncordonAnswer)
        assert (answer.node, answer.was_cordoned) == ("n1", had_one)
    async with refused(Code.NOT_FOUND, "n2"):
        await ask.nodes("Cordon", pb.CordonRequest(node="n2"), pb.CordonAnswer)
    async with refused(Code.INVALID_ARGUMENT, "200"):
        await ask.nodes("Cordon", pb.CordonRequest(node="n1", why="x" * 201), pb.CordonAnswer)


async def test_a_resource_is_explained(ask: Caller, store: Store) -> None:
    view = await resource_operations.create_resource(store, CLOCK, {"kind": "room", "id": "1"})
    await settle(store, view, pending="no slots are free", refusals={"n1": "full"})
    why = await ask.resources("Why", pb.WhyResourceRequest(kind="room", id="1"), pb.WhyAnswer)
    assert why.thing == "room/1"
    assert "no slots are free" in why.says
    assert dict(why.refusals) == {"n1": "full"}


async def test_events_are_told(ask: Caller, store: Store) -> None:
    log = EventLog(store, NodeId("a"), CLOCK)
    for number in range(3):
        log.record("node.joined", f"n{number}", term=1)
    await log.flush()
    since = Timestamp()
    since.FromDatetime(datetime(2025, 1, 1, tzinfo=UTC))

    async def told(**how: Any) -> Any:
        return await ask("rota.v1.Events.List", pb.ListEventsRequest(**how), pb.EventList)

    answer = await told(since=since, kinds=["node.*"], node="a", limit=2)
    assert [event.subject for event in answer.events] == ["n1", "n2"]
    event = answer.events[0]
    assert (event.kind, event.severity, event.fields_json) == ("node.joined", "info", '{"term":1}')
    assert event.text
    assert event.at.ToDatetime(tzinfo=UTC) == CLOCK.wall()
    assert not (await told(until=since)).events
    async with refused(Code.INVALID_ARGUMENT, "since is no time"):
        await told(since=Timestamp(seconds=2**60))


# The seed


async def test_a_caller_of_the_seed_gets_the_node(ask: Caller, store: Store) -> None:
    async with leader(store, "task-4", "w2"):
        # By hand, as the seed's field numbers have it: name = 2 in, id = 1 and Address = 2 out.
        answer = await ask.raw("/CrawlerMaster/AddResource", b"\x12\x06task-4")
    assert answer == b"\x0a\x02w2\x12\x07w2:7701"
    assert await ask.add("task-4") == crawler_pb2.NodeSpec(id="w2", Address="w2:7701")
    assert await ask.raw("/CrawlerMaster/DeleteResource", b"\x12\x06task-4") == b""
    async with refused(Code.NOT_FOUND, "no such task"):
        await ask.raw("/CrawlerMaster/DeleteResource", b"\x12\x06task-4")
    async with refused(Code.INVALID_ARGUMENT, "name"):
        await ask.add("")


async def test_what_no_node_can_take_is_kept(ask: Caller, store: Store) -> None:
    async with leader(store, "t", pending="no node is up"):
        async with refused(Code.UNAVAILABLE, "no worker nodes", "no node is up"):
            await ask.add("t")
    assert (await resource_operations.get_resource(store, "room", "t")).id == "t"


@pytest.mark.usefixtures("in_good_time")
async def test_who_adds_is_told_before_its_deadline_that_nobody_has_placed_it(ask: Caller, store: Store) -> None:
    async with refused(Code.DEADLINE_EXCEEDED, "room/t is kept"):
        await ask.add("t")
    assert (await resource_operations.get_resource(store, "room", "t")).id == "t"


# What is refused, whatever was asked


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid("so"), Code.INVALID_ARGUMENT),
        (NotFound("so"), Code.NOT_FOUND),
        (Denied("so"), Code.PERMISSION_DENIED),
        (Conflict("so"), Code.ABORTED),
        (Unavailable("so"), Code.UNAVAILABLE),
        (Unknown("so"), Code.DEADLINE_EXCEEDED),
    ],
)
async def test_each_family_of_errors_has_its_status(error: RotaError, code: grpc.StatusCode) -> None:
    def fail() -> Store:
        raise error

    async with opened(fail) as ask:
        async with refused(code, "so"):
            await ask.resources("Get", pb.GetResourceRequest(kind="room", id="1"))


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), Compacted(Revision(1), Revision(2))])
async def test_what_is_a_bug_is_logged_and_not_told(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Store:
        raise error

    async with opened(fail) as ask:
        async with refused(Code.INTERNAL, "its log has the traceback"):
            await ask.resources("Get", pb.GetResourceRequest(kind="room", id="1"))
    assert "a call of the gRPC API failed" in caplog.messages


@pytest.mark.parametrize("letter", ["e", "é", "🚀"])
async def test_a_long_sentence_arrives_shortened(letter: str) -> None:
    def fail() -> Store:
        raise Invalid(letter * 20_000)

    async with opened(fail) as ask:
        async with refused(Code.INVALID_ARGUMENT, letter * (refusals.MOST_DETAILS - 1) + "…"):
            await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)


async def test_a_node_without_a_store_says_so() -> None:
    async with opened(lambda: None) as ask:
        async with refused(Code.UNAVAILABLE, "not in the fleet yet"):
            await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)


async def test_what_is_too_large_or_no_message_is_refused(ask: Caller) -> None:
    async with refused(Code.RESOURCE_EXHAUSTED, str(refusals.LARGEST)):
        await ask.create(spec_json="x" * refusals.LARGEST)
    async with refused(Code.INVALID_ARGUMENT, "rota.v1.GetResourceRequest"):
        await ask.raw("/rota.v1.Resources/Get", b"\xff" * 10)
    async with refused(Code.UNIMPLEMENTED):
        await ask.raw("/rota.v1.Resources/Explode", b"")


def test_an_answer_that_callers_would_not_take_is_not_sent() -> None:
    with pytest.raises(refusals.TooLarge, match="ask for less"):
        refusals.write(pb.WhyAnswer(says="x" * refusals.LARGEST_ANSWER))


async def test_the_node_link_answers_at_the_same_port(ask: Caller) -> None:
    async with open_link(ask.address) as link:
        assert (await link.check()).node == NODE


# Who is let in


GATE = Doorkeeper(Gate((known("rota_looker", Access.VIEW), known("rota_boss", Access.NODE)), "see: cat data/token"))
LINK = "/rota.v1.Link/Check"


@asynccontextmanager
async def guarded() -> AsyncIterator[Caller]:
    """A door that asks for a token, at a node that has no store yet."""
    async with opened(lambda: None, admit=lambda path, shown: door.turned_away(GATE, path, shown)) as ask:
        yield ask


async def test_every_method_asks_for_what_its_operation_needs() -> None:
    async with guarded() as ask:
        for name, method in door.METHODS.items():
            path = "/" + "/".join(name.rsplit(".", 1))
            async with refused(Code.UNAUTHENTICATED, "needs a token", "cat data/token"):
                await ask.raw(path, b"")
            async with refused(Code.UNAUTHENTICATED, "not known here"):
                await ask.raw(path, b"", token="rota_wrong")
            may_look = OPERATIONS[method.operation] is Access.VIEW
            async with refused(Code.UNAVAILABLE if may_look else Code.PERMISSION_DENIED):
                await ask.raw(path, b"", token="rota_looker")
            async with refused(Code.UNAVAILABLE, "not in the fleet yet"):
                await ask.raw(path, b"", token="rota_boss")


async def test_health_needs_no_token_and_reflection_one_to_look() -> None:
    async with guarded() as ask:
        assert await ask.raw("/grpc.health.v1.Health/Check", b"")
        for service in ("grpc.reflection.v1.ServerReflection", introspection.OLDER_REFLECTION):
            reflect: Any = ask.channel.stream_stream(f"/{service}/ServerReflectionInfo")
            async with refused(Code.UNAUTHENTICATED, "needs a token"):
                await anext(aiter(reflect(timeout=PATIENCE)))
            stream = reflect(
                iter([Asked(list_services="").SerializeToString()]),
                timeout=PATIENCE,
                metadata=(("authorization", "Bearer rota_looker"),),
            )
            assert await anext(aiter(stream))


async def test_the_node_link_is_for_nodes_and_so_is_what_nobody_knows() -> None:
    async with guarded() as ask:
        for path in (LINK, "/rota.v1.Resources/Explode", "/"):
            async with refused(Code.UNAUTHENTICATED):
                await ask.raw(path, b"")
            async with refused(Code.PERMISSION_DENIED, "needs a token for node"):
                await ask.raw(path, b"", token="rota_looker")
        async with open_link(ask.address, token="rota_boss") as link:
            assert (await link.check()).node == NODE
        async with open_link(ask.address, token="rota_looker") as link:
            with pytest.raises(Denied, match="needs a token for node"):
                await link.check()


# Health


async def test_health_is_that_of_the_node() -> None:
    health, ill = HealthChecks(CLOCK), [""]
    health.check_ready("session", lambda: ill[0] or None)

    async with opened(lambda: None, health) as ask:

        async def status(service: str = "") -> int:
            request = health_pb2.HealthCheckRequest(service=service)
            return int((await ask("grpc.health.v1.Health.Check", request, Served)).status)

        assert await status() == await status("rota.v1.Resources") == await status("CrawlerMaster") == Served.SERVING
        ill[0] = "not in the fleet"
        assert await status() == await status("rota.v1.Nodes") == Served.NOT_SERVING
        async with refused(Code.NOT_FOUND, "rota.v1.Nothing"):
            await status("rota.v1.Nothing")


async def test_a_health_watch_tells_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "WATCHED", timedelta(milliseconds=5))
    health, ill = HealthChecks(CLOCK), [""]
    health.check_ready("session", lambda: ill[0] or None)
    async with opened(lambda: None, health) as ask:
        watch: Any = ask.channel.unary_stream("/grpc.health.v1.Health/Watch")
        call = watch(b"", timeout=PATIENCE)
        assert Served.FromString(await call.read()).status == Served.SERVING
        ill[0] = "not in the fleet"
        assert Served.FromString(await call.read()).status == Served.NOT_SERVING
        ill[0] = ""
        assert Served.FromString(await call.read()).status == Served.SERVING
        call.cancel()
        unknown = watch(health_pb2.HealthCheckRequest(service="x").SerializeToString(), timeout=PATIENCE)
        assert Served.FromString(await unknown.read()).status == Served.SERVICE_UNKNOWN
        unknown.cancel()


async def test_streams_end_when_the_door_is_to_close() -> None:
    stopping = asyncio.Event()
    async with opened(lambda: None, stopping=stopping) as ask:
        begin: Any = ask.channel.unary_stream("/grpc.health.v1.Health/Watch")
        watch = begin(b"", timeout=PATIENCE)
        reflect: Any = ask.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")(
            timeout=PATIENCE
        )
        await watch.read()
        await reflect.write(Asked(list_services="").SerializeToString())
        await reflect.read()
        stopping.set()
        for stream in (watch, reflect):
            async with refused(Code.UNAVAILABLE, "stopping"):
                await stream.read()


# Reflection


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_a_tool_learns_all_services_and_their_messages(version: str) -> None:
    async with opened(lambda: None) as ask:
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        call: Any = ask.channel.stream_stream(path)(timeout=PATIENCE)

        async def told(**asked: Any) -> Any:
            await call.write(Asked(**asked).SerializeToString())
            return reflection_pb2.ServerReflectionResponse.FromString(await call.read())

        services = [each.name for each in (await told(list_services="")).list_services_response.service]
        assert services == [
            "CrawlerMaster",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "rota.v1.Audit",
            "rota.v1.Events",
            "rota.v1.Fleet",
            "rota.v1.Hooks",
            "rota.v1.Jobs",
            "rota.v1.Nodes",
            "rota.v1.Placement",
            "rota.v1.Relays",
            "rota.v1.Resources",
            "rota.v1.Runs",
            "rota.v1.Services",
            "rota.v1.Streams",
            "rota.v1.Tokens",
        ]
        # What is told is enough to know every message, in a process that has none of our code.
        pool = descriptor_pool.DescriptorPool()
        files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        for service in services:
            answer = await told(file_containing_symbol=service)
            for content in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(content)
                files.pop(file.name, None)  # one that several import comes behind all of them
                files[file.name] = file
        for file in reversed(files.values()):  # what is imported comes behind what imports it
            pool.Add(file)
        for service in services:
            assert pool.FindServiceByName(service).methods
        fields = pool.FindMessageTypeByName("ResourceSpec").fields
        assert {each.name: each.number for each in fields} == {
            "id": 1, "name": 2, "assigned_node": 3, "creation_time": 4,
        }  # fmt: skip
        by_name = await told(file_by_filename="google/protobuf/empty.proto")
        assert len(by_name.file_descriptor_response.file_descriptor_proto) == 1
        method = await told(file_containing_symbol="rota.v1.Resources.Create")
        assert method.file_descriptor_response.file_descriptor_proto
        for asked in (
            {"file_containing_symbol": "rota.link.v1.Link"},  # between nodes; not for tools
            {"file_containing_symbol": "nothing"},
            {"file_by_filename": "../../etc/passwd"},
            {"all_extension_numbers_of_type": "rota.v1.Node"},
        ):
            assert (await told(**asked)).error_response.error_code == Code.NOT_FOUND.value[0]
        assert (await told()).error_response.error_code == Code.UNIMPLEMENTED.value[0]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


# Watches


async def told(calls: Any, count: int) -> list[Any]:
    async with asyncio.timeout(60):
        return [await calls.read() for _ in range(count)]


async def test_resources_are_watched_until_the_node_stops(store: Store) -> None:
    watches = Watches()
    async with opened(lambda: store, watches=watches) as caller:
        await caller.create("1")
        watching: Any = caller.channel.unary_stream(
            "/rota.v1.Resources/Watch", response_deserializer=pb.ResourceChange.FromString
        )(pb.WatchResourcesRequest(kind="room").SerializeToString())
        first, synced = await told(watching, 2)
        assert (first.what, first.resource.id, first.HasField("resume")) == ("put", "1", False)
        assert (synced.what, synced.HasField("resource")) == ("synced", False)
        made = await caller.create("2")
        (put,) = await told(watching, 1)
        assert (put.resource, put.resume) == (made, made.version)
        again: Any = caller.channel.unary_stream(
            "/rota.v1.Resources/Watch", response_deserializer=pb.ResourceChange.FromString
        )(pb.WatchResourcesRequest(after=synced.resume).SerializeToString())
        assert [each.what for each in await told(again, 2)] == ["synced", "put"]
        await watches.close()
        async with refused(Code.UNAVAILABLE, "stopping"):
            await told(watching, 1)


async def test_events_are_watched(store: Store) -> None:
    log = EventLog(store, NodeId("n1"), CLOCK)
    async with opened(lambda: store) as caller:
        watching: Any = caller.channel.unary_stream(
            "/rota.v1.Events/Watch", response_deserializer=pb.Happened.FromString
        )(pb.WatchEventsRequest(kinds=["node.*"]).SerializeToString())
        (synced,) = await told(watching, 1)
        assert not synced.HasField("event")
        log.record("node.joined", "b")
        await log.flush()
        (one,) = await told(watching, 1)
        assert (one.event.kind, one.event.subject) == ("node.joined", "b")
        watching.cancel()


async def test_a_watch_of_events_begins_with_those_that_were_unless_it_asks_for_none(store: Store) -> None:
    log = EventLog(store, NodeId("n1"), CLOCK)
    for number in range(51):
        log.record("node.joined", f"n{number}")
    await log.flush()
    async with opened(lambda: store) as caller:
        for limit, count in ((None, 50), (1, 1), (0, 0)):
            watching: Any = caller.channel.unary_stream(
                "/rota.v1.Events/Watch", response_deserializer=pb.Happened.FromString
            )(pb.WatchEventsRequest(limit=limit).SerializeToString())
            assert [each.HasField("event") for each in await told(watching, count + 1)] == [True] * count + [False]
            watching.cancel()


async def test_a_watch_says_what_is_wrong(ask: Caller) -> None:
    watching: Any = ask.channel.unary_stream("/rota.v1.Resources/Watch")(
        pb.WatchResourcesRequest(after=-1).SerializeToString()
    )
    async with refused(Code.INVALID_ARGUMENT, "after"):
        await watching.read()


async def test_a_node_is_drained_and_a_plan_told(ask: Caller, store: Store) -> None:
    await join(store, "n1", kinds=("room",))
    await join(store, "n2", kinds=("room",))
    await ask.create()
    await assign(store, "n1", "1")
    deadline, before = Duration(seconds=60), await store.now()
    drain = await ask.nodes("Drain", pb.DrainRequest(node="n1", why="disk", deadline=deadline), pb.DrainAnswer)
    assert (drain.node, drain.why, drain.tasks) == ("n1", "disk", 1)
    assert before <= drain.deadline.ToDatetime(tzinfo=UTC) - timedelta(seconds=60) <= await store.now()
    assert (await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)).nodes[0].drain == drain
    plan = await ask("rota.v1.Placement.Plan", pb.PlanRequest(), pb.PlanAnswer)
    assert [(move.source, move.target) for move in plan.moves] == [("n1", "n2")]
    assert [(node.id, node.before, node.after) for node in plan.nodes] == [("n1", 1, 0), ("n2", 0, 1)]
    for had_one in (True, False):
        answer = await ask.nodes("Undrain", pb.UndrainRequest(node="n1"), pb.UndrainAnswer)
        assert answer.was_drained is had_one


async def test_affinity_and_tags_travel_both_ways(ask: Caller) -> None:
    request = pb.CreateResourceRequest(
        kind="room", id="1", tags={"app": "db"}, affinity=pb.Affinity(apart={"app": "web"}, prefer={"disk": "ssd"})
    )
    made = await ask.resources("Create", request, pb.Resource)
    assert (dict(made.tags), dict(made.affinity.apart)) == ({"app": "db"}, {"app": "web"})
    update = pb.UpdateResourceRequest(kind="room", id="1", affinity=pb.Affinity(near={"kind": "x"}), reset=["tags"])
    changed = await ask.resources("Update", update, pb.Resource)
    assert (dict(changed.tags), dict(changed.affinity.apart), dict(changed.affinity.near)) == ({}, {}, {"kind": "x"})


async def test_a_node_is_labelled(ask: Caller, store: Store) -> None:
    await join(store, "n1")  # its settings say zone=a
    request = pb.LabelNodeRequest(node="n1", labels={"gpu": "yes"}, remove=["zone"])
    assert dict((await ask.nodes("Label", request, pb.LabelsAnswer)).labels) == {"gpu": "yes"}
    node = await ask.nodes("Get", pb.GetNodeRequest(node="n1"), pb.Node)
    assert (dict(node.labels), dict(node.configured_labels)) == ({"gpu": "yes"}, {"zone": "a"})
    answer = await ask.nodes("Label", pb.LabelNodeRequest(node="n1", reset=True), pb.LabelsAnswer)
    assert dict(answer.labels) == {"zone": "a"}


async def test_slots_of_a_node_are_set(ask: Caller, store: Store) -> None:
    await join(store, "n1")
    answer = await ask.nodes("SetSlots", pb.SetSlotsRequest(node="n1", slots=3), pb.SlotsAnswer)
    assert (answer.node, answer.slots) == ("n1", 3)
    (node,) = (await ask.nodes("List", pb.ListNodesRequest(), pb.NodeList)).nodes
    assert (node.slots, node.configured_slots) == (3, 10)
    answer = await ask.nodes("SetSlots", pb.SetSlotsRequest(node="n1"), pb.SlotsAnswer)
    assert not answer.HasField("slots")
    async with refused(Code.INVALID_ARGUMENT, "slots is -1"):
        await ask.nodes("SetSlots", pb.SetSlotsRequest(node="n1", slots=-1), pb.SlotsAnswer)
