"""Work on a fleet's store, from a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.store import Store, open_store

T = TypeVar("T")


def on_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """What `work` returns; a store that no fleet has used is an error, not a new store."""

    async def run() -> T:
        async with open_store(url, create=False) as store:
            return await work(store)

    return asyncio.run(run())
