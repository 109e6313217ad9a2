"""The sides as one kind of thing: whatever can put keys, so that one loop times them all.

Each side pays the same price for it, an `await` of about 0.1 µs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from benchmarks.bare_etcd import BareEtcd
from benchmarks.bare_sqlite import BareSqlite
from rota.model.ids import Revision
from rota.store import At, Put, Store, open_store

_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """Where a store can be put: a folder on a real disk, and etcd's address if it runs."""

    folder: Path
    endpoint: str = ""
    """`host:port`"""

    def fresh_file(self) -> Path:
        """A database file that nobody has used."""
        return self.folder / f"{fresh_name()}.db"


def fresh_name() -> str:
    """A name that nobody has used; none is the beginning of another."""
    return f"bench-{next(_numbers)}-end"


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


@asynccontextmanager
async def port(url: str) -> AsyncIterator[Client]:
    """The port on a store."""
    async with open_store(url) as store:
        yield Port(store)


@asynccontextmanager
async def bare_sqlite(path: Path, kind: type[Blocking] | type[Threaded] = Blocking) -> AsyncIterator[Client]:
    """The bare driver on a file."""
    bare = BareSqlite(path)
    try:
        yield kind(bare)
    finally:
        bare.close()


@asynccontextmanager
async def bare_etcd(endpoint: str, namespace: str) -> AsyncIterator[BareEtcd]:
    """The bare driver on a namespace."""
    bare = BareEtcd(endpoint, namespace)
    try:
        yield bare
    finally:
        await bare.close()
