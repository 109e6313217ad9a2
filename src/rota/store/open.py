"""Opening a store by URL.

The adapter is imported when its scheme is asked for, so that a laptop needs no gRPC and `import rota` no database
driver. To add a store: a module that is an `Adapter`, and a line here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, cast

from rota.kit.clock import SYSTEM, Clock
from rota.model import adapters
from rota.store import url as urls
from rota.store.port import Store

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
async def open_store(text: str, *, clock: Clock = SYSTEM, create: bool = True) -> AsyncIterator[Store]:
    """The store at a URL, ready to use; closed in the end. Without `create` it must have been used before."""
    url = urls.parse(text)
    store = await _adapter(url).open(url, clock, create=create)
    try:
        yield store
    finally:
        await store.close()


class Adapter(Protocol):
    """What an adapter's module offers."""

    async def open(self, url: urls.StoreUrl, clock: Clock, *, create: bool) -> Store:
        """A store that has been reached once and whose schema fits."""


def _adapter(url: urls.StoreUrl) -> Adapter:
    return cast(Adapter, adapters.adapter(f"store {url}", url.scheme, ADAPTERS, EXTRAS))
