"""The leader's hand on the relay map, on the memory store in virtual time."""

import asyncio
from typing import Any

from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap
from rota.relay.fleet.map import keep_relay_map
from rota.store import Delete, Put, Store
from tests.kit.elections import play
from tests.kit.relay_reports import Nodes, say

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


class Leader:
    """Keeps the map, and the events it told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def lead(self, term: Term) -> None:
        await keep_relay_map(term, self._tell)

    def _tell(self, kind: str, subject: str, **fields: Any) -> None:
        assert kind == "relay.mapped"
        self.told.append((subject, fields))


async def map_now(store: Store) -> RelayMap | None:
    await asyncio.sleep(1)
    entry = await store.get(keys.RELAY_MAP)
    return codec.decode(RelayMap, entry.value) if entry else None


def test_the_map_follows_the_relays() -> None:
    leader = Leader()

    async def story(store: Store, node: Nodes) -> None:
        node("a", leader.lead)
        assert await map_now(store) is None
        await say(store, A, 0)
        assert await map_now(store) == RelayMap(version=1, nodes=(A,))
        await say(store, B, 1)
        assert await map_now(store) == RelayMap(version=1, nodes=(A,)), "nobody moves before all go by the map"
        await say(store, A, 1)
        assert await map_now(store) == RelayMap(version=2, nodes=(A, B), before=(A,))
        await say(store, A, 2, moving=True)
        await say(store, B, 2, leaving=True)
        assert await map_now(store) == RelayMap(version=2, nodes=(A, B), before=(A,)), "a move is under way"
        await say(store, A, 2)
        assert await map_now(store) == RelayMap(version=3, nodes=(A,), before=(A, B))

    play(story)
    assert [subject for subject, _ in leader.told] == ["1", "2", "3"]
    assert leader.told[1][1]["before"] == "a"


def test_a_relay_that_dies_is_left_out_at_once() -> None:
    async def story(store: Store, node: Nodes) -> None:
        for relay in (A, B, C):
            await say(store, relay, 0)
        node("a", Leader().lead)
        assert await map_now(store) == RelayMap(version=1, nodes=(A, B, C))
        await say(store, A, 1, moving=True)
        await store.commit(Delete(keys.relay_status(B)))
        assert await map_now(store) == RelayMap(version=2, nodes=(A, C))

    play(story)


def test_the_next_leader_goes_on_from_the_map_there_is() -> None:
    async def story(store: Store, node: Nodes) -> None:
        first = node("a", Leader().lead)
        await say(store, A, 0)
        await map_now(store)
        first.cancel()
        await asyncio.wait([first])
        second = Leader()
        node("b", second.lead)
        assert await map_now(store) == RelayMap(version=1, nodes=(A,))
        assert second.told == []
        await say(store, B, 1)
        await say(store, A, 1)
        assert await map_now(store) == RelayMap(version=2, nodes=(A, B), before=(A,))

    play(story)


def test_a_map_of_a_newer_rota_is_left_alone() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await store.commit(Put(keys.RELAY_MAP, b'{"v":99}'))
        node("a", Leader().lead)
        await say(store, A, 0)
        await asyncio.sleep(2)
        entry = await store.get(keys.RELAY_MAP)
        assert entry is not None
        assert entry.value == b'{"v":99}'

    play(story)
