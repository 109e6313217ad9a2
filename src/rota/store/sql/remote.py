"""SQL databases behind a network: a pool of links, transactions with a timeout, and the meaning of errors.

A link is one connection (`postgres.py` and `mysql.py` have one each); this module runs steps over it. Until COMMIT is
sent a lost connection or a time-out means that nothing happened, for the database rolls back what nobody commits:
Unavailable. From then on it means Unknown.

A link that was left in the middle of anything is thrown away, never reused.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Generic, Protocol, TypeVar

from rota.kit.time import durations
from rota.model.errors import BrokenOff, RotaError, Unavailable, Unknown
from rota.store.sql.steps import NothingChanged, Row, Step, Steps

T = TypeVar("T")

BROKEN = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, EOFError)
"""Errors that end an established connection; a refused one was never established."""


class SqlLink(Protocol):
    """One connection to a database."""

    async def begin(self, *, write: bool) -> None:
        """Start a transaction: one that writes, or one that reads a single snapshot."""

    async def run(self, step: Step) -> list[Row]:
        """The rows a query returns; else how many it changed, if any."""

    async def commit(self) -> None:
        """End the transaction and keep what it did."""

    async def rollback(self) -> None:
        """End the transaction as if it had not been."""

    def abandon(self) -> None:
        """Drop the connection at once, without closing it in order."""

    async def close(self) -> None:
        """Close the connection in order."""


L = TypeVar("L", bound=SqlLink)


class LinkPool(Generic[L]):
    """Links, made when they are needed and kept while they are clean."""

    def __init__(self, connect: Callable[[], Awaitable[L]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(size)
        self._idle: list[L] = []
        self._is_closed = False

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[L]:
        """A link for one use. If the caller raises, the link is dropped, as it may be in the middle of a statement."""
        if self._is_closed:
            raise Unavailable("store: closed; open it again")
        async with self._places:
            link = self._idle.pop() if self._idle else await self._connect()
            try:
                yield link
            except BaseException:
                link.abandon()
                raise
            self._take_back(link)

    @property
    def has_idle(self) -> bool:
        """Would the next borrower get a link that was used before?"""
        return bool(self._idle)

    def drop_idle(self) -> None:
        """Forget the idle links: when one connection broke, the others probably did."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.abandon()

    def _take_back(self, link: L) -> None:
        if self._is_closed:
            link.abandon()
        else:
            self._idle.append(link)

    async def close(self) -> None:
        """Close what is idle; what is in use is dropped when it comes back."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*(link.close() for link in idle), return_exceptions=True)


class TransactionRefusal:
    """An error of Rota's that ended a transaction by a clean rollback."""

    def __init__(self, error: RotaError) -> None:
        self.error = error


class Transaction:
    """Steps under way on a link; knows whether they have begun, and whether COMMIT was sent."""

    def __init__(self) -> None:
        self.has_begun = False
        self.is_committing = False

    async def run(self, link: SqlLink, steps: Steps[T], *, write: bool) -> T | TransactionRefusal:
        """The result, committed; or what the steps raised, rolled back."""
        await link.begin(write=write)
        self.has_begun = True
        try:
            result = await drive(link, steps)
        except NothingChanged as nothing:
            await link.rollback()
            return nothing.result  # type: ignore[no-any-return]
        except RotaError as error:
            await link.rollback()
            return TransactionRefusal(error)
        self.is_committing = write
        await link.commit()
        return result


async def drive(link: SqlLink, steps: Steps[T]) -> T:
    """Run the queries of the steps one by one."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await link.run(step))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


class RemoteDriver(Generic[L]):
    """Reads and writes over a pool; the base of the drivers that await."""

    failures: tuple[type[Exception], ...]
    """The base of the driver's errors."""

    def __init__(self, store: str, pool: LinkPool[L], timeout: timedelta) -> None:
        self._store = store
        self._pool = pool
        self._timeout = timeout
        self._patience = timeout.total_seconds()

    def translate(self, error: Exception, otherwise: type[Unavailable] | type[Unknown]) -> RotaError:
        """The error for the caller."""
        raise NotImplementedError

    def is_from_there(self, error: BaseException | None) -> bool:
        """Does a failure to connect show that there is a server, or was one a moment ago?"""
        return isinstance(error, BROKEN) or (error is not None and isinstance(error.__cause__, BROKEN))

    async def migrate(self, link: L, *, create: bool) -> None:
        """Bring the schema up to date, unless another process is just doing so."""
        raise NotImplementedError

    async def prepare(self, *, create: bool) -> None:
        """Reach the database and bring its schema up to date; BrokenOff if it was reached, and failed then."""
        is_reached = False

        async def call(work: Transaction) -> None:
            nonlocal is_reached
            async with self._pool.borrow() as link:
                is_reached = True
                await self.migrate(link, create=create)

        try:
            await self._settled(call)
        except Unavailable as error:
            if is_reached or self.is_from_there(error.__cause__):
                raise BrokenOff(str(error)) from error.__cause__
            raise

    async def read(self, steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
        """Run steps on one snapshot."""
        return await self._settled(partial(self._alone if alone else self._read, steps))

    async def write(self, steps: Callable[[], Steps[T]]) -> T:
        """Run steps in one transaction."""
        return await self._settled(partial(self._write, steps))

    async def _alone(self, steps: Callable[[], Steps[T]], work: Transaction) -> T | TransactionRefusal:
        async with self._pool.borrow() as link:
            return await drive_alone(link, steps())

    async def _read(self, steps: Callable[[], Steps[T]], work: Transaction) -> T | TransactionRefusal:
        async with self._pool.borrow() as link:
            return await work.run(link, steps(), write=False)

    async def _write(self, steps: Callable[[], Steps[T]], work: Transaction) -> T | TransactionRefusal:
        async with self._pool.borrow() as link:
            return await work.run(link, steps(), write=True)

    async def _settled(self, call: Callable[[Transaction], Awaitable[T | TransactionRefusal]]) -> T:
        """The result of a call within the timeout, with the driver's errors translated."""
        work = Transaction()
        try:
            async with asyncio.timeout(self._patience):
                outcome = await self._tried_twice(call, work)
        except TimeoutError:
            self._pool.drop_idle()
            wait = durations.render(self._timeout)
            raise self._unsure(work)(f"store {self._store}: no answer within {wait}; is the server well?") from None
        except self.failures as error:
            self._pool.drop_idle()
            raise self.translate(error, self._unsure(work)) from error
        if isinstance(outcome, TransactionRefusal):
            raise outcome.error
        return outcome

    async def _tried_twice(
        self, call: Callable[[Transaction], Awaitable[T | TransactionRefusal]], work: Transaction
    ) -> T | TransactionRefusal:
        """The call, retried once if it got an idle link that proved to be dead before anything had begun.

        A fresh connection that fails is not retried: a wrong password stays wrong, and retries may lock the user out.
        """
        may_be_dead = self._pool.has_idle
        try:
            return await call(work)
        except self.failures:
            if work.has_begun or not may_be_dead:
                raise
        self._pool.drop_idle()
        return await call(work)

    def _unsure(self, work: Transaction) -> type[Unavailable] | type[Unknown]:
        return Unknown if work.is_committing else Unavailable


async def drive_alone(link: SqlLink, steps: Steps[T]) -> T | TransactionRefusal:
    """Steps of a single query, which need no transaction."""
    try:
        return await drive(link, steps)
    except RotaError as error:
        return TransactionRefusal(error)
