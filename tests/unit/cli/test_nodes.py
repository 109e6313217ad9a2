"""`rota nodes drain` with a deadline."""

import asyncio
from datetime import timedelta

import pytest

from rota.api import operations
from rota.cli import nodes
from rota.cli.progress import Progress
from rota.kit.clock import SYSTEM
from rota.model import keys
from rota.model.errors import RotaError
from rota.model.ids import NodeId
from rota.store import open_store
from rota.store.port import Delete
from tests.unit.api.test_operations import assign, create, declare, join, settle

DEADLINE = timedelta(seconds=0.7)


async def test_a_task_that_is_gone_after_the_deadline_has_not_moved_if_it_is_missed() -> None:
    async with open_store("memory://") as store:
        await declare(store, "room")
        await join(store, "a")
        view = await create(store, "1")
        await assign(store, "a", "1")
        begun = await operations.drain_node(store, SYSTEM, "a", deadline=DEADLINE)
        waiting = asyncio.create_task(nodes._until_it_is_empty(store, "a", begun, Progress("draining", begun.tasks)))
        await asyncio.sleep(DEADLINE.total_seconds() - 0.1)
        await settle(store, view)
        await store.commit(Delete(keys.assignment(NodeId("a"), keys.task("room", "1", 0))))
        with pytest.raises(RotaError, match="node a: 1 tasks were there at the deadline, and are stopped"):
            await waiting


async def test_a_task_is_missed_until_another_node_has_it() -> None:
    async with open_store("memory://") as store:
        await declare(store, "room")
        view, task = await create(store, "1"), keys.task("room", "1", 0)
        await settle(store, view)
        assert await nodes._uncovered(store, [task]) == [task]
        await settle(store, view, "b")
        assert await nodes._uncovered(store, [task]) == []
