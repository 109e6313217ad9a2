"""Following keys: their present values, then every change, with no gap between the two, until cancelled.

An outage of the store only delays it. If the history was compacted, everything is read again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import timedelta
from random import random

import msgspec

from rota.kit.time.backoff import delays
from rota.model.errors import Compacted, Unavailable
from rota.model.ids import Key, Revision
from rota.store.port import Change, Entry, Store

log = logging.getLogger(__name__)

RETRY = timedelta(milliseconds=100), timedelta(seconds=2)
"""Shortest and longest wait after a failed try."""


class PrefixChanges(msgspec.Struct, frozen=True):
    """What is new below a prefix."""

    changes: tuple[Change, ...]
    revision: Revision
    is_whole: bool
    """Is this the complete state? Then every key that is not in it was deleted."""


async def follow(store: Store, key: Key, jitter: Callable[[], float] = random) -> AsyncGenerator[Entry | None, None]:
    """The value of `key` now, and then after each change; intermediate values may be left out."""
    # The key sorts first below its own prefix.
    async with aclosing(follow_all(store, key, jitter, limit=1)) as coming:
        async for news in coming:
            found = [change.entry for change in news.changes if change.key == key]
            for entry in found or ([None] if news.is_whole else []):
                yield entry


async def follow_all(
    store: Store, prefix: Key, jitter: Callable[[], float] = random, *, limit: int | None = None
) -> AsyncGenerator[PrefixChanges, None]:
    """Everything below a prefix, or the first few, and then each commit that touches it."""
    waits = delays(*RETRY, jitter)
    while True:
        try:
            async with aclosing(_until_it_breaks(store, prefix, limit)) as coming:
                async for news in coming:
                    yield news
                    waits = delays(*RETRY, jitter)
        except (Compacted, Unavailable) as error:
            log.debug("following again", extra={"prefix": prefix, "why": str(error)})
        await asyncio.sleep(next(waits).total_seconds())


async def _until_it_breaks(store: Store, prefix: Key, limit: int | None) -> AsyncGenerator[PrefixChanges, None]:
    # The scan returns the revision it read at; a `get` would leave a gap before the watch.
    listing = await store.scan(prefix, limit=limit)
    yield PrefixChanges(tuple(Change(entry.key, entry) for entry in listing.entries), listing.revision, is_whole=True)
    async with aclosing(store.watch(prefix, listing.revision)) as commits:
        async for commit in commits:
            yield PrefixChanges(commit.changes, commit.revision, is_whole=False)
