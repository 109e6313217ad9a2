"""MySQL and MariaDB: connections, and what only they say.

`mysql://user@host:3306/database`. There is nothing like NOTIFY, so watching polls up to ten times a second.

Keys and leases are kept as bytes (see the migration), and are turned into text here. There is no RETURNING either:
the counter hands out its new value as the "last insert id", which comes with the answer to the update.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import asyncmy
import asyncmy.errors

from rota.kit.drivers.mysql import ACCESS_DENIED, limit_idleness, number_of, words_of
from rota.kit.time.clock import Clock
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.store import rules
from rota.store.port import Store
from rota.store.sql import migrations, tls
from rota.store.sql.dialect import MYSQL
from rota.store.sql.log import open_log
from rota.store.sql.remote import LinkPool, RemoteDriver
from rota.store.sql.steps import Row, SqlBatch, Step, Together
from rota.store.url import Options, StoreUrl

FAILURES = (asyncmy.errors.MySQLError, OSError, EOFError, asyncio.IncompleteReadError)
TEXT = frozenset({"key", "id", "lease", "run"})
"""Columns of bytes that are text."""

NO_DATABASE = 1049
NOT_NOW = frozenset({1040, 1053, 1927, 2006, 2013})
"""Error numbers: too many connections, shutdown, connection killed, connection gone, connection lost."""


async def open(url: StoreUrl, clock: Clock, *, create: bool) -> Store:
    """The store in a database, reached once and with the schema this code knows."""
    return await open_log(MysqlDriver(url), clock, create=create)


class MysqlLink:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.cursor = connection.cursor()

    async def begin(self, *, write: bool) -> None:
        read = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
        await self.cursor.execute("START TRANSACTION" if write else read)

    async def run(self, step: Step) -> list[Row]:
        if isinstance(step, Together):
            for part in step.parts:
                await self.run(part)
            return []
        text, cursor = MYSQL.queries[step.name], self.cursor
        if isinstance(step, SqlBatch):
            await cursor.executemany(text, step.rows)
            return []
        changed = await cursor.execute(text, step.parameters)
        if cursor.description is None:
            return [(cursor.lastrowid or changed,)] if changed else []
        texts = [place for place, column in enumerate(cursor.description) if column[0] in TEXT]
        return [_decoded(row, texts) for row in await cursor.fetchall()]

    async def commit(self) -> None:
        await self.cursor.execute("COMMIT")

    async def rollback(self) -> None:
        await self.cursor.execute("ROLLBACK")

    def abandon(self) -> None:
        self.connection.close()

    async def close(self) -> None:
        with contextlib.suppress(*FAILURES, TimeoutError):
            async with asyncio.timeout(1):
                await self.connection.ensure_closed()


class MysqlDriver(RemoteDriver[MysqlLink]):
    """Runs steps on MySQL or MariaDB."""

    failures = FAILURES
    poll = 0.1  # there is nothing else

    def __init__(self, url: StoreUrl) -> None:
        options = Options(url)
        timeout = options.timeout()
        self._arguments = connect_arguments(url, options, timeout)
        size = options.number("pool", 5, least=1)
        options.done()
        super().__init__(str(url), LinkPool(self._connect, size), timeout)

    @staticmethod
    def keys_parameter(keys: Sequence[str]) -> object:
        return MYSQL.keys_parameter(keys)

    def listen(self, heard: Callable[[], None]) -> None:
        """Do nothing: MySQL has no notifications."""

    def notify(self) -> None:
        """Do nothing: MySQL has no notifications."""

    async def close(self) -> None:
        await self._pool.close()

    def translate(self, error: Exception, otherwise: type[Unavailable] | type[Unknown]) -> RotaError:
        number = number_of(error)
        if number in ACCESS_DENIED:
            return Denied(
                f"store {self._store}: wrong user, password or rights; see password_file= and ROTA_STORE_PASSWORD"
            )
        if number == NO_DATABASE:
            return Invalid(f"store {self._store}: there is no such database; create it first")
        return otherwise(f"store {self._store}: {words_of(error)}; is the server well?")

    def is_from_there(self, error: BaseException | None) -> bool:
        number = error.args[0] if isinstance(error, asyncmy.errors.MySQLError) and error.args else None
        return super().is_from_there(error) or number in NOT_NOW

    async def _connect(self) -> MysqlLink:
        connection = asyncmy.connection.Connection(**self._arguments)
        # Our own time limit counts. The driver's is a wait_for, which before Python 3.12 swallows a cancellation if the
        # # connection is made in the same moment; what follows would then wait without end.
        connection._connect_timeout = None
        await connection.connect()
        link = MysqlLink(connection)
        try:
            await link.cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # The server should abandon what we have abandoned, and a process that was frozen in the middle of a commit
            # must # not keep the counter locked for all others.
            wait = max(1, round(self._timeout.total_seconds()))
            await link.cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {wait}")
            await limit_idleness(link.cursor, rules.IDLE_MS // 1000)
        except BaseException:
            link.abandon()
            raise
        return link

    async def migrate(self, link: MysqlLink, *, create: bool) -> None:
        cursor = link.cursor
        if not await self._missing(cursor):
            return
        if not create and await self._version(cursor) == 0:
            raise rules.nothing_there(self._store)
        # If anything goes wrong the connection is dropped, and the lock with it.
        await cursor.execute("SELECT GET_LOCK(CONCAT('rota ', DATABASE()), %s)", (self._timeout.total_seconds(),))
        await cursor.execute("CREATE TABLE IF NOT EXISTS rota_schema (version INTEGER PRIMARY KEY) ENGINE=InnoDB")
        for version, statements in (await self._missing(cursor)).items():
            for statement in statements:
                await cursor.execute(statement)
            await cursor.execute("INSERT INTO rota_schema (version) VALUES (%s)", (version,))
        await cursor.execute("SELECT RELEASE_LOCK(CONCAT('rota ', DATABASE()))")

    async def _missing(self, cursor: Any) -> dict[int, list[str]]:
        return migrations.missing(self._store, MYSQL.name, await self._version(cursor))

    async def _version(self, cursor: Any) -> int:
        there = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s"
        await cursor.execute(there, ("rota_schema",))
        if await cursor.fetchone() == (0,):
            return 0
        await cursor.execute("SELECT COALESCE(MAX(version), 0) FROM rota_schema")
        return int((await cursor.fetchone())[0])


def connect_arguments(url: StoreUrl, options: Options, timeout: timedelta) -> dict[str, Any]:
    """The arguments of asyncmy's connect."""
    if len(url.hosts) != 1 or len(url.path) < 2:
        raise Invalid(f"store {url}: write mysql://user@host:3306/database")
    host, port = url.host_and_port(3306)
    return {
        "host": host,
        "port": port,
        "user": url.user,
        "password": options.password() or "",
        "db": url.path[1:],
        "charset": "utf8mb4",
        "autocommit": True,
        "ssl": tls.context(url, options),
    }


def _decoded(row: Sequence[Any], texts: Sequence[int]) -> Row:
    cells = list(row)
    for place in texts:
        if cells[place] is not None:
            cells[place] = cells[place].decode()
    return tuple(cells)
