"""Following a key: what it is now, then every change, with no gap between the two, for ever."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import timedelta
from random import random

from rota.kit.backoff import delays
from rota.model.errors import Compacted, Unavailable
from rota.model.ids import Key
from rota.store.port import Entry, Store

log = logging.getLogger(__name__)

RETRY = timedelta(milliseconds=100), timedelta(seconds=2)
"""Shortest and longest wait after a failed try."""


async def follow(store: Store, key: Key, jitter: Callable[[], float] = random) -> AsyncGenerator[Entry | None, None]:
    """What `key` is now, and then what it becomes; steps that were overtaken may be left out.

    A store that is away only delays it.
    """
    waits = delays(*RETRY, jitter)
    while True:
        try:
            async with aclosing(_until_it_breaks(store, key)) as entries:
                async for entry in entries:
                    yield entry
                    waits = delays(*RETRY, jitter)
        except (Compacted, Unavailable) as error:
            log.debug("following again", extra={"key": key, "why": str(error)})
        await asyncio.sleep(next(waits).total_seconds())


async def _until_it_breaks(store: Store, key: Key) -> AsyncGenerator[Entry | None, None]:
    # The scan tells the revision it read at; a bare `get` would leave a gap before the watch.
    # The key sorts first below its own prefix.
    listing = await store.scan(key, limit=1)
    yield next((entry for entry in listing.entries if entry.key == key), None)
    async with aclosing(store.watch(key, listing.revision)) as commits:
        async for commit in commits:
            for change in commit.changes:
                if change.key == key:
                    yield change.entry
