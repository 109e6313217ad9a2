"""What can be asked about relays, on a store in which the tests write what nodes and a leader would."""

from collections.abc import AsyncIterator

import pytest

from rota.model import keys
from rota.model.errors import NotFound
from rota.model.ids import NodeId
from rota.relay.doors import operations as relays
from rota.store import Put, Store, open_store
from tests.kit.fleet_records import create, declare
from tests.kit.relay_records import IDLE, RELAY, count, status, write_map


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        yield store


async def test_no_relays_are_no_error(store: Store) -> None:
    found = await relays.list_relays(store)
    assert (found.relays, found.map, found.is_idle) == ((), None, True)


async def test_each_relay_is_told_with_its_node_and_whether_messages_meet_there(store: Store) -> None:
    await write_map(store, "a")
    await status(store, "b", IDLE)
    await status(store, "a")
    found = await relays.list_relays(store)
    assert [(relay.node, relay.is_home, relay.is_idle) for relay in found.relays] == [
        ("a", True, False),
        ("b", False, True),
    ]
    assert found.relays[0].status == RELAY
    assert found.relays[0].age_s == round((found.as_of - RELAY.since).total_seconds())
    assert not found.is_idle
    assert (await relays.list_relays(store, node="b")).is_idle


async def test_a_node_without_a_relay_is_named_with_those_that_have_one(store: Store) -> None:
    with pytest.raises(NotFound, match='node "c" has no relay; there are none'):
        await relays.list_relays(store, node="c")
    await status(store, "a")
    with pytest.raises(NotFound, match='node "c" has no relay; there are some on a'):
        await relays.list_relays(store, node="c")


async def test_what_a_newer_rota_wrote_is_listed_with_what_is_wrong_and_not_taken_for_idle(store: Store) -> None:
    await store.commit(Put(keys.relay_status(NodeId("a")), b'{"v": 99}'))
    (relay,) = (await relays.list_relays(store)).relays
    assert relay.status is None
    assert relay.not_understood
    assert not relay.is_idle


async def test_messages_are_counted_of_resources_that_there_are(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no resource room/1"):
        await relays.count_messages(store, count, "room", "1")
    await create(store)
    assert (await relays.count_messages(store, count, "room", "1")).unique == 7
