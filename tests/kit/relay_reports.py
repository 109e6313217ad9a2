"""What relays report of themselves."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.relay.core.records import RelayStatus
from rota.store import Put, Store

Nodes = Callable[..., "asyncio.Task[None]"]


async def say(store: Store, node: NodeId, version: int, *, moving: bool = False, leaving: bool = False) -> None:
    status = RelayStatus(
        address="127.0.0.1:1",
        since=datetime(2026, 1, 1, tzinfo=UTC),
        map_version=version,
        is_moving=moving,
        is_leaving=leaving,
    )
    await store.commit(Put(keys.relay_status(node), codec.encode(status)))
