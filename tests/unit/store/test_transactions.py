"""Steps of the store run by hand on a real database, with others at work between two of them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rota.model.errors import Compacted
from rota.model.ids import Revision
from rota.store import open_store
from rota.store.port import Put
from rota.store.sql import transactions
from rota.store.sql.dialect import SQLITE
from rota.store.sql.steps import SqlQuery


@pytest.fixture
async def database(tmp_path: Path) -> sqlite3.Connection:
    """A store with one commit that is larger than a page of the log."""
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        await store.commit(*(Put(f"/k/{number:03}", b"") for number in range(100)))
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        for number in range(100, 400):
            connection.execute("INSERT INTO rota_log VALUES (1, ?, x'', 1, NULL)", (f"/k/{number:03}",))
    return sqlite3.connect(tmp_path / "s.db", isolation_level=None)


@pytest.fixture
def connection(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    with closing(database):
        yield database


def run(connection: sqlite3.Connection, step: object) -> list[tuple[object, ...]]:
    assert isinstance(step, SqlQuery)
    return connection.execute(SQLITE.queries[step.name], step.parameters).fetchall()


def test_law_3_a_commit_larger_than_a_page_is_whole(connection: sqlite3.Connection) -> None:
    steps = transactions.tail("/k/", Revision(0))
    answer = run(connection, next(steps))
    with pytest.raises(StopIteration) as stop:
        steps.send(run(connection, steps.send(answer)))
    (commit,) = stop.value.value.commits
    assert len(commit.changes) == 400


def test_law_3_a_large_commit_that_is_compacted_while_it_is_read_is_not_taken_for_whole(
    connection: sqlite3.Connection,
) -> None:
    steps = transactions.tail("/k/", Revision(0))
    second = steps.send(run(connection, next(steps)))
    connection.execute("UPDATE rota_counter SET revision = 2, compacted = 2")
    connection.execute("DELETE FROM rota_log WHERE key < '/k/100'")
    with pytest.raises(Compacted):
        steps.send(run(connection, second))
