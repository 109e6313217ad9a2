"""A connection to SQLite is used by one thread at a time, whoever gives up waiting for it."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from rota.outputs.sql.sqlite import SqliteDatabase
from rota.outputs.url import parse
from tests.kit.waiting import eventually

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT begun() UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


async def test_who_is_cancelled_leaves_no_thread_behind_on_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    database, begun = SqliteDatabase(parse(f"sqlite:///{path}?table=x"), path), threading.Event()
    database._connection.create_function("begun", 0, lambda: begun.set() or 1)

    async def count_for_ever() -> None:
        async with database.work() as work:
            await work.fetch(ENDLESS)

    counting = asyncio.create_task(count_for_ever())
    await eventually(begun.is_set)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert not database._connection.in_transaction
    await database.close()


class Held:
    """A connection whose next statement is done, and not yet reported."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.done, self.may_return = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        cursor = self._connection.execute(*arguments)
        self.done.set()
        self.may_return.wait()
        return cursor


async def test_who_is_cancelled_while_a_transaction_begins_leaves_none_open(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    database = SqliteDatabase(parse(f"sqlite:///{path}?table=x"), path)
    held = database._connection = Held(database._connection)  # type: ignore[assignment]

    async def begin() -> None:
        async with database.work():
            raise AssertionError("it was cancelled before")

    beginning = asyncio.create_task(begin())
    await eventually(held.done.is_set)
    beginning.cancel()
    await asyncio.sleep(0)
    held.may_return.set()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert not database._connection.in_transaction
    await database.close()
