"""The stores the laws are tried on: how to open each, and what can be done to it.

`memory://` lives in one process; `sqlite://` has no server, but a lock that others can hold; the rest have a server
that can be killed, frozen and cut off. To add a store: a class here, a line in HARNESSES, and its server in
`servers.py`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import asyncmy
import asyncpg
import pytest

from rota.store import url as urls
from tests.kit.servers import PASSWORD, USER, Etcd, MariaDB, Postgres, Server


class StoreHarness:
    """A place for one test's store, empty and its own."""

    name: ClassVar[str]
    is_shared: ClassVar[bool] = True
    """Whether several processes can open it."""
    server: ClassVar[type[Server] | None] = None
    """What it runs on, if it needs a server; `backend` is then what `obtain` calls it."""
    backend: ClassVar[str] = ""
    login: ClassVar[str] = ""
    """Who opens it."""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory = directory
        self.running = server
        self.space = uuid4().hex

    def url(self, *, beside: str = "", port: int | None = None, login: str | None = None, **options: str) -> str:
        """The store's URL; `beside` names a neighbour, `port` goes through a proxy, `login` is someone else's."""
        address = self.address(self.space + beside, port)
        login = self.login if login is None else login
        if login:
            address = address.replace("://", f"://{login}@")
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return address + (("&" if "?" in address else "?") + query if query else "")

    @property
    def shown(self) -> str:
        """The store's URL as messages show it."""
        return str(urls.parse(self.url()))

    def address(self, space: str, port: int | None) -> str:
        """The URL of a space, without who opens it and without further options."""
        raise NotImplementedError


class MemoryHarness(StoreHarness):
    """A universe of this process."""

    name = "memory"
    is_shared = False

    def address(self, space: str, port: int | None) -> str:
        return f"memory://{space}"


class SqliteHarness(StoreHarness):
    """A file of the test's directory."""

    name = "sqlite"

    def address(self, space: str, port: int | None) -> str:
        return f"sqlite:///{self.path(space)}"

    def path(self, space: str = "") -> Path:
        """The database file."""
        return self.directory / f"{space or self.space}.db"


class EtcdHarness(StoreHarness):
    """A namespace on a real etcd."""

    name = "etcd"
    server = Etcd
    backend = "etcd"

    def address(self, space: str, port: int | None) -> str:
        assert self.running is not None
        return f"etcd://127.0.0.1:{port or self.running.port}/{space}"


Run = Callable[[str], Awaitable[list[tuple[Any, ...]]]]
"""Runs a statement and returns its rows."""


class SqlHarness(StoreHarness):
    """A place on a database server, which can also be looked at behind Rota's back."""

    def raw(self) -> AbstractAsyncContextManager[Run]:
        """A connection of our own to the test's tables."""
        raise NotImplementedError

    async def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own."""
        async with self.raw() as run:
            return await run(statement)


class PostgresHarness(SqlHarness):
    """A schema on a real PostgreSQL."""

    name = "postgresql"
    server = Postgres
    backend = "postgresql"
    login = USER

    def address(self, space: str, port: int | None) -> str:
        assert self.running is not None
        return f"postgresql://127.0.0.1:{port or self.running.port}/postgres?schema={space}"

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Run]:
        assert self.running is not None
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=self.running.port,
            user=USER,
            database="postgres",
            server_settings={"search_path": f'"{self.space}"'},
        )

        async def run(statement: str) -> list[tuple[Any, ...]]:
            return [tuple(record) for record in await connection.fetch(statement)]

        try:
            yield run
        finally:
            connection.terminate()


class MysqlHarness(SqlHarness):
    """A database on a real MariaDB, made when its URL is first asked for."""

    name = "mysql"
    server = MariaDB
    backend = "mariadb"
    login = f"{USER}:{PASSWORD}"

    def __init__(self, directory: Path, server: Server | None) -> None:
        super().__init__(directory, server)
        self._made: set[str] = set()

    def address(self, space: str, port: int | None) -> str:
        assert isinstance(self.running, MariaDB)
        if space not in self._made:
            self.running.make_database(space)
            self._made.add(space)
        return f"mysql://127.0.0.1:{port or self.running.port}/{space}"

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Run]:
        assert self.running is not None
        connection = await asyncmy.connect(
            host="127.0.0.1", port=self.running.port, user=USER, password=PASSWORD, db=self.space, autocommit=True
        )
        cursor = connection.cursor()

        async def run(statement: str) -> list[tuple[Any, ...]]:
            await cursor.execute(statement)
            return [] if cursor.description is None else [tuple(row) for row in await cursor.fetchall()]

        try:
            yield run
        finally:
            connection.close()


HARNESSES: tuple[type[StoreHarness], ...] = (
    *(MemoryHarness, SqliteHarness, EtcdHarness),
    *(PostgresHarness, MysqlHarness),
)


def params(harnesses: Iterable[type[StoreHarness]]) -> list[object]:
    """The harnesses as parameters of a fixture, each with its name and the backend it needs."""
    return [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(kind.backend)] if kind.backend else [])
        for kind in harnesses
    ]
