"""Where the records of a trial stream come from, and where its rows go: real brokers, folders and databases."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from zlib import crc32

import pyarrow.dataset
from confluent_kafka import Producer

from rota.sources import NewRecord
from tests.kit.harness import PostgresHarness
from tests.kit.servers import Server, wait_until
from tests.kit.sources import KafkaHarness, LogHarness, produce

Row = tuple[int, int, int]
"""Partition, offset and number of a record that is in the output."""


def sums(rows: Iterable[Row]) -> dict[int, tuple[int, int]]:
    """Partition → how many rows, and their checksum."""
    found: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for part, at, number in rows:
        count, total = found[part]
        found[part] = count + 1, total + crc32(b"%d %d" % (at, number))
    return dict(found)


class TrialLog(LogHarness):
    """A log with segments of a usual size, which is looked at often."""

    SEGMENT_BYTES = 2**20

    def url(self, **options: object) -> str:
        return super().url(poll="50ms", **options)


class TrialTopic(KafkaHarness):
    """A topic on a real Kafka, with one producer for all its records."""

    @cached_property
    def producer(self) -> Producer:
        """Which keeps every record once, and in order."""
        told = {"enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4", "log_level": 0}
        return Producer({"bootstrap.servers": self.kafka.hosts, **told})

    def grow(self, partitions: int) -> None:
        super().grow(partitions)
        wait_until(lambda: self._known() == partitions, f"{partitions} partitions")
        self.__dict__.pop("producer", None)  # it would not know them for a while

    def _known(self) -> int:
        return len(self.admin.list_topics(self.space, timeout=10).topics[self.space].partitions)

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        produce(self.producer, self.space, partition, records)


class Output:
    """A place for the rows of one trial."""

    backend: ClassVar[str] = ""
    """The server it needs, if any."""

    def __init__(self, folder: Path, server: Server | None = None) -> None:
        self.folder, self.server = folder, server

    async def prepare(self) -> None:
        """Make what a user has to make."""

    def url(self) -> str:
        """Where it is."""
        raise NotImplementedError

    async def rows(self) -> list[Row]:
        """What somebody finds there who knows nothing of Rota, in order."""
        raise NotImplementedError


class ParquetFolder(Output):
    """Files, read by pyarrow."""

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder / "out"

    def url(self) -> str:
        return f"parquet://{self.path}"

    async def rows(self) -> list[Row]:
        table = pyarrow.dataset.dataset(self.path, partitioning="hive").to_table(["part", "at", "number"])
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


class SqliteTable(Output):
    """A table of a file."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / "out.db"

    async def prepare(self) -> None:
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("CREATE TABLE clicks (part INTEGER, at INTEGER, number INTEGER)")

    def url(self) -> str:
        return f"sqlite:///{self.path}?table=clicks"

    async def rows(self) -> list[Row]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute("SELECT part, at, number FROM clicks ORDER BY 1, 2, 3").fetchall()


class PostgresTable(Output):
    """A table on a real PostgreSQL."""

    backend = "postgresql"

    def __init__(self, folder: Path, server: Server | None = None) -> None:
        super().__init__(folder, server)
        self._place = PostgresHarness(folder, server)

    async def prepare(self) -> None:
        await self._place.rows(f'CREATE SCHEMA "{self._place.space}"')
        await self._place.rows("CREATE TABLE clicks (part INT, at BIGINT, number BIGINT)")

    def url(self) -> str:
        return self._place.url(table="clicks")

    async def rows(self) -> list[Row]:
        found = await self._place.rows("SELECT part, at, number FROM clicks ORDER BY 1, 2, 3")
        return [(row[0], row[1], row[2]) for row in found]
