"""`rota nodes drain` with a deadline, and how labels are written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta

import click
import pytest
from click.testing import CliRunner

from rota.cli.reach.fleet import StoreFleet
from rota.fleet.cli import nodes
from rota.fleet.doors.nodes import operations as node_operations
from rota.kit.time.clock import SYSTEM
from rota.model import keys
from rota.model.errors import RotaError
from rota.model.ids import Instant, NodeId
from rota.resources.doors.answers import ResourceView
from rota.store import Store, open_store
from rota.store.port import Delete
from tests.kit.fleet_records import CLOCK, assign, create, declare, join, settle
from tests.kit.waiting import eventually

ASKED = timedelta(minutes=10)
STOPPED = "node a: 1 tasks were there at the deadline, and are stopped"


class Hand:
    """The store's clock, whose time the test sets."""

    def __init__(self) -> None:
        self.now = CLOCK.wall()

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> Instant:
        return SYSTEM.monotonic()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(nodes, "LOOK", 0.001)
    return Hand()


@pytest.fixture
async def store(clock: Hand) -> AsyncIterator[Store]:
    async with open_store("memory://", clock=clock) as store:
        await declare(store, "room")
        await join(store, "a")
        yield store


@pytest.fixture
async def room(store: Store) -> ResourceView:
    """It has one task, on the node that is drained."""
    view = await create(store, "1")
    await assign(store, "a", "1")
    await settle(store, view, "a")
    return view


async def drained(store: Store, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Drain the node; while that waits, something happens."""
    draining = asyncio.create_task(nodes._drain(StoreFleet(store), "a", ASKED, "", no_wait=False))
    await eventually(lambda: store.get(keys.drain(NodeId("a"))))
    await meanwhile()
    await draining


async def go(store: Store, view: ResourceView, *where: str) -> None:
    """The task is where it is said to be, or nowhere."""
    await settle(store, view, *where)
    await store.commit(Delete(keys.assignment(NodeId("a"), keys.task("room", view.id, 0))))


async def test_a_task_that_was_stopped_at_the_deadline_has_not_moved(
    store: Store, room: ResourceView, clock: Hand
) -> None:
    async def meanwhile() -> None:
        clock.now += ASKED
        await go(store, room)

    with pytest.raises(RotaError, match=STOPPED):
        await drained(store, meanwhile)


async def test_nor_if_the_leader_finds_sooner_than_we_that_it_has_come(
    store: Store, room: ResourceView, clock: Hand
) -> None:
    async def meanwhile() -> None:
        clock.now += ASKED - timedelta(seconds=20)
        await go(store, room)

    with pytest.raises(RotaError, match=STOPPED):
        await drained(store, meanwhile)


async def test_the_deadline_of_an_earlier_drain_counts(store: Store, room: ResourceView, clock: Hand) -> None:
    await nodes._drain(StoreFleet(store), "a", ASKED, "", no_wait=True)
    draining = asyncio.create_task(nodes._drain(StoreFleet(store), "a", None, "", no_wait=False))
    await asyncio.sleep(0)
    clock.now += ASKED
    await go(store, room)
    with pytest.raises(RotaError, match=STOPPED):
        await draining


async def test_one_that_went_elsewhere_has_moved(
    store: Store, room: ResourceView, clock: Hand, capsys: pytest.CaptureFixture[str]
) -> None:
    async def meanwhile() -> None:
        clock.now += ASKED - timedelta(seconds=20)
        await go(store, room, "b")

    await drained(store, meanwhile)
    assert capsys.readouterr().out.endswith("node a is drained: 1 of 1 tasks have moved\n")


async def test_one_that_another_node_misses_too_was_not_stopped_here(
    store: Store, room: ResourceView, clock: Hand
) -> None:
    """It had one task of three before, and has one."""
    await settle(store, room, "a", replicas=3)

    async def meanwhile() -> None:
        clock.now += ASKED - timedelta(seconds=20)
        await settle(store, room, "b", replicas=3)
        await store.commit(Delete(keys.assignment(NodeId("a"), keys.task("room", room.id, 0))))

    await drained(store, meanwhile)


async def test_what_is_there_is_listed(store: Store, room: ResourceView) -> None:
    assert await node_operations.list_tasks(store, "a") == [keys.task("room", room.id, 0)]
    assert await node_operations.list_tasks(store, "b") == []


def test_labels_are_pairs_or_names_with_a_minus() -> None:
    assert nodes._changes(("zone=b", "gpu-", "note=a=b-", "empty=")) == {
        "zone": "b",
        "gpu": None,
        "note": "a=b-",
        "empty": "",
    }
    with pytest.raises(click.UsageError, match='"zone" changes no label; write NAME=VALUE to set one, or NAME- to'):
        nodes._changes(("zone",))


def test_a_label_command_says_what_it_needs() -> None:
    refused = CliRunner().invoke(nodes.command, ["label", "n1", "--store", "memory://"])
    assert refused.exit_code == 2
    assert "say what to change, like zone=b or gpu-, or --reset" in refused.output
