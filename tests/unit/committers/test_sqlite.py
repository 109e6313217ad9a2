"""A connection to SQLite is used by one thread at a time, whoever gives up waiting for it."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from rota.committers.sql.sqlite import SqliteDatabase
from rota.committers.url import parse
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
