"""Opening a committer by URL.

The adapter is imported when its scheme is used, so that a driver is needed only where it is used. To add one: a
module that is an `Adapter`, and a line here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, cast

from rota.kit.time.clock import SYSTEM, Clock
from rota.model import adapters
from rota.outputs import url as urls
from rota.outputs.port import Committer, Output
from rota.store.port import Store

ADAPTERS = {
    "parquet": "rota.outputs.parquet",
    "postgresql": "rota.outputs.sql.postgres",
    "mysql": "rota.outputs.sql.mysql",
    "sqlite": "rota.outputs.sql.sqlite",
    "memory": "rota.outputs.memory",
}
EXTRAS = {"parquet": "parquet", "postgresql": "postgres", "mysql": "mysql"}
"""Which extra brings an adapter's driver."""


@asynccontextmanager
async def open_committer(text: str, stream: str, store: Store, clock: Clock = SYSTEM) -> AsyncIterator[Committer]:
    """The output of a stream at a URL, reached once and ready; closed in the end.

    `store` keeps the catalogue of outputs that cannot keep one themselves.
    """
    url = urls.parse(text)
    committer = await _adapter(url).open(url, stream, store, clock)
    try:
        yield committer
    finally:
        await committer.close()


@asynccontextmanager
async def open_output(text: str, stream: str, store: Store) -> AsyncIterator[Output]:
    """What is published of a stream at a URL, to look at; closed in the end."""
    url = urls.parse(text)
    output = await _adapter(url).look(url, stream, store)
    try:
        yield output
    finally:
        await output.close()


def preload(text: str) -> None:
    """Import what opens an output, and do what it does only once, so that nothing of that waits for the first rows."""
    warm_up = getattr(_adapter(urls.parse(text)), "warm_up", None)
    if warm_up is not None:
        warm_up()


class Adapter(Protocol):
    """What an adapter's module offers."""

    async def open(self, url: urls.CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
        """A committer that has been reached once; the error says what is against it."""

    async def look(self, url: urls.CommitterUrl, stream: str, store: Store) -> Output:
        """What is published there; the error says why it cannot be seen."""


def _adapter(url: urls.CommitterUrl) -> Adapter:
    return cast(Adapter, adapters.adapter(f"output {url}", url.scheme, ADAPTERS, EXTRAS))
