"""SQLite without Rota: the same tables and the same SQL, called straight through `sqlite3` as one would by hand."""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from rota.store.sql import migrations
from rota.store.sql.dialect import SQLITE
from rota.store.sql.transactions import PAGE, prefix_range

POLL = 0.001
"""Seconds between two looks of the bare watcher."""

_SQL = SQLITE.queries


class BareSqlite:
    """A connection that writes as the store does."""

    def __init__(self, path: Path) -> None:
        # Calls come one after another, but `asyncio.to_thread` makes them from whichever thread is free.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._execute, self._executemany = self._connection.execute, self._connection.executemany
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = FULL")
        for statements in migrations.all_migrations(SQLITE.name).values():
            for statement in statements:
                self._execute(statement)

    def put_if(self, key: str, value: bytes, modified: int) -> int:
        """Put one key if it was last written at `modified`; the new revision."""
        self._execute("BEGIN IMMEDIATE")
        ((revision,),) = self._execute(_SQL["bump"], (1,)).fetchall()
        ((_, created, found),) = self._execute(_SQL["state_of"], (SQLITE.keys_parameter([key]),)).fetchall()
        if found != modified:
            self._execute("ROLLBACK")
            raise LookupError(key)
        self._execute(_SQL["append"], (revision, key, value, created, None))
        self._execute(_SQL["place"], (key, value, created, revision, None))
        self._execute("COMMIT")
        return int(revision)

    def put_all(self, keys: Sequence[str], value: bytes) -> int:
        """Put all of the keys; the new revision."""
        self._execute("BEGIN IMMEDIATE")
        ((revision,),) = self._execute(_SQL["bump"], (1,)).fetchall()
        rows = self._execute(_SQL["state_of"], (SQLITE.keys_parameter(keys),)).fetchall()
        made = {key: created for key, created, _ in rows}
        logged = [(revision, key, value, made.get(key, revision), None) for key in keys]
        placed = [(key, value, made.get(key, revision), revision, None) for key in keys]
        self._executemany(_SQL["append"], logged)
        self._executemany(_SQL["place"], placed)
        self._execute("COMMIT")
        return int(revision)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Poller:
    """The watch of somebody who has only SQLite: a thread that asks for newer rows every millisecond."""

    def __init__(self, path: Path, prefix: str, after: int) -> None:
        self.seen: dict[int, float] = {}
        """When each revision was seen."""
        self._path, self._prefix, self._after = path, prefix, after
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self.run, name="bare sqlite watch")

    def start(self) -> None:
        """Watch in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._is_over.set()
        self._thread.join()

    def run(self) -> None:
        """Watch until stopped."""
        low, high = prefix_range(self._prefix)
        connection = sqlite3.connect(self._path, isolation_level=None)
        while not self._is_over.is_set():
            rows = connection.execute(_SQL["tail"], (self._after, low, high, PAGE)).fetchall()
            for _, _, revision, *_ in rows:
                if revision is not None:  # the counter stands there alone when there is nothing new
                    self.saw(revision)
            sleep(POLL)
        connection.close()

    def saw(self, revision: int) -> None:
        """Note the time."""
        self.seen[revision] = monotonic()
        self._after = revision
