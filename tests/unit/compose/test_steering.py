"""Who is asked what only one node can answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from rota.api import resources, steering
from rota.api.behind import Behind
from rota.api.doorkeeper import Doorkeeper
from rota.api.health import Health
from rota.api.http import door, serve
from rota.api.listen import address_of, bind
from rota.api.metrics import Figures, registry
from rota.api.steer import Verb
from rota.api.watches import Watches
from rota.compose.service_verbs import service_verbs
from rota.compose.steering import FleetSteering
from rota.decide.access import Access, Gate, known
from rota.kit.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.node.reload import Reloaded, ReloadFailed
from rota.store import Put, Store, open_store
from tests.kit.services import MemoryServices
from tests.unit.api.test_operations import join
from tests.unit.api.test_relays import count

TOKEN = "rota_shared_by_all_nodes"
GATE = Doorkeeper(Gate((known(TOKEN, Access.NODE),), "cat token"))
A, B = NodeId("a"), NodeId("b")


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
    behind = Behind(lambda: store, SYSTEM, Watches(), count, steer=steer)
    sock = bind("127.0.0.1:0")
    app = door(Health(SYSTEM), registry(Figures), dict, gate=GATE, more=resources.routes(behind))
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
        raise ReloadFailed("generation 2 serves on: it would not run")

    own = {"reload": reload, "rollback": rollback, **service_verbs(lambda: services, dict)}
    return FleetSteering(NodeId(node), lambda: store, own, TOKEN)


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
    with pytest.raises(Conflict, match="generation 2 serves on"):
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
    with pytest.raises(Conflict, match="generation 2 serves on: it would not run"):
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
        await steer(B, Verb.SERVICES)
    with pytest.raises(Unavailable, match="not in the fleet yet"):
        await steering_of(None, "a")(B, Verb.SERVICES)


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
