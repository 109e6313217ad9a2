"""The supervisor, on the memory store: drains that are slowed down, large tasks, and plans that take long."""

import asyncio
import threading
from contextlib import aclosing
from datetime import timedelta

import pytest

from rota.control.supervisor import FEW, supervise
from rota.control.term import Term
from rota.decide.placement import Place, Rule
from rota.kit.aside import at_once
from rota.kit.clock import SYSTEM
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.config import SupervisorConfig
from rota.model.ids import LeaseId, NodeId, SessionId, TermNumber
from rota.model.node import Node, NodeStatus, Role, Roster
from rota.model.resource import Drain, KindRecord, Relief, ResourceRecord
from rota.sim.world import EPOCH
from rota.store import At, Delete, Put, Store
from rota.store.keeper import Keeper
from rota.store.memory import MemoryStore, Universe
from tests.kit.virtual_trials import CLOCK
from tests.kit.waiting import eventually
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
        await supervise(term, None, Roster(nodes={}), config, CLOCK, lambda *_, **__: None, aside=at_once)

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


class Slow(Rule):
    """A rule that takes until the loop has turned, as a plan of very many resources does."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.was_held = False

    def refuse(self, about: object, node: Place) -> str:
        self.has_begun.set()
        self.was_held |= not self.may_end.wait(10)
        return ""


async def test_the_loop_goes_on_while_many_resources_are_planned_and_what_changes_meanwhile_is_planned_next() -> None:
    rule, term = Slow(), await _term()
    store = term.store
    await declare(store)
    await member(store, B)
    for number in range(FEW + 1):
        await add(store, str(number))
    config = SupervisorConfig(rebalance=0)
    leading = asyncio.create_task(
        supervise(term, None, Roster(nodes={}), config, SYSTEM, lambda *_, **__: None, {"slow": rule})
    )
    await eventually(rule.has_begun.is_set)
    await store.commit(Delete(keys.resource("room", "0")))
    await add(store, "late")
    rule.may_end.set()
    await eventually(lambda: _are_placed(store, {"late", *map(str, range(1, FEW + 1))}))
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    assert not rule.was_held


async def _term() -> Term:
    """A term that nobody ends."""
    store = MemoryStore(Universe(SYSTEM), SYSTEM)
    lease = await store.grant(timedelta(hours=1))
    incarnation = await store.commit(Put("/incarnation", b""))
    number = await store.commit(Put(keys.LEADER, b""))
    return Term(TermNumber(number), store, Keeper(store, lease, SYSTEM), At("/incarnation", incarnation))


async def _are_placed(store: Store, ids: set[str]) -> bool:
    entries = (await store.scan(keys.assignments(B))).entries
    return {codec.decode(Assignment, entry.value).resource for entry in entries} == ids
