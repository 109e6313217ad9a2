"""Databases behind a network: one connection, used by one transaction at a time, and made anew after each break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from rota.committers.sql.committer import Work
from rota.committers.url import CommitterUrl
from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.secrets import Password

W = TypeVar("W", bound=Work)

PATIENCE = 10.0
"""Seconds to connect."""


class RemoteDatabase(Generic[W]):
    """The base of databases with a server."""

    failures: tuple[type[Exception], ...]
    """What the driver raises for anything that went wrong."""

    for_update = "FOR UPDATE"
    columns_query: str

    def __init__(self, url: CommitterUrl, password: Password, *, tls: bool) -> None:
        self._url, self._password, self._tls = url, password, tls
        self._turn = asyncio.Lock()
        self._open: Any = None

    async def connect(self) -> Any:
        """A new connection."""
        raise NotImplementedError

    def is_alive(self, connection: Any) -> bool:
        """Can it still be used, as far as is known?"""
        raise NotImplementedError

    def abandon(self, connection: Any) -> None:
        """Let go of it at once; what was open on it is rolled back."""
        raise NotImplementedError

    async def begin(self, connection: Any) -> W:
        """A transaction on it."""
        raise NotImplementedError

    def translate(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        """What a failure means to the caller."""
        raise NotImplementedError

    @asynccontextmanager
    async def work(self) -> AsyncIterator[W]:
        """A transaction, committed at the end unless something was raised."""
        async with self._turn:
            connection = await self._connection()
            meaning: type[RotaError] = Unavailable
            try:
                work = await self.begin(connection)
                yield work
                meaning = Unknown
                await work.execute("COMMIT")
            except self.failures as error:
                self._drop()
                raise self.translate(error, meaning) from error
            except BaseException:
                self._drop()
                raise

    async def columns(self, table: str) -> list[str]:
        """The columns of a table; none if there is no such table."""
        async with self.work() as work:
            return [row[0] for row in await work.fetch(self.columns_query, table)]

    async def close(self) -> None:
        """Let go of the connection."""
        async with self._turn:
            self._drop()

    async def _connection(self) -> Any:
        if self._open is None or not self.is_alive(self._open):
            try:
                self._open = await self.connect()
            except self.failures as error:
                raise self.translate(error, Unavailable) from error
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            self.abandon(self._open)
            self._open = None
