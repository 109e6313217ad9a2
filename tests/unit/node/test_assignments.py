"""A node's orders are what the store says, whole, and stay when the store is away."""

import asyncio

from rota.kit import virtual
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.ids import NodeId
from rota.node.assignments import follow_assignments
from rota.node.pipes import Order
from rota.store import Delete, Put, open_store

NODE = NodeId("a")


def key(task: str, node: NodeId = NODE) -> str:
    return keys.assignments(node) + task


def record(resource: str, **fields: object) -> bytes:
    return codec.encode(Assignment(kind="room", resource=resource, slot=0, **fields))  # type: ignore[arg-type]


def test_orders_follow_the_store() -> None:
    async def story() -> list[list[Order]]:
        seen: list[list[Order]] = []
        async with open_store("memory://") as store:
            first = await store.commit(Put(key("room/1#0"), record("1", spec={"a": 1})))
            await store.commit(Put(key("room/9#0", NodeId("ab")), record("9")))  # a neighbour with a similar name
            following = asyncio.create_task(follow_assignments(store, NODE, lambda orders: seen.append(list(orders))))
            await asyncio.sleep(1)
            second = await store.commit(Put(key("room/2#0"), record("2", exclusive=True)))
            await asyncio.sleep(1)
            await store.commit(Put(key("room/3#0"), b"nonsense"), Delete(key("room/1#0")))
            await asyncio.sleep(1)
            third = await store.commit(Put(key("room/2#0"), record("2")))
            await asyncio.sleep(1)
            following.cancel()
        assert [[(order.task, order.epoch, order.is_exclusive) for order in orders] for orders in seen] == [
            [("room/1#0", first, False)],
            [("room/1#0", first, False), ("room/2#0", second, True)],
            [("room/2#0", second, True)],
            [("room/2#0", third, False)],
        ]
        return seen

    seen = virtual.run(story())
    assert seen[0][0] == Order("room/1#0", seen[0][0].epoch, "room", "1", 0, b'{"a":1}', False)
