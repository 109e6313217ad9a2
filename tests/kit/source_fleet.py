"""Nodes whose app has a kind with a source."""

import asyncio
from collections.abc import Callable
from typing import Any

from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.node import NodeStatus
from rota.store import Put, Store
from tests.kit.kinds import KIND

Nodes = Callable[..., "asyncio.Task[None]"]


class Around:
    """A store with something in its way."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def is_there(store: Store, *nodes: NodeId, tasks: int = 0) -> None:
    """Nodes whose app has the kind."""
    await store.commit(Put(keys.kind("room"), codec.encode(KIND)))
    for node in nodes:
        work = NodeStatus(
            app="rooms",
            generation=1,
            previous=None,
            reloading=None,
            pools=[],
            tasks_ordered=tasks,
            tasks_running=tasks,
            kinds=["room"],
        )
        await store.commit(Put(keys.status(node), codec.encode(work)))
