"""`sqlite:///file.db?table=clicks` (relative), `sqlite:////data/shop.db?table=clicks` (absolute)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.model.url import Options
from rota.outputs.port import Committer, Output, Unfit
from rota.outputs.sql.committer import SqlCommitter, prepared, table_of
from rota.outputs.url import CommitterUrl
from rota.store.port import Store

T = TypeVar("T")

UNFIT = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.DataError)

PATIENCE = 10.0
"""Seconds to wait for another process that is writing."""

AGAIN = 0.1
"""Seconds after which a thread is interrupted again: an interrupt between two statements has no effect."""


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The table in a file."""
    return await _opened(url, stream, clock, create=True)


async def look(url: CommitterUrl, stream: str, store: Store) -> Output:
    """The table: what is published there is its rows."""
    return await _opened(url, stream, SYSTEM, create=False)


async def _opened(url: CommitterUrl, stream: str, clock: Clock, *, create: bool) -> SqlCommitter:
    options = Options(url)
    table = table_of(options)
    options.done()
    path = Path(url.path[1:])
    if url.hosts or url.user or len(url.path) < 2 or not await asyncio.to_thread(path.is_file):
        raise Invalid(f"output {url}: there is no file {path}; create the database and its table first")
    return await prepared(SqliteDatabase(url, path), url, stream, table, clock, create=create)


class SqliteDatabase:
    """One connection, used by one transaction at a time, in a thread."""

    by_key = ""
    for_update = ""  # the transaction itself is the lock
    insert_new = "INSERT {} ON CONFLICT DO NOTHING"
    quote = '"'
    columns_query = "SELECT name FROM pragma_table_info(?)"
    check_now = ""
    long_text = "TEXT"

    def __init__(self, url: CommitterUrl, path: Path) -> None:
        self._url = url
        self._turn = asyncio.Lock()
        self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)

    def work(self) -> AbstractAsyncContextManager["SqliteWork"]:
        return self._transaction("BEGIN IMMEDIATE")

    def view(self, *, is_patient: bool = False) -> AbstractAsyncContextManager["SqliteWork"]:
        return self._transaction("BEGIN")

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator["SqliteWork"]:
        async with self._turn:
            work = SqliteWork(self._connection, self._translated)
            try:
                await work.execute(begin)
                yield work
                await self._commit()
            except BaseException:
                if self._connection.in_transaction:
                    await _in_thread(self._connection, self._connection.rollback)
                raise

    async def columns(self, table: str) -> list[str]:
        async with self.view() as work:
            return [row[0] for row in await work.fetch(self.columns_query, table)]

    async def close(self) -> None:
        async with self._turn:
            self._connection.close()

    async def _commit(self) -> None:
        await self._in_thread(self._connection.commit, Unknown)

    async def _in_thread(self, call: Callable[[], T], otherwise: type[RotaError]) -> T:
        try:
            return await _in_thread(self._connection, call)
        except sqlite3.Error as error:
            raise self._translated(error, otherwise) from error

    def _translated(self, error: sqlite3.Error, otherwise: type[RotaError] = Unavailable) -> RotaError:
        has_odd_type = isinstance(error, sqlite3.ProgrammingError) and "binding parameter" in str(error)
        if isinstance(error, UNFIT) or has_odd_type:
            return Unfit(f"output {self._url}: a row does not fit: {error}")
        return otherwise(f"output {self._url}: {error}")


class SqliteWork:
    """One transaction."""

    def __init__(self, connection: sqlite3.Connection, translated: Callable[[sqlite3.Error], RotaError]) -> None:
        self._connection, self._translated = connection, translated

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return await self._do(lambda: self._connection.execute(query, parameters).fetchall())

    async def execute(self, query: str, *parameters: object) -> None:
        await self.fetch(query, *parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join("?" for _ in columns)
        query = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'
        await self._do(lambda: self._connection.executemany(query, map(_stored, rows)))

    async def _do(self, call: Callable[[], T]) -> T:
        try:
            return await _in_thread(self._connection, call)
        except sqlite3.Error as error:
            raise self._translated(error) from error


async def _in_thread(connection: sqlite3.Connection, call: Callable[[], T]) -> T:
    """What `call` returns. A cancelled caller waits until the thread has released the connection.

    Using a connection that a thread still uses, above all closing it, may crash the process.
    """
    working = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            connection.interrupt()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working], timeout=AGAIN)
        if not working.cancelled():
            working.exception()  # the result has no other consumer
        raise


def _stored(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values as SQLite keeps them: it has no type for times, so they are text, in a form that sorts."""
    return tuple(value.isoformat() if hasattr(value, "isoformat") else value for value in row)
