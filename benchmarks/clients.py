"""The sides as one kind of thing: whatever can put keys, so that one loop times them all.

Each side pays the same price for it, an `await` of about 0.1 µs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.bare_etcd import BareEtcd
from benchmarks.bare_mysql import BareMysql
from benchmarks.bare_postgres import BarePostgres
from benchmarks.bare_sqlite import BareSqlite
from rota.model.ids import Revision
from rota.store import At, Put, Store, open_store
from tests.kit.harness import StoreHarness
from tests.kit.servers import Server

B = TypeVar("B", BarePostgres, BareMysql)


@dataclass(frozen=True)
class Place:
    """Where a kind of store can be put: a folder on a real disk, and its server if it has one."""

    kind: type[StoreHarness]
    folder: Path
    server: Server | None = None

    def fresh(self) -> StoreHarness:
        """A store that nobody has used."""
        return self.kind(self.folder, self.server)

    def fresh_url(self) -> str:
        """The URL of one."""
        return self.fresh().url()

    def fresh_file(self) -> Path:
        """A database file that nobody has used."""
        return self.folder / f"{self.fresh().space}.db"

    @property
    def endpoint(self) -> str:
        """The server's `host:port`."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"


class Client(Protocol):
    """Puts keys, and returns the revision they got."""

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        """Put one key if it was last written at `modified`."""

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        """Put all of the keys in one transaction."""


class Port:
    """Through Rota's port."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        return await self._store.commit(Put(key, value), expect=[At(key, Revision(modified))])

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        return await self._store.commit(*[Put(key, value) for key in keys])


class Blocking:
    """SQLite on the event loop's own thread, which nothing else can use meanwhile."""

    def __init__(self, bare: BareSqlite) -> None:
        self._bare = bare

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        return self._bare.put_if(key, value, modified)

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        return self._bare.put_all(keys, value)


class Threaded:
    """SQLite through `asyncio.to_thread`, as an asyncio program has to call it."""

    def __init__(self, bare: BareSqlite) -> None:
        self._bare = bare

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        return await asyncio.to_thread(self._bare.put_if, key, value, modified)

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        return await asyncio.to_thread(self._bare.put_all, keys, value)


class Shared:
    """Connections for many callers: each transaction has one to itself."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._free = list(clients)
        self._places = asyncio.Semaphore(len(clients))

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        async with self._places:
            client = self._free.pop()
            try:
                return await client.put_if(key, value, modified)
            finally:
                self._free.append(client)

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        async with self._places:
            client = self._free.pop()
            try:
                return await client.put_all(keys, value)
            finally:
                self._free.append(client)


@asynccontextmanager
async def port(url: str) -> AsyncIterator[Client]:
    """The port on a store."""
    async with open_store(url) as store:
        yield Port(store)


@asynccontextmanager
async def bare_sqlite(path: Path, kind: type[Blocking] | type[Threaded] = Blocking) -> AsyncIterator[Client]:
    """The bare driver on a file, for any number of callers."""
    bare = BareSqlite(path)
    try:
        yield Shared([kind(bare)]) if kind is Threaded else kind(bare)
    finally:
        bare.close()


@asynccontextmanager
async def bare_etcd(endpoint: str, namespace: str) -> AsyncIterator[BareEtcd]:
    """The bare driver on a namespace, for any number of callers."""
    bare = BareEtcd(endpoint, namespace)
    try:
        yield bare
    finally:
        await bare.close()


@asynccontextmanager
async def bare_sql(kind: type[B], url: str) -> AsyncIterator[B]:
    """The bare driver on a store: one connection, for one caller."""
    async with open_store(url):
        pass  # makes the tables
    bare = await kind.connect(url)
    try:
        yield bare
    finally:
        await bare.close()


@asynccontextmanager
async def bare_sql_pool(kind: type[B], url: str, size: int = 1) -> AsyncIterator[Client]:
    """The bare driver on a store: so many connections, for any number of callers."""
    async with AsyncExitStack() as stack:
        yield Shared([await stack.enter_async_context(bare_sql(kind, url)) for _ in range(size)])
