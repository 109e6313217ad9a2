"""PostgreSQL: connections, and what only PostgreSQL says.

`postgresql://user@host:5432/database?schema=rota`. The tables live in a schema, `public` by default. Commits
are announced by NOTIFY; a connection of its own listens. Behind a pooler that hands out connections per transaction set
`?statement_cache_size=0`.
"""

import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cache, partial
from itertools import chain
from random import random
from typing import Any, TypeVar

import asyncpg

from rota.kit.faults import in_one_line
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.store import rules
from rota.store.port import Store
from rota.store.sql import migrations, tls
from rota.store.sql.dialect import POSTGRESQL
from rota.store.sql.log import open_log
from rota.store.sql.remote import LinkPool, RemoteDriver
from rota.store.sql.steps import Row, SqlBatch, SqlQuery, Step, Steps, Together
from rota.store.url import Options, StoreUrl

log = logging.getLogger(__name__)

T = TypeVar("T")

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError)
NOT_NOW = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
)
"""Errors of a server that starts, stops or is full, and of the driver when the server disconnects."""

BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
MIGRATION_LOCK = 0x726F7461  # "rota"
_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")
_PARAMETER = re.compile(r"\$(\d+)")
_CHANGING = ("UPDATE ", "DELETE ", "INSERT ")
_END_STUCK = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name LIKE 'rota %' AND state = 'active'
AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - make_interval(secs => $1)"""
"""Ends sessions whose client stopped in the middle of a statement: it sends one in several pieces, and while the server
waits for the next one no time-out of its own counts."""


async def open(url: StoreUrl, clock: Clock, *, create: bool) -> Store:
    """The store in a database, reached once and with the schema this code knows."""
    return await open_log(PostgresDriver(url), clock, create=create)


class PostgresLink:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self, *, write: bool) -> None:
        await self.connection.execute(BEGIN_WRITE if write else BEGIN_READ)

    async def run(self, step: Step) -> list[Row]:
        if isinstance(step, Together):
            names = tuple(part.name for part in step.parts)
            await self.connection.execute(_joined(names), *chain.from_iterable(map(_parameters, step.parts)))
            return []
        text = POSTGRESQL.queries[step.name]
        if isinstance(step, SqlBatch) and step.name not in POSTGRESQL.by_columns:
            await self.connection.executemany(text, step.rows)
            return []
        if not text.startswith(_CHANGING):
            return [tuple(record) for record in await self.connection.fetch(text, *_parameters(step))]
        changed = int((await self.connection.execute(text, *_parameters(step))).split()[-1])
        return [(changed,)] if changed else []

    async def commit(self) -> None:
        await self.connection.execute("COMMIT")

    async def rollback(self) -> None:
        await self.connection.execute("ROLLBACK")

    def abandon(self) -> None:
        self.connection.terminate()

    async def close(self) -> None:
        with contextlib.suppress(*FAILURES, TimeoutError):
            await self.connection.close(timeout=1)


class PostgresDriver(RemoteDriver[PostgresLink]):
    """Runs steps on PostgreSQL, and listens."""

    failures = FAILURES
    poll = 1.0  # behind NOTIFY

    def __init__(self, url: StoreUrl) -> None:
        options = Options(url)
        timeout = options.timeout()
        self._schema = options.text("schema") or "public"
        self._name = f"rota {secrets.token_hex(4)}"
        self._arguments = connect_arguments(url, options, timeout, self._schema, self._name)
        size = options.number("pool", 5, least=1)
        options.done()
        if not _NAME.fullmatch(self._schema):
            raise Invalid(f"store {url}: schema={self._schema}; use letters, digits and _")
        super().__init__(str(url), LinkPool(self._connect, size), timeout)
        self._listening: asyncio.Task[None] | None = None
        self._freeing: asyncio.Task[None] | None = None

    @staticmethod
    def keys_parameter(keys: Sequence[str]) -> object:
        return POSTGRESQL.keys_parameter(keys)

    def listen(self, heard: Callable[[], None]) -> None:
        self._listening = asyncio.create_task(self._listen(heard), name="store listen")

    def notify(self) -> None:
        """Do nothing: the commit itself sent the NOTIFY."""

    async def write(self, steps: Callable[[], Steps[T]]) -> T:
        try:
            return await super().write(steps)
        except Unavailable:
            if self._freeing is None or self._freeing.done():
                self._freeing = asyncio.create_task(self._free(), name="store free")
            raise

    async def close(self) -> None:
        tasks = [task for task in (self._listening, self._freeing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._pool.close()

    def translate(self, error: Exception, otherwise: type[Unavailable] | type[Unknown]) -> RotaError:
        if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
            return Denied(
                f"store {self._store}: wrong user or password; give it by password_file= or ROTA_STORE_PASSWORD"
            )
        if isinstance(error, asyncpg.InvalidCatalogNameError):
            return Invalid(f"store {self._store}: there is no such database; create it first")
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return Denied(f"store {self._store}: {in_one_line(error)}; grant this user what it needs")
        if isinstance(error, asyncpg.CannotConnectNowError | OSError) and otherwise is Unavailable:
            return Unavailable(
                f"store {self._store}: cannot connect ({in_one_line(error)}); is PostgreSQL running there?"
            )
        return otherwise(f"store {self._store}: {in_one_line(error)}")

    def is_from_there(self, error: BaseException | None) -> bool:
        return super().is_from_there(error) or isinstance(error, NOT_NOW)

    async def _connect(self) -> PostgresLink:
        return PostgresLink(await asyncpg.connect(**self._arguments))

    async def migrate(self, link: PostgresLink, *, create: bool) -> None:
        connection = link.connection
        if not await self._missing(connection):
            return
        if not create and await self._version(connection) == 0:
            raise rules.nothing_there(self._store)
        async with connection.transaction():
            wait = round(self._timeout.total_seconds() * 1000)
            await connection.execute(f"SET LOCAL lock_timeout = {wait}")
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            # Looked for first: "if not exists" asks for the right to create even where there is nothing to do.
            if not await connection.fetchval("SELECT COUNT(*) FROM pg_namespace WHERE nspname = $1", self._schema):
                await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
            await connection.execute("CREATE TABLE IF NOT EXISTS rota_schema (version INTEGER PRIMARY KEY)")
            for version, statements in (await self._missing(connection)).items():
                for statement in statements:
                    await connection.execute(statement)
                await connection.execute("INSERT INTO rota_schema (version) VALUES ($1)", version)

    async def _missing(self, connection: Any) -> dict[int, list[str]]:
        return migrations.missing(self._store, POSTGRESQL.name, await self._version(connection))

    async def _version(self, connection: Any) -> int:
        if await connection.fetchval("SELECT to_regclass($1)", f'"{self._schema}".rota_schema') is None:
            return 0
        return int(await connection.fetchval("SELECT COALESCE(MAX(version), 0) FROM rota_schema"))

    async def _free(self) -> None:
        """Free the lock if it is a frozen process that holds it, in the middle of a statement."""
        try:
            async with asyncio.timeout(self._patience):
                connection = await asyncpg.connect(**self._arguments)
                try:
                    ended = await connection.fetch(_END_STUCK, rules.IDLE_MS / 1000)
                finally:
                    connection.terminate()
        except (*FAILURES, TimeoutError) as error:
            log.debug("frozen writers not checked", extra={"store": self._store, "why": in_one_line(error)})
        else:
            if ended:
                log.warning("ended sessions of frozen writers", extra={"store": self._store, "count": len(ended)})

    async def _listen(self, heard: Callable[[], None]) -> None:
        """Listen for commits until cancelled; after each break the poll finds what was missed."""
        waits = delays(timedelta(milliseconds=100), timedelta(seconds=2), random)
        while True:
            try:
                connection = await asyncpg.connect(**self._arguments)
                try:
                    lost = asyncio.get_running_loop().create_future()
                    connection.add_termination_listener(lambda _, lost=lost: lost.done() or lost.set_result(None))
                    await connection.add_listener(f"rota_{self._schema}", partial(self._notified, heard))
                    heard()
                    await lost
                finally:
                    connection.terminate()
            except (*FAILURES, TimeoutError) as error:
                log.debug("not listening", extra={"store": self._store, "why": in_one_line(error)})
            await asyncio.sleep(next(waits).total_seconds())

    def _notified(self, heard: Callable[[], None], connection: Any, pid: int, channel: str, name: str) -> None:
        """Handle a notification of a commit; our own commits are known already."""
        if name != self._name:
            heard()


def _parameters(part: SqlQuery | SqlBatch) -> Iterable[object]:
    """The parameters of a query, or a list for each column of its rows."""
    return part.parameters if isinstance(part, SqlQuery) else zip(*part.rows, strict=True)


@cache
def _joined(names: tuple[str, ...]) -> str:
    """Several named queries as one statement, with the parameters of all of them."""
    texts: list[str] = []
    count = 0
    for name in names:
        text = POSTGRESQL.queries[name]
        texts.append(_shifted(text, count))
        count += text.count("$")
    before = ", ".join(f"{name} AS ({text})" for name, text in zip(names[:-1], texts[:-1], strict=True))
    return f"WITH {before} {texts[-1]}" if before else texts[-1]


def _shifted(text: str, by: int) -> str:
    """A query whose first parameter is not the first."""
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + by}", text)


def connect_arguments(url: StoreUrl, options: Options, timeout: timedelta, schema: str, name: str) -> dict[str, Any]:
    """The arguments of asyncpg's connect."""
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"store {url}: write postgresql://user@host:5432/database")
    host, port = url.host_and_port(5432)
    return {
        "host": host,
        "port": port,
        "user": url.user,
        "password": options.password(),
        "database": url.path[1:],
        "timeout": timeout.total_seconds(),
        "ssl": tls.context(url, options) or False,
        "statement_cache_size": options.number("statement_cache_size", 100),
        "server_settings": {
            "application_name": name,
            "search_path": f'"{schema}"',
            # The server should abandon what we have abandoned, and a process that was frozen in the middle of a commit
            # must # not keep the counter locked for all others.
            "statement_timeout": str(round(timeout.total_seconds() * 1000)),
            "idle_in_transaction_session_timeout": str(rules.IDLE_MS),
        },
    }
