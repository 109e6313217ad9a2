"""Databases behind a network: one connection, used by one transaction at a time, and made anew after each break."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, Generic, TypeVar

from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.secrets import Password
from rota.outputs.sql.committer import SqlWork
from rota.outputs.url import CommitterUrl

W = TypeVar("W", bound=SqlWork)

PATIENCE = 10.0
"""Seconds to connect."""

LOCK = 10.0
"""Seconds to wait for a lock that another transaction has."""

TIMEOUT = timedelta(seconds=60)
"""How long a statement may take, and how long the server waits for the next one of a transaction."""

MARGIN = 10.0
"""Seconds that we wait longer than the server: its error is better than our timeout."""

REST = 30.0
"""Seconds after which a connection that nobody used is made anew: servers end idle ones, and networks forget them."""


def within(limit: float | None) -> asyncio.Timeout:
    """Raise TimeoutError if the block takes longer than a statement may, and the server has not reported that."""
    return asyncio.timeout(None if limit is None else limit + MARGIN)


class RemoteDatabase(Generic[W]):
    """The base of databases with a server."""

    failures: tuple[type[Exception], ...]
    """The base of the driver's errors."""

    by_key = ""
    for_update = "FOR UPDATE"
    columns_query: str
    check_now = ""
    long_text = "TEXT"

    def __init__(self, url: CommitterUrl, password: Password, *, tls: bool, timeout: timedelta = TIMEOUT) -> None:
        self._url, self._password, self._tls = url, password, tls
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._open: Any = None
        self._used = 0.0
        """When the connection was last used."""

    async def connect(self) -> Any:
        """A new connection."""
        raise NotImplementedError

    def is_alive(self, connection: Any) -> bool:
        """Can it still be used, as far as is known?"""
        raise NotImplementedError

    def abandon(self, connection: Any) -> None:
        """Drop it at once; an open transaction on it is rolled back."""
        raise NotImplementedError

    async def begin(self, connection: Any, limit: float | None) -> W:
        """A transaction on it, whose statements may take `limit` seconds each; None: any time."""
        raise NotImplementedError

    def translate(self, error: Exception, otherwise: type[RotaError]) -> RotaError:
        """The error for the caller."""
        raise NotImplementedError

    def work(self) -> AbstractAsyncContextManager[W]:
        """A transaction, committed at the end unless something was raised."""
        return self._transaction(self._timeout.total_seconds())

    def view(self, *, is_patient: bool = False) -> AbstractAsyncContextManager[W]:
        """A transaction that only reads; `is_patient`: a query may take any time."""
        return self._transaction(None if is_patient else self._timeout.total_seconds())

    @asynccontextmanager
    async def _transaction(self, limit: float | None) -> AsyncIterator[W]:
        async with self._turn:
            connection = await self._connection()
            meaning: type[RotaError] = Unavailable
            try:
                work = await self.begin(connection, limit)
                yield work
                meaning = Unknown
                await work.execute("COMMIT")
                self._used = time.monotonic()
            except self.failures as error:
                self._drop()
                raise self.translate(error, meaning) from error
            except BaseException:
                self._drop()
                raise

    async def columns(self, table: str) -> list[str]:
        """The columns of a table; none if there is no such table."""
        async with self.view() as work:
            return [row[0] for row in await work.fetch(self.columns_query, table)]

    async def close(self) -> None:
        """Close the connection."""
        async with self._turn:
            self._drop()

    async def _connection(self) -> Any:
        if time.monotonic() - self._used > min(REST, self._timeout.total_seconds() / 2):
            self._drop()
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
