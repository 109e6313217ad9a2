"""The supervisor, on the memory store in virtual time: drains that are slowed down, and large tasks."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest

from rota.control.supervisor import supervise
from rota.control.term import Term
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.config import SupervisorConfig
from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Node, NodeStatus, Role, Roster
from rota.model.resource import Drain, KindRecord, Relief, ResourceRecord
from rota.sim.world import EPOCH
from rota.store import Put, Store
from tests.kit.virtual_trials import CLOCK
from tests.unit.control.test_leader import play
from tests.unit.control.test_relays import Nodes

B, C = NodeId("b"), NodeId("c")


async def member(store: Store, id: NodeId) -> None:
    node = Node(
        id=id, session=SessionId(id), lease=LeaseId(id), role=Role.WORK, home=id, host="box", pid=1, since=EPOCH,
        lease_ttl=timedelta(seconds=10), slots=500,
    )  # fmt: skip
    work = NodeStatus(
        app="app", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0,
        kinds=["room"],
    )  # fmt: skip
    await store.commit(Put(keys.node(id), codec.encode(node)), Put(keys.status(id), codec.encode(work)))


async def add(store: Store, id: str, cost: int = 1) -> None:
    record = ResourceRecord(uid=id, kind="room", id=id, created=EPOCH, cost=cost)
    await store.commit(Put(keys.resource("room", id), codec.encode(record)))


async def declare(store: Store) -> None:
    kind = KindRecord(
        name="room", app="app", replicas=1, exclusive=False, runs_alone=False, silent_after=timedelta(seconds=30),
        start_within=timedelta(seconds=30),
    )  # fmt: skip
    await store.commit(Put(keys.kind("room"), codec.encode(kind)))


async def run_tasks(store: Store) -> None:
    """Say of each task that relieves another that it runs, at once."""
    async with aclosing(store.watch(keys.ASSIGNMENTS, await store.revision())) as commits:
        async for commit in commits:
            for change in commit.changes:
                if change.entry and codec.decode(Assignment, change.entry.value).relieves:
                    node, _, task = change.key.removeprefix(keys.ASSIGNMENTS).partition("/")
                    relief = Relief(epoch=change.entry.modified)
                    await store.commit(Put(keys.relief(NodeId(node), task), codec.encode(relief)))


async def add_more(store: Store) -> None:
    """There is always something else to place."""
    for number in range(10_000):
        await asyncio.sleep(0.3)
        await add(store, f"more-{number}")


async def tasks_on(store: Store, node: NodeId) -> int:
    return len((await store.scan(keys.assignments(node))).entries)


@pytest.mark.parametrize(
    ("count", "cost", "ramp"),
    [
        pytest.param(20, 1, 1, id="one task a second, while others are placed"),
        pytest.param(3, 100, 5, id="tasks that take more slots than a node is given in a second"),
    ],
)
def test_a_drain_ends_however_slowly_tasks_may_move(count: int, cost: int, ramp: int) -> None:
    async def lead(term: Term) -> None:
        config = SupervisorConfig(ramp=ramp, rebalance=0)
        await supervise(term, None, Roster(nodes={}), config, CLOCK, lambda *_, **__: None)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        for number in range(count):
            await add(store, str(number), cost)
        node("a", lead)
        await asyncio.sleep(5)
        assert await tasks_on(store, B) == count
        await member(store, C)
        others = [asyncio.create_task(each) for each in (run_tasks(store), add_more(store))]
        await store.commit(Put(keys.drain(B), codec.encode(Drain(node=B, since=EPOCH))))
        await asyncio.sleep(count * max(1, cost / ramp) + 5)
        left = await tasks_on(store, B)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert left == 0

    play(story)
