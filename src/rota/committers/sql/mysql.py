"""`mysql://user@host:3306/database?table=clicks`, for MySQL and MariaDB. The table must be InnoDB."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import asyncmy
import asyncmy.errors

from rota.committers.port import Committer
from rota.committers.sql.committer import prepared, table_of
from rota.committers.url import CommitterUrl
from rota.kit.clock import Clock
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.secrets import Password, password
from rota.model.url import Options
from rota.store.port import Store

PATIENCE = 10.0
"""Seconds to connect."""

BATCH = 1000
"""Rows in one statement."""

FAILURES = (asyncmy.errors.MySQLError, OSError, EOFError, asyncio.IncompleteReadError, TimeoutError)
UNFIT = (asyncmy.errors.DataError, asyncmy.errors.IntegrityError)
ACCESS_DENIED = frozenset({1044, 1045, 1142, 1698})


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The table in a database."""
    options = Options(url)
    table, secret, tls = table_of(options), password(url, options), options.choice("tls", ("off", "on"))
    options.done()
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"output {url}: write mysql://user@host:3306/database?table=NAME")
    database = MysqlDatabase(url, secret, tls=tls == "on")
    await database.refuse_without_transactions(table)
    return await prepared(database, url, stream, table)


class MysqlDatabase:
    """One connection, made anew after each break."""

    for_update = "FOR UPDATE"
    insert_new = "INSERT IGNORE {}"

    def __init__(self, url: CommitterUrl, password: Password, *, tls: bool) -> None:
        self._url, self._password, self._tls = url, password, tls
        self._turn = asyncio.Lock()
        self._open: Any = None

    @asynccontextmanager
    async def work(self) -> AsyncIterator["MysqlWork"]:
        async with self._turn:
            connection = await self._connection()
            meaning: type[RotaError] = Unavailable
            try:
                work = MysqlWork(connection.cursor())
                # So that looking for offsets locks those that are there, and not the gaps between them.
                await work.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                await work.execute("START TRANSACTION")
                yield work
                meaning = Unknown
                await work.execute("COMMIT")
            except FAILURES as error:
                self._drop()  # what was open on it is rolled back
                raise self._translated(error, meaning) from error
            except BaseException:
                self._drop()
                raise

    async def columns(self, table: str) -> list[str]:
        query = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = ? AND table_schema = DATABASE() ORDER BY ordinal_position"
        )
        async with self.work() as work:
            return [row[0] for row in await work.fetch(query, table)]

    async def refuse_without_transactions(self, table: str) -> None:
        """A table of another engine takes rows at once, whatever becomes of the transaction."""
        query = "SELECT engine FROM information_schema.tables WHERE table_name = ? AND table_schema = DATABASE()"
        async with self.work() as work:
            engines = [row[0] for row in await work.fetch(query, table)]
        if engines and engines[0] != "InnoDB":
            await self.close()
            raise Invalid(f"output {self._url}: table {table} is {engines[0]}, without transactions; make it InnoDB")

    async def close(self) -> None:
        async with self._turn:
            self._drop()

    async def _connection(self) -> Any:
        if self._open is not None and self._open.connected:
            return self._open
        host, port = self._url.host_and_port(3306)
        try:
            self._open = await asyncmy.connect(
                host=host,
                port=port,
                user=self._url.user,
                password=self._password(),
                db=self._url.path[1:],
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=PATIENCE,
                ssl=ssl.create_default_context() if self._tls else None,
            )
        except FAILURES as error:
            raise self._translated(error, Unavailable) from error
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _translated(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = " ".join(str(error.args[-1] if error.args else error).split()) or type(error).__name__
        if isinstance(error, UNFIT):
            return Invalid(f"output {self._url}: a row does not fit: {said}")
        if number in ACCESS_DENIED:
            return Denied(f"output {self._url}: {said}; see password_file= and the user's rights")
        return otherwise(f"output {self._url}: {said}; is the server well?")


class MysqlWork:
    """One transaction."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        await self._cursor.execute(query.replace("?", "%s"), parameters)
        return list(await self._cursor.fetchall())

    async def execute(self, query: str, *parameters: object) -> None:
        await self._cursor.execute(query.replace("?", "%s"), parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        names, marks = ", ".join(f"`{name}`" for name in columns), ", ".join("%s" for _ in columns)
        query = f"INSERT INTO `{table}` ({names}) VALUES ({marks})"
        left = iter(rows)
        while batch := list(islice(left, BATCH)):
            await self._cursor.executemany(query, batch)
