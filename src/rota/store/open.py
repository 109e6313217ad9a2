"""Opening a store by URL.

The adapter is imported when its scheme is asked for, so that a laptop needs no gRPC and `import rota` no database
driver. To add a store: a module that is an `Adapter`, and a line here.

A store that was never reached raises Unavailable at once, for the URL may be wrong. One that was reached and broke off
while it was opened is only away, and a node waits for it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import random
from typing import Protocol, cast

from rota.kit.time.backoff import delays
from rota.kit.time.clock import SYSTEM, Clock
from rota.model import adapters
from rota.model.errors import BrokenOff, Unavailable
from rota.store import url as urls
from rota.store.follow import RETRY
from rota.store.port import Store

log = logging.getLogger(__name__)

ADAPTERS = {
    "memory": "rota.store.memory",
    "sqlite": "rota.store.sql.sqlite",
    "etcd": "rota.store.etcd.store",
    "postgresql": "rota.store.sql.postgres",
    "mysql": "rota.store.sql.mysql",
}
EXTRAS = {"etcd": "etcd", "postgresql": "postgres", "mysql": "mysql"}
"""Which extra brings an adapter's driver."""


@asynccontextmanager
async def open_store(
    text: str, *, clock: Clock = SYSTEM, create: bool = True, waits: bool = False
) -> AsyncIterator[Store]:
    """The store at a URL, ready to use; closed in the end. Without `create` it must have been used before.

    With `waits`, a store that was reached and broke off is waited for without limit.
    """
    url = urls.parse(text)
    opening = partial(_adapter(url).open, url, clock, create=create)
    store = await (_opened_in_the_end(url, opening) if waits else opening())
    try:
        yield store
    finally:
        await store.close()


async def _opened_in_the_end(url: urls.StoreUrl, opening: Callable[[], Awaitable[Store]]) -> Store:
    """The store, however often it breaks off; Unavailable if it was never reached."""
    waits, logged, was_reached = delays(*RETRY, random), "", False
    while True:
        try:
            return await opening()
        except Unavailable as error:
            was_reached = was_reached or isinstance(error, BrokenOff)
            if not was_reached:
                raise
            if str(error) != logged:
                logged = str(error)
                log.warning("store not open yet", extra={"store": str(url), "why": logged})
        await asyncio.sleep(next(waits).total_seconds())


class Adapter(Protocol):
    """What an adapter's module offers."""

    async def open(self, url: urls.StoreUrl, clock: Clock, *, create: bool) -> Store:
        """A store that has been reached once and whose schema fits; BrokenOff if it was reached and is gone again.

        Opening it again must do no harm, at whatever point it broke off.
        """


def _adapter(url: urls.StoreUrl) -> Adapter:
    return cast(Adapter, adapters.adapter(f"store {url}", url.scheme, ADAPTERS, EXTRAS))
