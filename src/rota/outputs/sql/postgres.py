"""`postgresql://user@host:5432/database?table=clicks`, with `&schema=shop` where it is not `public`. By COPY.

`&timeout=60s` is how long one statement may take, and how long the server waits for the next one of a publish.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import count, islice
from typing import Any

import asyncpg

from rota.kit.faults import in_one_line
from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import Denied, Invalid, RotaError
from rota.model.secrets import Password, password
from rota.model.url import Options
from rota.outputs.port import Committer, Output, Unfit
from rota.outputs.sql import remote
from rota.outputs.sql.committer import SqlCommitter, prepared, table_of
from rota.outputs.sql.remote import PATIENCE, RemoteDatabase, within
from rota.outputs.url import CommitterUrl
from rota.store.port import Store

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError, TimeoutError)
BATCH = 5000
"""Rows in one statement: what one may take is known for a number of rows, and not for a publish of any size."""

KEEPALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
"""How soon the server notices that our machine is gone: in 25 seconds instead of two hours."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
UNFIT = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.UndefinedColumnError,
    asyncpg.PLPGSQLError,  # a trigger
    asyncpg.ProgramLimitExceededError,  # a value too long for an index
    asyncpg.WithCheckOptionViolationError,
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
    schema, timeout = options.text("schema") or "public", options.duration("timeout", remote.TIMEOUT)
    options.done()
    if not _NAME.fullmatch(schema):
        raise options.wrong(f"schema={schema}; use letters, digits and _")
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"output {url}: write postgresql://user@host:5432/database?table=NAME")
    database = PostgresDatabase(url, secret, schema, tls=tls == "on", timeout=timeout)
    return await prepared(database, url, stream, table, clock, create=create)


class PostgresDatabase(RemoteDatabase["PostgresWork"]):
    """PostgreSQL."""

    failures = FAILURES
    insert_new = "INSERT {} ON CONFLICT DO NOTHING"
    quote = '"'
    check_now = "SET CONSTRAINTS ALL IMMEDIATE"
    columns_query = (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_name = ? AND table_schema = current_schema() ORDER BY ordinal_position"
    )

    def __init__(self, url: CommitterUrl, password: Password, schema: str, *, tls: bool, timeout: timedelta) -> None:
        super().__init__(url, password, tls=tls, timeout=timeout)
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
            server_settings={
                "application_name": "rota stream",
                "search_path": f'"{self._schema}"',
                # A machine that is lost or frozen in the middle of a publish must not keep its locks.
                "idle_in_transaction_session_timeout": str(round(self._timeout.total_seconds() * 1000)),
                **KEEPALIVE,
            },
        )

    def is_alive(self, connection: Any) -> bool:
        return not connection.is_closed()

    def abandon(self, connection: Any) -> None:
        connection.terminate()

    async def begin(self, connection: Any, limit: float | None) -> "PostgresWork":
        work = PostgresWork(connection, limit)
        limits = {"lock_timeout": remote.LOCK, "statement_timeout": limit or 0}
        local = "; ".join(f"SET LOCAL {name} = {round(1000 * seconds)}" for name, seconds in limits.items())
        await work.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {local}")
        return work

    def translate(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        said = in_one_line(error)
        if isinstance(error, UNFIT):
            return Unfit(f"output {self._url}: a row does not fit: {said}")
        if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InsufficientPrivilegeError):
            return Denied(f"output {self._url}: {said}; see password_file= and the user's rights")
        return otherwise(f"output {self._url}: {said}; is PostgreSQL running there?")


class PostgresWork:
    """One transaction."""

    def __init__(self, connection: Any, limit: float | None) -> None:
        self._connection, self._limit = connection, limit

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        async with within(self._limit):
            return [tuple(row) for row in await self._connection.fetch(_numbered(query), *parameters)]

    async def execute(self, query: str, *parameters: object) -> None:
        async with within(self._limit):
            await self._connection.execute(_numbered(query), *parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        left = iter(rows)
        while batch := list(islice(left, BATCH)):
            async with within(self._limit):
                try:
                    await self._connection.copy_records_to_table(table, records=batch, columns=columns)
                except AttributeError as error:  # it asks a text for its day, where a column is of days
                    raise TypeError(f"a value has another type than its column: {error}") from error


def _numbered(query: str) -> str:
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", query)
