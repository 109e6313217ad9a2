"""SQLite: connections, and what only SQLite says.

`sqlite:///file.db` is relative, `sqlite:////var/lib/rota.db` absolute. Several processes of one machine may open the
same file. It runs in WAL mode and syncs at each commit; `?synchronous=normal` leaves the syncing to checkpoints,
which is much faster and may lose the last commits when the power fails (not when a process dies).

Each open store has two threads with a connection each: readers never wait for the writer. A whole transaction is one
call to the thread, and its caller on the event loop waits no longer than the timeout.
"""

import asyncio
import contextlib
import logging
import shlex
import sqlite3
import stat
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from rota.kit.files import make_private, mode_of
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.store import rules
from rota.store.port import Store
from rota.store.sql import migrations
from rota.store.sql.dialect import SQLITE
from rota.store.sql.log import open_log
from rota.store.sql.nudge import Nudges
from rota.store.sql.steps import NothingChanged, Row, SqlBatch, SqlQuery, Step, Steps
from rota.store.url import Options, StoreUrl

T = TypeVar("T")

log = logging.getLogger(__name__)

OLDEST = (3, 35, 0)
"""The first SQLite with RETURNING."""

BESIDE = ("-wal", "-shm")
"""Suffixes of the files SQLite keeps beside a database; it makes them with the mode of the database."""

STOP = 5.0
"""Seconds a closing store waits for its threads."""


async def open(url: StoreUrl, clock: Clock, *, create: bool) -> Store:
    """The store in a file."""
    options = Options(url)
    timeout = options.timeout()
    synchronous = options.choice("synchronous", ("full", "normal"))
    options.done()
    path = database_path(url)
    check_file(url, path)
    store = await open_log(SqliteDriver(url, path, timeout, synchronous), clock, create=create)
    keep_from_others(path)  # not before it was opened: a file that is no database stays as it is
    return store


def database_path(url: StoreUrl) -> Path:
    """The file a URL means."""
    if url.hosts or url.user or len(url.path) < 2 or url.path == "/:memory:" or not url.path.isprintable():
        raise Invalid(f"store {url}: write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path")
    return Path(url.path[1:])


def check_file(url: StoreUrl, path: Path) -> None:
    """Refuse early, with a clear message, what SQLite would refuse later or, run by root, not at all."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise Invalid(f"store {url}: SQLite {sqlite3.sqlite_version} is too old; Rota needs 3.35 or newer")
    try:
        _check_place(url, path)
    except OSError as error:
        raise Denied(f"store {url}: {error.strerror}; choose another file") from error


def _check_place(url: StoreUrl, path: Path) -> None:
    if path.is_dir():
        raise Invalid(f"store {url}: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        absolute = Path("/") / path
        hint = f", or write sqlite:///{absolute}" if absolute.parent.is_dir() else ""
        raise Invalid(f"store {url}: folder {path.parent} does not exist; make it{hint}")
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise Denied(f"store {url}: {path} is read-only; chmod u+w it, or choose another file")


def keep_from_others(path: Path) -> None:
    """Remove the permissions of users outside the file's group on the store's files.

    Only the owner may access new files. Those that an older Rota made with the usual umask can be read by every user of
    the machine, and so can every secret in them.
    """
    for file in (path, *(path.with_name(path.name + ending) for ending in BESIDE)):
        mode = mode_of(file)
        if mode is None or not mode & stat.S_IRWXO:
            continue
        fields = {"file": str(file), "mode": f"{mode:04o}"}
        try:
            file.chmod(mode & ~stat.S_IRWXO)
        except FileNotFoundError:  # the last of its users left just now
            continue
        except OSError as error:
            run = f"chmod o= {shlex.quote(str(file))}"
            log.warning("others may read the store", extra={**fields, "why": error.strerror, "run": run})
        else:
            log.warning("others could read the store, and cannot any more", extra=fields)


class SqliteDriver:
    """Runs steps against one file in two threads."""

    poll = 1.0  # behind the nudges

    def __init__(self, url: StoreUrl, path: Path, timeout: timedelta, synchronous: str) -> None:
        self._url = url
        self._timeout = timeout
        self._patience = timeout.total_seconds() + 0.5
        self._writer = ConnectionThread("rota sqlite writer", SqliteConnection(url, path, timeout, synchronous))
        self._reader = ConnectionThread("rota sqlite reader", SqliteConnection(url, path, timeout, synchronous))
        self._nudges = Nudges(path)
        self.keys_parameter: Callable[[Sequence[str]], object] = SQLITE.keys_parameter

    async def prepare(self, *, create: bool) -> None:
        """Open the file and bring its schema up to date."""
        await self._do(self._writer, lambda connection: connection.migrate(create=create), Unavailable)

    async def read(self, steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
        return await self._do(self._reader, lambda connection: connection.run("BEGIN", steps()), Unavailable)

    async def write(self, steps: Callable[[], Steps[T]]) -> T:
        return await self._do(self._writer, lambda connection: connection.run("BEGIN IMMEDIATE", steps()), Unknown)

    def listen(self, heard: Callable[[], None]) -> None:
        self._nudges.listen(heard)

    def notify(self) -> None:
        self._nudges.notify()

    async def close(self) -> None:
        self._nudges.close()
        await asyncio.gather(self._writer.stop(), self._reader.stop())

    async def _do(
        self,
        worker: "ConnectionThread",
        call: Callable[["SqliteConnection"], T],
        too_late: type[Unavailable] | type[Unknown],
    ) -> T:
        # SQLite gives up a busy file at its own time-out; this one is for a disk that does not answer at all, and for
        # calls that waited behind one.
        job = worker.submit(call)
        try:
            async with asyncio.timeout(self._patience):
                return await job.future
        except TimeoutError:
            wait = durations.render(self._timeout)
            if job.abandon():
                raise Unavailable(f"store {self._url}: too busy; nothing was tried within {wait}") from None
            raise too_late(f"store {self._url}: no answer within {wait}; is the disk well?") from None


class ThreadCall(Generic[T]):
    """A call for a worker's thread: run by the thread, or abandoned by its caller, and never both."""

    def __init__(self, call: Callable[["SqliteConnection"], T], future: asyncio.Future[T]) -> None:
        self.call = call
        self.future = future
        self._claim = threading.Lock()

    def abandon(self) -> bool:
        """Withdraw the call; False if the thread has begun with it."""
        return self._claim.acquire(blocking=False)

    def run(self, connection: "SqliteConnection") -> Callable[[], None] | None:
        """Run the call, and return the function that gives the result to its caller; None if it was abandoned."""
        if self.future.cancelled() or not self._claim.acquire(blocking=False):
            return None
        try:
            return partial(_settle, self.future, self.call(connection), None)
        except BaseException as error:
            return partial(_settle, self.future, None, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class ConnectionThread:
    """A thread with a connection, and a queue of jobs for it."""

    def __init__(self, name: str, connection: "SqliteConnection") -> None:
        self._jobs: SimpleQueue[ThreadCall[Any] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, args=(connection,), name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[["SqliteConnection"], T]) -> ThreadCall[T]:
        """Have `call` run in the thread."""
        if self._is_stopped:
            raise Unavailable("store: closed; open it again")
        job = ThreadCall(call, self._loop.create_future())
        self._jobs.put(job)
        return job

    async def stop(self) -> None:
        """Let the thread finish what it was given, close its connection and end; a stuck one is left behind."""
        self._is_stopped = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, STOP)

    def _run(self, connection: "SqliteConnection") -> None:
        while (job := self._jobs.get()) is not None:
            settle = job.run(connection)
            if settle is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(settle)
            del job, settle
        connection.close()


class SqliteConnection:
    """One connection, used by one thread, opened at its first use."""

    def __init__(self, url: StoreUrl, path: Path, timeout: timedelta, synchronous: str) -> None:
        self._url = url
        self._path = path
        self._timeout = timeout
        self._synchronous = synchronous
        self._opened: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        SQLITE.queries  # noqa: B018  # read from its file now: later there may be no descriptor left for that

    def run(self, begin: str, steps: Steps[T]) -> T:
        """The result of the steps, committed; or what they raised, rolled back.

        Whatever else goes wrong, the connection is dropped: none is ever left inside a transaction.
        """
        try:
            connection = self._connection
            self._check_same_file()
            connection.execute(begin)
        except sqlite3.Error as error:
            self._drop()
            raise self._translate(error, Unavailable) from error
        try:
            return self._transact(connection, steps)
        except RotaError:
            raise
        except BaseException:
            self._drop()
            raise

    def _transact(self, connection: sqlite3.Connection, steps: Steps[T]) -> T:
        """The rest of `run`, once the transaction has begun."""
        unsure: type[Unavailable] | type[Unknown] = Unavailable
        try:
            result = self._drive(connection, steps)
            unsure = Unknown
            connection.execute("COMMIT")
        except (NothingChanged, RotaError) as refusal:
            self._roll_back(connection)
            if isinstance(refusal, NothingChanged):
                return refusal.result  # type: ignore[no-any-return]
            raise
        except sqlite3.Error as error:
            self._drop()
            raise self._translate(error, unsure) from error
        return result

    def migrate(self, *, create: bool) -> None:
        """Bring the schema up to date; nothing changes if it is newer than this code, or not to be made."""
        if not create and not self._path.exists():
            raise rules.nothing_there(self._url)
        try:
            schema = self._schema()
            missing = migrations.missing(str(self._url), SQLITE.name, schema)
            if schema == 0 and not create:
                raise rules.nothing_there(self._url)
            self._connection.execute("PRAGMA journal_mode = WAL")
            if missing:
                self._migrate()
        except sqlite3.Error as error:
            self._drop()
            raise self._translate(error, Denied) from error

    def _migrate(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for version, statements in migrations.missing(str(self._url), SQLITE.name, self._schema()).items():
            for statement in statements:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {version}")
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close, if it was ever opened."""
        self._drop()

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            seconds = self._timeout.total_seconds()
            with contextlib.suppress(OSError):  # SQLite has the better message
                make_private(self._path)
            self._opened = sqlite3.connect(self._path, timeout=seconds, isolation_level=None, cached_statements=64)
            self._opened.execute(f"PRAGMA synchronous = {self._synchronous}")
            if self._file is None:
                self._file = _identity(self._path)
        return self._opened

    def _check_same_file(self) -> None:
        """Raise if the path leads to another file than the one we opened: other processes would use the new file."""
        if _identity(self._path) != self._file:
            raise Invalid(f"store {self._url}: {self._path} was removed or replaced; restart this node")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _schema(self) -> int:
        ((version,),) = self._connection.execute("PRAGMA user_version").fetchall()
        return int(version)

    def _drive(self, connection: sqlite3.Connection, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                step = steps.send(self._step(connection, step))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _step(self, connection: sqlite3.Connection, step: Step) -> list[Row]:
        if isinstance(step, SqlQuery):
            cursor = connection.execute(SQLITE.queries[step.name], step.parameters)
            return cursor.fetchall() if cursor.description else [(cursor.rowcount,)] * (cursor.rowcount > 0)
        if isinstance(step, SqlBatch):
            connection.executemany(SQLITE.queries[step.name], step.rows)
        else:
            for part in step.parts:
                self._step(connection, part)
        return []

    def _drop(self) -> None:
        """Close the connection, whatever state it is in; the next call opens a fresh one."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _translate(
        self, error: sqlite3.Error, otherwise: type[Unavailable] | type[Unknown] | type[Denied]
    ) -> Unavailable | Unknown | Denied | Invalid:
        """The error for the caller. `otherwise` is Denied only while a store is opened: later an unusable file is
        temporary."""
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_BUSY"):
            wait = durations.render(self._timeout)
            return Unavailable(f"store {self._url}: another process has held the file for {wait}; try again")
        if name.startswith("SQLITE_READONLY"):
            return otherwise(f"store {self._url}: {self._path} is read-only; make it and its folder writable")
        if name == "SQLITE_NOTADB":
            return Invalid(f"store {self._url}: {self._path} is not a SQLite database; choose another file")
        if name.startswith("SQLITE_CANTOPEN"):
            return otherwise(f"store {self._url}: cannot open {self._path}; may this user write there?")
        if name == "SQLITE_FULL":
            return otherwise(f"store {self._url}: the disk is full; free some space")
        return otherwise(f"store {self._url}: {error}")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
