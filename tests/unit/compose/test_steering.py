"""Who is asked what only one node can answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from msgspec.structs import fields

from rota.compose.metrics import NodeFigures, registry
from rota.compose.steering import FleetSteering
from rota.doors.behind import NodeBackend
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc.pb import services_pb2 as pb
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door, serve
from rota.doors.http.listen import address_of, bind
from rota.doors.steer import SteerVerb
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, known
from rota.fleet.doors import steering
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.link import serve_link
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.runtime.loader.reload import Reloaded, ReloadFailed
from rota.services.core.records import ServiceStat
from rota.services.doors.control import service_verbs
from rota.store import Put, Store, open_store
from tests.kit.fleet_records import join
from tests.kit.grpc_caller import Caller, Code, refused
from tests.kit.link_server import Desk
from tests.kit.relay_records import count
from tests.kit.services import MemoryServices

TOKEN = "rota_shared_by_all_nodes"
GATE = Doorkeeper(Gate((known(TOKEN, Access.NODE),), "cat token"))
A, B = NodeId("a"), NodeId("b")
LISTENING = "tcp://127.0.0.1:9900"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await join(store, "a", kinds=("room",))
        await join(store, "b", kinds=("room",))
        yield store


@pytest.fixture
def services() -> MemoryServices:
    return MemoryServices({"logic": {1: 2, 2: 1}})


@pytest.fixture
async def other(store: Store, services: MemoryServices) -> AsyncIterator[None]:
    """Node b with its door, and the store says where it is."""
    steer = steering_of(store, "b", services)
    behind = NodeBackend(lambda: store, SYSTEM, Watches(), count, steer=steer)
    sock = bind("127.0.0.1:0")
    app = door(HealthChecks(SYSTEM), registry(NodeFigures), dict, gate=GATE, more=resources.routes(behind))
    serving = asyncio.create_task(serve(sock, app))
    await move(store, "b", address_of(sock))
    yield
    serving.cancel()
    await asyncio.wait([serving])
    sock.close()


def steering_of(store: Store | None, node: str, services: MemoryServices | None = None) -> FleetSteering:
    async def reload(_: dict[str, Any]) -> Any:
        return Reloaded(2, 1)

    async def rollback(_: dict[str, Any]) -> Any:
        raise ReloadFailed("generation 2 keeps running: it would not run")

    own = {"reload": reload, "rollback": rollback, **service_verbs(lambda: services, dict)}
    return FleetSteering(NodeId(node), lambda: store, own, lambda: TOKEN)


async def move(store: Store, node: str, address: str) -> None:
    entry = await store.get(keys.node(NodeId(node)))
    assert entry is not None
    record = replace(codec.decode(Node, entry.value), http=address)
    await store.commit(Put(entry.key, codec.encode(record)))


async def test_a_node_answers_for_itself(store: Store, services: MemoryServices) -> None:
    steer = steering_of(store, "a", services)
    assert await steering.reload_node(steer, "a") == Reloaded(2, 1)
    (row,) = await steering.node_services(steer, "a")
    assert row["stat"].workers == {"1": 2, "2": 1}
    assert (await steering.resize_service(steer, "a", "logic", 1, 5))["before"] == 2
    with pytest.raises(Conflict, match="generation 2 keeps running"):
        await steering.rollback_node(steer, "a")


async def test_another_node_is_asked_at_its_door(store: Store, services: MemoryServices, other: None) -> None:
    steer = steering_of(store, "a")
    services.enqueue("logic", 2, 3)
    assert await steering.reload_node(steer, "b") == {"generation": 2, "previous": 1}
    (row,) = await steering.node_services(steer, "b")
    assert row["stat"]["pending_tasks"]["2"] == 3
    assert (await steering.clear_service(steer, "b", "logic", [2]))["dropped"] == {"2": 3}
    done = await steering.resize_service(steer, "b", "logic", 1, 7)
    assert done == {"service": "logic", "group": 1, "before": 2, "count": 7}


async def test_what_another_node_refuses_is_refused(store: Store, other: None) -> None:
    steer = steering_of(store, "a")
    with pytest.raises(Conflict, match="generation 2 keeps running: it would not run"):
        await steering.rollback_node(steer, "b")
    with pytest.raises(NotFound, match='there is no service "magic"'):
        await steering.resize_service(steer, "b", "magic", 1, 2)
    with pytest.raises(Invalid, match="count"):
        await steering.resize_service(steer, "b", "logic", 1, 0)


async def test_a_request_is_passed_on_once(store: Store, other: None) -> None:
    """Node c is said to be where b is."""
    await join(store, "c")
    entry = await store.get(keys.node(B))
    assert entry is not None
    await move(store, "c", codec.decode(Node, entry.value).http)
    with pytest.raises(Conflict, match="node c was meant, but node b is here"):
        await steering.reload_node(steering_of(store, "a"), "c")


async def test_a_node_that_is_not_there_or_not_reached_is_named(store: Store) -> None:
    steer = steering_of(store, "a")
    with pytest.raises(NotFound, match='there is no node "z"'):
        await steering.reload_node(steer, "z")
    await move(store, "b", "127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"node b was not reached at 127\.0\.0\.1:1"):
        await steering.reload_node(steer, "b")
    await move(store, "b", "")
    with pytest.raises(Unavailable, match="has no HTTP door"):
        await steer(B, SteerVerb.SERVICES)
    with pytest.raises(Unavailable, match="not in the fleet yet"):
        await steering_of(None, "a")(B, SteerVerb.SERVICES)


async def test_the_list_has_every_node_with_services_and_the_reason_where_one_is_silent(
    store: Store, services: MemoryServices
) -> None:
    await move(store, "b", "127.0.0.1:1")
    listed = await steering.list_services(store, steering_of(store, "a", services))
    own, silent = listed.nodes
    assert (own.node, [row["service"] for row in own.services], own.error) == (A, ["logic"], "")
    assert (silent.node, silent.services) == (B, [])
    assert "was not reached" in silent.error
    without = await steering.list_services(store, steering_of(store, "a"))
    assert [each.node for each in without.nodes] == [B]


# Over gRPC


@asynccontextmanager
async def asked_over_grpc(steer: FleetSteering, store: Store, notes: list[dict[str, str]]) -> AsyncIterator[Caller]:
    """Somebody at the gRPC door of a node that steers."""
    behind = NodeBackend(lambda: store, SYSTEM, Watches(), count, steer=steer, note=lambda **line: notes.append(line))

    def more() -> list[grpc.GenericRpcHandler]:
        return grpc_door.handlers(behind, HealthChecks(SYSTEM), asyncio.Event())

    async with serve_link("grpc://127.0.0.1:0", Desk(), more=more) as server:
        async with grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel:
            yield Caller(channel, server.address)


async def test_services_over_grpc_are_those_of_the_node_that_is_meant(
    store: Store, services: MemoryServices, other: None
) -> None:
    services.enqueue("logic", 2, 3)
    services.work("logic", 1, 4, ms=7)
    async with asked_over_grpc(steering_of(store, "a", services), store, []) as ask:
        listed = await ask("rota.v1.Services.List", pb.ListServicesRequest(), pb.ServiceList)
        own, passed_on = listed.nodes
        assert (own.node, passed_on.node, own.error, passed_on.error) == ("a", "b", "", "")
        assert list(own.services) == list(passed_on.services)
        for node in (own, passed_on):
            assert node == await ask("rota.v1.Services.OfNode", pb.NodeServicesRequest(node=node.node), pb.NodeServices)
        (row,) = own.services
        assert (row.service, row.HasField("admin"), row.HasField("error")) == ("logic", False, False)
        stat = row.stat
        assert (stat.client_req, list(stat.listening), stat.HasField("not_listening")) == (7, [LISTENING], False)
        assert (dict(stat.workers), dict(stat.pending_tasks)) == ({"1": 2, "2": 1}, {"1": 0, "2": 3})
        assert (stat.groups["1"].count, sum(stat.tasks_time.values())) == (4, 4)


def test_the_contract_has_every_figure_of_a_service() -> None:
    assert [field.name for field in pb.ServiceStat.DESCRIPTOR.fields] == [field.name for field in fields(ServiceStat)]


async def test_a_service_that_is_silent_is_told_over_grpc_with_the_reason(
    store: Store, services: MemoryServices
) -> None:
    services.silent.add("logic")
    async with asked_over_grpc(steering_of(store, "a", services), store, []) as ask:
        found = await ask("rota.v1.Services.OfNode", pb.NodeServicesRequest(node="a"), pb.NodeServices)
        (row,) = found.services
        assert not row.HasField("stat")
        assert "did not answer" in row.error
        listed = await ask("rota.v1.Services.List", pb.ListServicesRequest(), pb.ServiceList)
        assert [(node.node, len(node.services), bool(node.error)) for node in listed.nodes] == [
            ("a", 1, False),
            ("b", 0, True),
        ]


@pytest.mark.parametrize("node", ["a", "b"])
async def test_services_are_steered_over_grpc_and_the_trail_says_who(
    store: Store, services: MemoryServices, other: None, node: str
) -> None:
    notes: list[dict[str, str]] = []
    services.enqueue("logic", 1, 2)
    services.enqueue("logic", 2, 3)
    async with asked_over_grpc(steering_of(store, "a", services), store, notes) as ask:
        resized = await ask(
            "rota.v1.Services.Resize",
            pb.ResizeServiceRequest(node=node, service="logic", group=1, count=5),
            pb.ServiceResized,
        )
        assert (resized.service, resized.group, resized.before, resized.count) == ("logic", 1, 2, 5)
        request = pb.ClearServiceRequest(node=node, service="logic", groups=[2])
        cleared = await ask("rota.v1.Services.Clear", request, pb.ServiceCleared)
        assert (cleared.service, dict(cleared.dropped)) == ("logic", {"2": 3})
        request = pb.ClearServiceRequest(node=node, service="logic")
        assert sum((await ask("rota.v1.Services.Clear", request, pb.ServiceCleared)).dropped.values()) == 2
        reloaded = await ask("rota.v1.Services.Reload", pb.ReloadRequest(node=node), pb.Reloaded)
        assert (reloaded.generation, reloaded.previous) == (2, 1)
        async with refused(Code.ABORTED, "generation 2 keeps running"):
            await ask("rota.v1.Services.Rollback", pb.RollbackRequest(node=node), pb.Reloaded)
        async with refused(Code.INVALID_ARGUMENT, "count"):
            wrong = pb.ResizeServiceRequest(node=node, service="logic", group=1)
            await ask("rota.v1.Services.Resize", wrong, pb.ServiceResized)
        async with refused(Code.NOT_FOUND, 'there is no node "z"'):
            await ask("rota.v1.Services.Reload", pb.ReloadRequest(node="z"), pb.Reloaded)
    assert [line["what"] for line in notes] == [
        f"resize_service {node} logic 1 5",
        f"clear_service {node} logic [2]",
        f"clear_service {node} logic all",
        f"reload_node {node}",
        f"rollback_node {node}",
        f"resize_service {node} logic 1 0",
        "reload_node z",
    ]
    assert {line["origin"] for line in notes} == {"grpc 127.0.0.1"}
