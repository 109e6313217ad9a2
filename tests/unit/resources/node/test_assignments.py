"""A node's orders are what the store says, whole; what it stops or gives back leaves the store when it has ended."""

import asyncio
from collections.abc import Iterable, Mapping

from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Relief, Trouble
from rota.resources.node.assignments import follow_assignments
from rota.runtime.pipes.brief import Order
from rota.store import Delete, Put, Store, open_store

NODE = NodeId("a")


class Work:
    """Runs what it is told, as far as the store can see."""

    def __init__(self) -> None:
        self.seen: list[list[Order]] = []
        self.alive: set[str] = set()
        self.given_back: dict[str, str] = {}

    def want(self, orders: Iterable[Order]) -> None:
        self.seen.append(list(orders))

    def runs(self, task: str) -> bool:
        return task in self.alive

    def running(self) -> set[str]:
        return self.alive

    def returned(self) -> Mapping[str, str]:
        return self.given_back


def key(task: str, node: NodeId = NODE) -> str:
    return keys.assignments(node) + task


def record(resource: str, **fields: object) -> bytes:
    return codec.encode(Assignment(kind="room", resource=resource, slot=0, **fields))  # type: ignore[arg-type]


def follow(store: Store, work: Work) -> "asyncio.Task[None]":
    return asyncio.create_task(follow_assignments(store, NODE, work))


def test_orders_follow_the_store() -> None:
    async def story() -> list[list[Order]]:
        work = Work()
        async with open_store("memory://") as store:
            first = await store.commit(Put(key("room/1#0"), record("1", spec={"a": 1})))
            await store.commit(Put(key("room/9#0", NodeId("ab")), record("9")))  # a neighbour with a similar name
            following = follow(store, work)
            await asyncio.sleep(1)
            second = await store.commit(Put(key("room/2#0"), record("2", exclusive=True)))
            await asyncio.sleep(1)
            await store.commit(Put(key("room/3#0"), b"nonsense"), Delete(key("room/1#0")))
            await asyncio.sleep(1)
            third = await store.commit(Put(key("room/2#0"), record("2")))
            await asyncio.sleep(1)
            following.cancel()
        assert [[(order.task, order.epoch, order.is_exclusive) for order in orders] for orders in work.seen] == [
            [("room/1#0", first, False)],
            [("room/1#0", first, False), ("room/2#0", second, True)],
            [("room/2#0", second, True)],
            [("room/2#0", third, False)],
        ]
        return work.seen

    seen = virtual.run(story())
    assert seen[0][0] == Order("room/1#0", seen[0][0].epoch, "room", "1", 0, b'{"a":1}')


def test_a_task_to_be_confirmed_is_confirmed_when_it_has_ended() -> None:
    async def story() -> None:
        work = Work()
        async with open_store("memory://") as store:
            await store.commit(Put(key("room/1#0"), record("1", exclusive=True)))
            following = follow(store, work)
            work.alive = {"room/1#0"}
            await asyncio.sleep(1)
            await store.commit(Put(key("room/1#0"), record("1", exclusive=True, stopping=True)))
            await asyncio.sleep(5)
            assert work.seen[-1] == []
            assert await store.get(key("room/1#0")) is not None, "it still runs"
            work.alive = set()
            await asyncio.sleep(1)
            assert await store.get(key("room/1#0")) is None
            assert await store.get(keys.trouble("room", "1", NODE)) is None
            following.cancel()

    virtual.run(story())


def test_a_task_that_is_given_back_leaves_a_note() -> None:
    async def story() -> None:
        work = Work()
        async with open_store("memory://") as store:
            epoch = await store.commit(Put(key("room/1#0"), record("1")))
            following = follow(store, work)
            work.alive, work.given_back = {"room/1#0"}, {"room/1#0": "no sign of life for 31 s"}
            await asyncio.sleep(1)
            assert await store.get(key("room/1#0")) is not None
            work.alive = set()
            await asyncio.sleep(1)
            assert await store.get(key("room/1#0")) is None
            entry = await store.get(keys.trouble("room", "1", NODE))
            assert entry is not None
            trouble = codec.decode(Trouble, entry.value)
            assert (trouble.why, trouble.epoch) == ("no sign of life for 31 s", epoch)
            following.cancel()

    virtual.run(story())


def test_a_node_that_fails_a_task_again_counts_it() -> None:
    async def story() -> int:
        work = Work()
        async with open_store("memory://") as store:
            following = follow(store, work)
            for _ in range(3):
                await store.commit(Put(key("room/1#0"), record("1")))
                work.given_back = {"room/1#0": "it falls"}
                await asyncio.sleep(2)
            entry = await store.get(keys.trouble("room", "1", NODE))
            following.cancel()
            assert entry is not None
            return codec.decode(Trouble, entry.value).strikes

    assert virtual.run(story()) == 3


def test_a_task_that_relieves_another_is_told_of_once_when_it_runs() -> None:
    async def story() -> None:
        work = Work()
        async with open_store("memory://") as store:
            epoch = await store.commit(
                Put(key("room/1#0"), record("1", relieves="b")), Put(key("room/2#0"), record("2"))
            )
            following = follow(store, work)
            await asyncio.sleep(2)
            relief = keys.relief(NODE, "room/1#0")
            assert await store.get(relief) is None, "it does not run yet"
            work.alive = {"room/1#0", "room/2#0"}
            await asyncio.sleep(2)
            entry = await store.get(relief)
            assert entry is not None
            assert codec.decode(Relief, entry.value).epoch == epoch
            assert len((await store.scan(keys.RELIEFS)).entries) == 1
            await store.commit(Delete(relief))  # the leader has heard it
            await asyncio.sleep(5)
            assert await store.get(relief) is None
            following.cancel()

    virtual.run(story())
