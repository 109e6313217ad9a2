"""`postgresql://user@host:5432/database?table=clicks`, with `&schema=shop` where it is not `public`. By COPY."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg

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

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError, TimeoutError)
_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
UNFIT = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.UndefinedColumnError)


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The table in a database."""
    options = Options(url)
    table, secret, tls = table_of(options), password(url, options), options.choice("tls", ("off", "on"))
    schema = options.text("schema") or "public"
    options.done()
    if not _NAME.fullmatch(schema):
        raise options.wrong(f"schema={schema}; use letters, digits and _")
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"output {url}: write postgresql://user@host:5432/database?table=NAME")
    return await prepared(PostgresDatabase(url, secret, schema, tls=tls == "on"), url, stream, table)


class PostgresDatabase:
    """One connection, made anew after each break."""

    for_update = "FOR UPDATE"
    insert_new = "INSERT {} ON CONFLICT DO NOTHING"

    def __init__(self, url: CommitterUrl, password: Password, schema: str, *, tls: bool) -> None:
        self._url, self._password, self._schema, self._tls = url, password, schema, tls
        self._turn = asyncio.Lock()
        self._open: Any = None

    @asynccontextmanager
    async def work(self) -> AsyncIterator["PostgresWork"]:
        async with self._turn:
            connection = await self._connection()
            meaning: type[RotaError] = Unavailable
            try:
                await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                yield PostgresWork(connection)
                meaning = Unknown
                await connection.execute("COMMIT")
            except FAILURES as error:
                self._drop()  # what was open on it is rolled back
                raise self._translated(error, meaning) from error
            except BaseException:
                self._drop()
                raise

    async def columns(self, table: str) -> list[str]:
        query = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = ? AND table_schema = current_schema() ORDER BY ordinal_position"
        )
        async with self.work() as work:
            return [row[0] for row in await work.fetch(query, table)]

    async def close(self) -> None:
        async with self._turn:
            self._drop()

    async def _connection(self) -> Any:
        if self._open is not None and not self._open.is_closed():
            return self._open
        host, port = self._url.host_and_port(5432)
        try:
            self._open = await asyncpg.connect(
                host=host,
                port=port,
                user=self._url.user,
                password=self._password() or None,
                database=self._url.path[1:],
                timeout=PATIENCE,
                ssl=self._tls,
                server_settings={"application_name": "rota stream", "search_path": f'"{self._schema}"'},
            )
        except FAILURES as error:
            raise self._translated(error, Unavailable) from error
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            self._open.terminate()
            self._open = None

    def _translated(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        said = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, UNFIT):
            return Invalid(f"output {self._url}: a row does not fit: {said}")
        if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InsufficientPrivilegeError):
            return Denied(f"output {self._url}: {said}; see password_file= and the user's rights")
        return otherwise(f"output {self._url}: {said}; is PostgreSQL running there?")


class PostgresWork:
    """One transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(_numbered(query), *parameters)]

    async def execute(self, query: str, *parameters: object) -> None:
        await self._connection.execute(_numbered(query), *parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        await self._connection.copy_records_to_table(table, records=rows, columns=columns)


def _numbered(query: str) -> str:
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", query)
