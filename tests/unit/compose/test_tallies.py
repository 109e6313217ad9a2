"""Who is asked what was counted of a resource's messages."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.compose.tallies import FleetTallies
from rota.doors.behind import NodeBackend
from rota.doors.grpc import door
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, known
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.link import serve_link
from rota.model import codec, keys
from rota.model.errors import NotFound, Unavailable
from rota.model.ids import NodeId
from rota.model.node import Node
from rota.relay.core.records import ResourceTally
from rota.store import Put, Store, open_store
from tests.kit.fleet_records import create, declare, join
from tests.kit.link_server import Desk
from tests.kit.relay_records import count, write_map

TOKEN = "rota_shared_by_all_nodes"
GATE = Doorkeeper(Gate((known(TOKEN, Access.NODE),), "cat token"))


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        await create(store)
        yield store


async def counted(kind: str, resource: str) -> tuple[ResourceTally, ...]:
    return (await count(kind, resource),) if resource == "1" else ()


def tallies(store: Store | None, node: str = "a", token: str = TOKEN) -> FleetTallies:
    return FleetTallies(NodeId(node), lambda: store, counted, lambda: token)


async def test_the_own_relay_is_asked_if_messages_meet_there(store: Store) -> None:
    await write_map(store, "a")
    assert await tallies(store)("room", "1") == await count("room", "1")
    assert (await tallies(store)("room", "2")).unique == 0


async def test_another_nodes_relay_is_asked_at_its_door_with_the_shared_token(store: Store) -> None:
    await write_map(store, "a")
    await join(store, "a")

    def more() -> list[object]:
        return list(
            door.handlers(
                NodeBackend(lambda: store, SYSTEM, Watches(), tallies(store)), HealthChecks(SYSTEM), asyncio.Event()
            )
        )

    def admit(method: str, authorization: str | None) -> object:
        return door.turned_away(GATE, method, authorization)

    async with serve_link("grpc://127.0.0.1:0", Desk(), more=more, admit=admit) as server:  # type: ignore[arg-type]
        await _move_door(store, server.address.removeprefix("grpc://"))
        assert await tallies(store, "b")("room", "1") == await count("room", "1")
        with pytest.raises(Unavailable, match=r"counted on node a, which gave no answer .*not known"):
            await tallies(store, "b", token="rota_another")("room", "1")
    with pytest.raises(Unavailable, match="counted on node a, which gave no answer"):
        await tallies(store, "b")("room", "1")


async def test_what_is_missing_is_named(store: Store) -> None:
    with pytest.raises(Unavailable, match="not in the fleet yet"):
        await tallies(None)("room", "1")
    with pytest.raises(NotFound, match="does its kind have a sink"):
        await tallies(store)("room", "1")
    await write_map(store, "a")
    with pytest.raises(Unavailable, match="node a, which has no gRPC door"):
        await tallies(store, "b")("room", "1")


async def _move_door(store: Store, address: str) -> None:
    entry = await store.get(keys.node(NodeId("a")))
    assert entry is not None
    await store.commit(Put(entry.key, codec.encode(replace(codec.decode(Node, entry.value), grpc=address))))
