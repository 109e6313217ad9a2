"""`postgresql://user@host:5432/database?table=clicks`, with `&schema=shop` where it is not `public`. By COPY."""

import re
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import asyncpg

from rota.committers.port import Committer, Output, Unfit
from rota.committers.sql.committer import SqlCommitter, prepared, table_of
from rota.committers.sql.remote import PATIENCE, RemoteDatabase
from rota.committers.url import CommitterUrl
from rota.kit.clock import SYSTEM, Clock
from rota.model.errors import Denied, Invalid, RotaError
from rota.model.secrets import Password, password
from rota.model.url import Options
from rota.store.port import Store

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError, TimeoutError)
_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
UNFIT = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.UndefinedColumnError,
    asyncpg.RaiseError,  # a trigger
)


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The table in a database."""
    return await _opened(url, stream, clock, create=True)


async def look(url: CommitterUrl, stream: str, store: Store) -> Output:
    """The table: what is published there is its rows."""
    return await _opened(url, stream, SYSTEM, create=False)


async def _opened(url: CommitterUrl, stream: str, clock: Clock, *, create: bool) -> SqlCommitter:
    options = Options(url)
    table, secret, tls = table_of(options), password(url, options), options.choice("tls", ("off", "on"))
    schema = options.text("schema") or "public"
    options.done()
    if not _NAME.fullmatch(schema):
        raise options.wrong(f"schema={schema}; use letters, digits and _")
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"output {url}: write postgresql://user@host:5432/database?table=NAME")
    return await prepared(
        PostgresDatabase(url, secret, schema, tls=tls == "on"), url, stream, table, clock, create=create
    )


class PostgresDatabase(RemoteDatabase["PostgresWork"]):
    """PostgreSQL."""

    failures = FAILURES
    insert_new = "INSERT {} ON CONFLICT DO NOTHING"
    quote = '"'
    columns_query = (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_name = ? AND table_schema = current_schema() ORDER BY ordinal_position"
    )

    def __init__(self, url: CommitterUrl, password: Password, schema: str, *, tls: bool) -> None:
        super().__init__(url, password, tls=tls)
        self._schema = schema

    async def connect(self) -> Any:
        host, port = self._url.host_and_port(5432)
        return await asyncpg.connect(
            host=host,
            port=port,
            user=self._url.user,
            password=self._password() or None,
            database=self._url.path[1:],
            timeout=PATIENCE,
            ssl=self._tls,
            server_settings={"application_name": "rota stream", "search_path": f'"{self._schema}"'},
        )

    def is_alive(self, connection: Any) -> bool:
        return not connection.is_closed()

    def abandon(self, connection: Any) -> None:
        connection.terminate()

    async def begin(self, connection: Any) -> "PostgresWork":
        work = PostgresWork(connection)
        await work.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        return work

    def translate(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        said = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, UNFIT):
            return Unfit(f"output {self._url}: a row does not fit: {said}")
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
