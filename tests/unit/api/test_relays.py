"""What can be asked about relays, on a store in which the tests write what nodes and a leader would."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from rota.api import relays
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import NotFound
from rota.model.ids import NodeId
from rota.model.relay import RelayMap, RelayStatus, ResourceTally, SinkState, SinkStatus
from rota.store import Put, Store, open_store
from tests.unit.api.test_operations import create, declare

SINK = SinkStatus(
    sink="amqp://box",
    state=SinkState.DOWN,
    published=30,
    confirmed=20,
    rejected={"no queue": 1},
    waiting=2,
    under_way=3,
    spool_messages=7,
    spool_bytes=700,
    spool_limit=1_000_000,
    last_error="cannot connect",
)
RELAY = RelayStatus(
    address="127.0.0.1:9",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    map_version=4,
    lines=3,
    window=40,
    passed_on=5,
    waiting=6,
    unreached={"n9": "its token is another"},
    refused={"an earlier epoch": 2},
    sinks=(SINK,),
)
IDLE = replace(SINK, state=SinkState.UP, waiting=0, under_way=0, spool_messages=0, spool_bytes=0, last_error="")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        yield store


async def status(store: Store, node: str, *sinks: SinkStatus) -> None:
    """Write how a relay is, as its node would."""
    told = replace(RELAY, sinks=sinks, waiting=0) if sinks else RELAY
    await store.commit(Put(keys.relay_status(NodeId(node)), codec.encode(told)))


async def write_map(store: Store, *nodes: str) -> None:
    """Write a relay map, as a leader would."""
    made = RelayMap(version=1, nodes=tuple(map(NodeId, nodes)))
    await store.commit(Put(keys.RELAY_MAP, codec.encode(made)))


async def count(kind: str, resource: str) -> ResourceTally:
    """A relay's answer."""
    return ResourceTally(kind=kind, resource=resource, unique=7, duplicates=6, seen_by_one=1, last_s=0.5)


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
