"""Plans that are only told, drains, and what would help what waits; on a store without a leader."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.doors.nodes import why as node_why
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import NodeId
from rota.placement.doors import planning
from rota.placement.fleet.preview import PlannedNode, Preview
from rota.resources.core.records import PlacingRecord, Trouble
from rota.resources.doors import operations as resource_operations
from rota.store import Put, Store, open_store
from rota.views import why
from tests.kit.fleet_records import CLOCK, assign, create, declare, join, settle

KINDS = ("room",)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """Two nodes of ten slots; the first has six tasks, the second none."""
    async with open_store("memory://") as store:
        await declare(store, "room")
        for name in "ab":
            await join(store, name, kinds=KINDS)
        for id in "123456":
            view = await create(store, id)
            await assign(store, "a", id)
            await settle(store, view, "a")
        yield store


async def plan(store: Store, **more: Any) -> Preview:
    return await planning.plan(store, **more)


def used(told: Preview) -> dict[str, tuple[int, int]]:
    return {node.id: (node.before, node.after) for node in told.nodes}


async def test_a_fleet_that_needs_nothing_is_left_alone(store: Store) -> None:
    told = await plan(store)
    assert (told.moves, told.pending) == ((), {})
    assert told.nodes == (PlannedNode("a", 10, 6, 6), PlannedNode("b", 10, 0, 0))  # type: ignore[arg-type]


async def test_asking_changes_nothing(store: Store) -> None:
    before = await store.revision()
    await plan(store, rebalance=True, without=["a"], add=3)
    assert await store.revision() == before


@pytest.mark.parametrize("add", [-1, 1001, 10**9])
async def test_no_more_nodes_are_supposed_than_can_be_thought_of(store: Store, add: int) -> None:
    with pytest.raises(Invalid, match="from 0 to 1,000 more nodes"):
        await plan(store, add=add)


async def test_what_misses_a_task_would_be_started(store: Store) -> None:
    await create(store, "7")
    (move,) = (await plan(store)).moves
    assert (move.task, move.source, move.target) == ("room/7#0", None, "b")
    assert move.why.startswith("weighted: ")


async def test_the_tasks_of_a_node_that_is_gone_would_go_to_others(store: Store) -> None:
    told = await plan(store, without=["a"])
    assert {(move.source, move.target) for move in told.moves} == {("a", "b")}
    assert used(told) == {"a": (6, 0), "b": (0, 6)}


async def test_what_would_find_no_room_is_pending_with_its_reason(store: Store) -> None:
    await node_operations.set_slots(store, CLOCK, "b", 2)
    told = await plan(store, without=["a"])
    assert len(told.pending) == 4
    assert set(told.pending.values()) == {"all slots of 1 node are taken (2 of 2); add slots or nodes"}
    assert [move.target for move in told.moves].count(None) == 4


async def test_balancing_is_told_to_the_end(store: Store) -> None:
    told = await plan(store, rebalance=True)
    assert used(told) == {"a": (6, 4), "b": (0, 2)}  # one more or less than three is even
    assert used(await plan(store, rebalance=True, add=1)) == {"a": (6, 3), "b": (0, 2), "new-1": (0, 1)}


async def test_a_drain_is_told_to_the_end(store: Store) -> None:
    await node_operations.drain_node(store, "a", why="disk")
    assert used(await plan(store)) == {"a": (6, 0), "b": (0, 6)}


@pytest.mark.parametrize(
    ("ago", "is_changed", "node"),
    [
        pytest.param(1, False, None, id="it rests"),
        pytest.param(30, False, "a", id="it has rested"),
        pytest.param(1, True, "a", id="it was changed since"),
    ],
)
async def test_a_plan_leaves_out_nodes_that_a_resource_rests_from(
    store: Store, ago: int, is_changed: bool, node: str | None
) -> None:
    await node_operations.cordon_node(store, CLOCK, "b")
    view = await create(store, "7")
    epoch = await store.commit(Put("/x", b""))
    trouble = Trouble(node=NodeId("a"), at=await store.now() - timedelta(seconds=ago), why="no", strikes=2, epoch=epoch)
    await store.commit(Put(keys.trouble("room", "7", trouble.node), codec.encode(trouble)))
    if is_changed:
        await resource_operations.update_resource(store, "room", "7", {"spec": {"url": "x"}})
    told = await plan(store)
    assert {move.target for move in told.moves if move.task.startswith(view.name)} == ({node} if node else set())
    assert ("rests" in told.pending.get("room/7", "") or "failed" in told.pending.get("room/7", "")) is (node is None)


async def test_the_plan_goes_by_what_the_leader_said(store: Store) -> None:
    how = PlacingRecord(policy="weighted", avoid_for=timedelta(minutes=5), tolerance=10, rules=["not-here"])
    await store.commit(Put(keys.PLACING, codec.encode(how)))
    with pytest.raises(Invalid, match='there is no rule "not-here"'):
        await plan(store)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"without": ["z"]}, NotFound, 'there is no node "z"; there are a, b'),
        ({"add": 1, "like": "z"}, NotFound, 'there is no node "z"'),
        ({"add": -1}, Invalid, "add is -1"),
    ],
)
async def test_what_cannot_be_supposed_is_refused(
    store: Store, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await plan(store, **asked)


async def test_what_waits_is_told_what_would_help(store: Store) -> None:
    for name in "ab":
        await node_operations.cordon_node(store, CLOCK, name, "disk")
    await node_operations.set_slots(store, CLOCK, "b", 0)
    view = await create(store, "7")
    await settle(store, view, pending="each node is closed")
    told = await why.why(store, "room/7")
    assert told.refusals == {"a": "it is cordoned: disk", "b": "it is cordoned: disk"}
    assert told.remedies == {
        "a": "uncordon it (rota nodes uncordon a)",
        "b": "uncordon it (rota nodes uncordon b) and give it 1 more slot (rota nodes slots b 1)",
    }


# Drains


async def test_a_drain_comes_and_goes(store: Store) -> None:
    before = await store.now()
    begun = await node_operations.drain_node(store, "a", why="disk")
    assert (begun.tasks, begun.deadline, begun.why) == (6, None, "disk")
    assert before <= begun.since <= await store.now()
    assert await node_operations.drain_node(store, "a") == begun
    later = await node_operations.drain_node(store, "a", deadline=timedelta(minutes=1))
    assert (later.why, later.tasks) == ("disk", 6)
    assert later.deadline is not None
    assert before <= later.deadline - timedelta(minutes=1) <= await store.now()
    a, _ = (await node_operations.list_nodes(store)).nodes
    assert a.drain == later
    assert "it is drained since" in (await node_why.why_node(store, "a")).says
    assert await node_operations.undrain_node(store, "a")
    assert not await node_operations.undrain_node(store, "a")


async def test_a_drain_that_cannot_be_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match='there is no node "z"'):
        await node_operations.drain_node(store, "z")
    with pytest.raises(NotFound, match='there is no node "z"'):
        await node_operations.undrain_node(store, "z")
    with pytest.raises(Invalid, match="deadline is"):
        await node_operations.drain_node(store, "a", deadline=timedelta())
    with pytest.raises(Invalid, match="a reason has at most 200"):
        await node_operations.drain_node(store, "a", why="x" * 201)
