"""The watches that are open at a node: not too many, never silent for long, and ended before the store closes.

A watch has no queue of its own. The next batch is read when the client has taken the previous one, so a slow client
costs one batch of memory; the door closes the connection of one that does not read.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import TypeVar

from rota.doors.guard.budget import Busy, paced, payer
from rota.model.errors import Unavailable

T = TypeVar("T")

MOST = 50
"""Watches at a time. Each remembers what it has sent."""

MOST_OF_ONE = 25
"""Watches of one caller at a time."""

QUIET = timedelta(seconds=15)
"""The longest silence; many proxies drop a connection that is silent for a minute."""

LAST_WORDS = 1.0
"""Seconds that clients have to read the last message when the node stops."""


class Watches:
    """The open watches of this node."""

    def __init__(self, quiet: timedelta = QUIET) -> None:
        self._quiet = quiet
        self._open = 0
        self._open_by: Counter[str] = Counter()
        self._closing = asyncio.Event()
        self._nobody = asyncio.Event()
        self._nobody.set()

    async def each(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T | None, None]:
        """The items, and None whenever there was none for a while; it ends when the node stops."""
        if self._closing.is_set():
            raise Unavailable("this node is stopping; ask another, or again later", code="stopping")
        if self._open >= MOST:
            raise Unavailable(f"{MOST} watches are open at this node; close one, or ask another node", code="too_busy")
        who = payer()
        if who and self._open_by[who] >= MOST_OF_ONE:
            raise Busy(
                f"{MOST_OF_ONE} watches with your token are open at this node; close one, or ask another node", 5
            )
        self._open += 1
        self._open_by[who] += 1
        self._nobody.clear()
        try:
            async with aclosing(items), aclosing(self._until_closing(items)) as coming:
                async for item in coming:
                    yield item
        finally:
            self._open -= 1
            self._open_by[who] -= 1
            self._open_by += Counter()  # drop callers without watches
            if not self._open:
                self._nobody.set()

    async def close(self) -> None:
        """End all watches."""
        self._closing.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._nobody.wait()

    async def _until_closing(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T | None, None]:
        closing = asyncio.ensure_future(self._closing.wait())
        coming = asyncio.ensure_future(paced(anext(items)))
        try:
            while not closing.done():
                await asyncio.wait(
                    {coming, closing}, timeout=self._quiet.total_seconds(), return_when=asyncio.FIRST_COMPLETED
                )
                if not coming.done():
                    if not closing.done():
                        yield None
                    continue
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    return
                yield item
                coming = asyncio.ensure_future(paced(anext(items)))
        finally:
            closing.cancel()
            coming.cancel()
            await asyncio.wait({closing, coming})
