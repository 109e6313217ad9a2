"""The outputs of streams that the laws are tried on: how to open each, and what a reader finds there.

To add one: a class here and a line in HARNESSES.
"""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import duckdb
import pytest

from rota.kit.time.clock import SYSTEM
from rota.outputs.memory import MemoryCommitter
from rota.store import Store
from rota.streams.core.records import MoveRecord
from tests.kit.harness import MysqlHarness, PostgresHarness, StoreHarness
from tests.kit.rows import STREAM
from tests.kit.servers import Server

NOON = datetime(2026, 1, 16, 12, tzinfo=UTC)


PICKY = "CREATE TABLE picky (part INT NOT NULL, number INT UNIQUE CHECK (number < 1000), word VARCHAR(9), day DATE"
"""A table with constraints, as far as all databases say it alike."""


SELECT_LETTERS = "SELECT part, record_offset, record FROM rota_stream_letters"


def move(id: str, before: dict[int, int], after: dict[int, int]) -> MoveRecord:
    """Offsets that somebody sets by hand."""
    return MoveRecord(id=id, stream=STREAM, before=before, after=after, by="me", why="so", at=NOON)


def numbers(found: Iterable[tuple[int, int]], partition: int) -> list[int]:
    """The records of a partition that a reader found, in order."""
    return sorted(number for part, number in found if part == partition)


class CommitterHarness:
    """A place for one test's output, empty and its own."""

    name: ClassVar[str]
    behind: ClassVar[type[StoreHarness] | None] = None
    """The database it lives in, if any."""

    has_unfit_rows: ClassVar[bool] = True
    """Does it refuse rows?"""

    is_table: ClassVar[bool] = False
    """Does it also have a table `picky`, whose columns have constraints?"""

    is_shared: ClassVar[bool] = True
    """Whether several processes can open it."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        self.folder = folder
        self.place = self.behind(folder, server) if self.behind else None

    @property
    def is_server(self) -> bool:
        """Is it on a server of its own?"""
        return self.behind is not None

    async def prepare(self) -> None:
        """Make what the user has to make."""

    def url(self, table: str = "clicks") -> str:
        """Where it is; `table` where there are tables."""
        raise NotImplementedError

    async def read(self, store: Store) -> list[tuple[int, int]]:
        """What somebody finds who knows nothing of Rota: partition and number of each row."""
        raise NotImplementedError

    async def letters(self) -> list[tuple[int, int]]:
        """Partition and offset of each dead letter that is published; the line is looked at too."""
        found = await self._letters()
        assert all(json.loads(line)["offset"] == offset for _, offset, line in found)
        return sorted((partition, offset) for partition, offset, _ in found)

    async def _letters(self) -> list[tuple[int, int, str]]:
        raise NotImplementedError


class MemoryOutput(CommitterHarness):
    """Lists of this process."""

    name = "memory"
    has_unfit_rows = False
    is_shared = False

    def __init__(self, folder: Path, server: Server | None) -> None:
        super().__init__(folder, server)
        self._name = uuid4().hex

    def url(self, table: str = "clicks") -> str:
        return f"memory://{self._name}"

    async def read(self, store: Store) -> list[tuple[int, int]]:
        found = await MemoryCommitter(self._name, STREAM, store, SYSTEM).read()
        return [(row["part"], row["number"]) for row in found]


class ParquetOutput(CommitterHarness):
    """A folder, read by DuckDB."""

    name = "parquet"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder / "output"

    def url(self, table: str = "clicks") -> str:
        return f"parquet://{self.path}"

    async def read(self, store: Store) -> list[tuple[int, int]]:
        if not list(self.path.rglob("*.parquet")):
            return []
        query = f"SELECT part, number FROM read_parquet('{self.path}/**/*.parquet', union_by_name=true)"
        return duckdb.sql(query).fetchall()

    async def _letters(self) -> list[tuple[int, int, str]]:
        lines = [line for file in self.path.glob("_letters/*.jsonl") for line in file.read_text().splitlines()]
        return [(json.loads(line)["partition"], json.loads(line)["offset"], line) for line in lines]


class SqliteOutput(CommitterHarness):
    """A file."""

    name = "sqlite"
    is_table = True

    async def prepare(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("CREATE TABLE clicks (part INTEGER, number INTEGER UNIQUE, word TEXT, extra TEXT)")
            # Or it would keep words of any length, and anything for a day.
            checks = (
                "CHECK (length(word) <= 9), CHECK (day IS NULL OR date(day) IS NOT NULL), CHECK (length(note) < 100)"
            )
            connection.execute(f"{PICKY}, note TEXT, {checks})")

    def url(self, table: str = "clicks") -> str:
        return f"sqlite:///{self._path}?table={table}"

    async def read(self, store: Store) -> list[tuple[int, int]]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute("SELECT part, number FROM clicks").fetchall()

    async def _letters(self) -> list[tuple[int, int, str]]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(SELECT_LETTERS).fetchall()

    @property
    def _path(self) -> Path:
        return self.folder / "output.db"


class PostgresOutput(CommitterHarness):
    """A schema on a real PostgreSQL."""

    name = "postgresql"
    is_table = True
    behind = PostgresHarness

    async def prepare(self) -> None:
        assert isinstance(self.place, PostgresHarness)
        await self.place.rows(f'CREATE SCHEMA "{self.place.space}"')
        await self.place.rows(
            "CREATE TABLE clicks (part INT, number INT UNIQUE, word TEXT, extra JSONB, at TIMESTAMPTZ)"
        )
        await self.place.rows(f"{PICKY}, note TEXT UNIQUE)")

    def url(self, table: str = "clicks") -> str:
        assert self.place is not None
        return self.place.url(table=table)

    async def read(self, store: Store) -> list[tuple[int, int]]:
        assert isinstance(self.place, PostgresHarness)
        return [(row[0], row[1]) for row in await self.place.rows("SELECT part, number FROM clicks")]

    async def _letters(self) -> list[tuple[int, int, str]]:
        assert isinstance(self.place, PostgresHarness)
        return [(row[0], row[1], row[2]) for row in await self.place.rows(SELECT_LETTERS)]


class MysqlOutput(CommitterHarness):
    """A database on a real MariaDB."""

    name = "mysql"
    is_table = True
    behind = MysqlHarness

    async def prepare(self) -> None:
        assert isinstance(self.place, MysqlHarness)
        self.place.url()
        await self.place.rows("CREATE TABLE clicks (part INT, number INT UNIQUE, word TEXT, extra TEXT) ENGINE=InnoDB")
        await self.place.rows(f"{PICKY}, note VARCHAR(100) UNIQUE) ENGINE=InnoDB")

    def url(self, table: str = "clicks") -> str:
        assert self.place is not None
        return self.place.url(table=table)

    async def read(self, store: Store) -> list[tuple[int, int]]:
        assert isinstance(self.place, MysqlHarness)
        return [(row[0], row[1]) for row in await self.place.rows("SELECT part, number FROM clicks")]

    async def _letters(self) -> list[tuple[int, int, str]]:
        assert isinstance(self.place, MysqlHarness)
        return [(row[0], row[1], row[2]) for row in await self.place.rows(SELECT_LETTERS)]


HARNESSES: tuple[type[CommitterHarness], ...] = (
    *(MemoryOutput, ParquetOutput, SqliteOutput),
    *(PostgresOutput, MysqlOutput),
)


def params(harnesses: Iterable[type[CommitterHarness]]) -> list[object]:
    """The harnesses as parameters of a fixture, each with its name and the backend it needs."""
    return [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(kind.behind.backend)] if kind.behind else [])
        for kind in harnesses
    ]
