"""`mysql://user@host:3306/database?table=clicks`, for MySQL and MariaDB. The table must be InnoDB.

`&timeout=60s` is how long one statement may take, and how long the server waits for the next one of a publish.
"""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import asyncmy
import asyncmy.errors

from rota.kit.drivers.mysql import ACCESS_DENIED, limit_idleness, number_of, words_of
from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import Denied, Invalid, RotaError
from rota.model.secrets import password
from rota.model.url import Options
from rota.outputs.port import Committer, Output, Unfit
from rota.outputs.sql import remote
from rota.outputs.sql.committer import SqlCommitter, prepared, table_of
from rota.outputs.sql.remote import PATIENCE, RemoteDatabase, within
from rota.outputs.url import CommitterUrl
from rota.store.port import Store

BATCH = 1000
"""Rows in one statement."""

FAILURES = (asyncmy.errors.MySQLError, OSError, EOFError, asyncio.IncompleteReadError, TimeoutError)
UNFIT = (asyncmy.errors.DataError, asyncmy.errors.IntegrityError)
UNFIT_NUMBERS = frozenset({1054, 1364, 1526, 1644, 3819, 4025})
"""Errors of a row that the driver reports as errors of the server: a missing column, no default, no partition, a
trigger's refusal, and a CHECK (MySQL's and MariaDB's numbers)."""

UNFIT_STATES = ("22", "23")
"""Prefixes of the SQLSTATE of errors about a value or a row, whatever class the driver gives them."""


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The table in a database."""
    return await _opened(url, stream, clock, create=True)


async def look(url: CommitterUrl, stream: str, store: Store) -> Output:
    """The table: what is published there is its rows."""
    return await _opened(url, stream, SYSTEM, create=False)


async def _opened(url: CommitterUrl, stream: str, clock: Clock, *, create: bool) -> SqlCommitter:
    options = Options(url)
    table, secret, tls = table_of(options), password(url, options), options.choice("tls", ("off", "on"))
    timeout = options.duration("timeout", remote.TIMEOUT)
    options.done()
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"output {url}: write mysql://user@host:3306/database?table=NAME")
    database = MysqlDatabase(url, secret, tls=tls == "on", timeout=timeout)
    await database.refuse_without_transactions(table)
    return await prepared(database, url, stream, table, clock, create=create)


class MysqlDatabase(RemoteDatabase["MysqlWork"]):
    """MySQL or MariaDB."""

    failures = FAILURES
    by_key = "FORCE INDEX (PRIMARY)"
    insert_new = "INSERT IGNORE {}"
    long_text = "LONGTEXT"  # a TEXT ends at 64 KiB
    quote = "`"
    columns_query = (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_name = ? AND table_schema = DATABASE() ORDER BY ordinal_position"
    )

    async def connect(self) -> Any:
        host, port = self._url.host_and_port(3306)
        connection = await asyncmy.connect(
            host=host,
            port=port,
            user=self._url.user,
            password=self._password(),
            db=self._url.path[1:],
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=PATIENCE,
            init_command="SET time_zone = '+00:00'",  # else a TIMESTAMP is read as local time of the server
            ssl=ssl.create_default_context() if self._tls else None,
        )
        try:
            async with within(PATIENCE):
                await self._limit(connection.cursor())
        except BaseException:
            self.abandon(connection)
            raise
        return connection

    async def _limit(self, cursor: Any) -> None:
        """A machine that is lost or frozen in the middle of a publish must not keep its locks."""
        seconds, lock = (max(1, round(each)) for each in (self._timeout.total_seconds(), remote.LOCK))
        await cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {lock}, SESSION lock_wait_timeout = {lock}")
        await limit_idleness(cursor, seconds)

    def is_alive(self, connection: Any) -> bool:
        return bool(connection.connected)

    def abandon(self, connection: Any) -> None:
        connection.close()

    async def begin(self, connection: Any, limit: float | None) -> "MysqlWork":
        work = MysqlWork(connection.cursor(), limit)
        # So that looking for offsets locks those that are there, and not the gaps between them.
        await work.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await work.execute("START TRANSACTION")
        return work

    async def refuse_without_transactions(self, table: str) -> None:
        """Refuse a table of another engine: it stores rows at once, even if the transaction is rolled back."""
        query = "SELECT engine FROM information_schema.tables WHERE table_name = ? AND table_schema = DATABASE()"
        async with self.work() as work:
            engines = [row[0] for row in await work.fetch(query, table)]
        if engines and engines[0] != "InnoDB":
            await self.close()
            raise Invalid(f"output {self._url}: table {table} is {engines[0]}, without transactions; make it InnoDB")

    def translate(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        number, said = number_of(error), words_of(error)
        state = getattr(error, "sqlstate", None) or ""
        if isinstance(error, UNFIT) or number in UNFIT_NUMBERS or state.startswith(UNFIT_STATES):
            return Unfit(f"output {self._url}: a row does not fit: {said}")
        if number in ACCESS_DENIED:
            return Denied(f"output {self._url}: {said}; see password_file= and the user's rights")
        return otherwise(f"output {self._url}: {said}; is the server well?")


class MysqlWork:
    """One transaction."""

    def __init__(self, cursor: Any, limit: float | None) -> None:
        self._cursor, self._limit = cursor, limit

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        async with within(self._limit):
            await self._cursor.execute(query.replace("?", "%s"), parameters)
            return list(await self._cursor.fetchall())

    async def execute(self, query: str, *parameters: object) -> None:
        async with within(self._limit):
            await self._cursor.execute(query.replace("?", "%s"), parameters)

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        names, marks = ", ".join(f"`{name}`" for name in columns), ", ".join("%s" for _ in columns)
        query = f"INSERT INTO `{table}` ({names}) VALUES ({marks})"
        left = iter(rows)
        while batch := list(islice(left, BATCH)):
            async with within(self._limit):
                await self._cursor.executemany(query, [tuple(map(_stored, row)) for row in batch])


def _stored(value: object) -> object:
    """A value as the driver takes it: it leaves out the zone of a time, so that time must be UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value
