"""The sources the laws are tried on: how to fill each, and how to do to it what happens to sources.

To add a source: a class here and a line in HARNESSES.
"""

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from rota.kit.time.epoch import milliseconds
from rota.sources import Batch, NewRecord, Reader, Record, log_place, memory, open_log
from tests.kit.kafka import MockKafka
from tests.kit.servers import Kafka, Server
from tests.kit.waiting import PATIENCE

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 2


def at(second: int) -> datetime:
    """A time of day for a record."""
    return NEW_YEAR + timedelta(seconds=second)


def new(number: int, **fields: Any) -> NewRecord:
    """A record whose value is a number, and so is its time."""
    given = {"value": b"%d" % number, "time_ms": milliseconds(at(number))} | fields
    return NewRecord(**given)


def news(count: int, first: int = 0) -> list[NewRecord]:
    """Records with numbers in a row."""
    return [new(number) for number in range(first, first + count)]


def numbers(records: Iterable[Record]) -> list[int]:
    """The numbers that records have as values."""
    return [int(record.value or b"-1") for record in records]


def offsets(batches: Iterable[Batch]) -> list[int]:
    """The offsets of all records."""
    return [record.offset for batch in batches for record in batch.records]


class Taken:
    """What a reader gave, by partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def of(self, partition: int) -> list[Record]:
        """The records of a partition."""
        return [record for batch in self.batches if batch.partition == partition for record in batch.records]

    @property
    def count(self) -> int:
        """How many records came."""
        return sum(len(batch.records) for batch in self.batches)


async def take(reader: Reader, count: int, most: int = 1000) -> Taken:
    """Read until so many records came."""
    taken = Taken()
    while taken.count < count:
        taken.batches += await reader.read(most)
    return taken


async def read_to(reader: Reader, ends: Mapping[int, int]) -> Taken:
    """Read until each partition has come so far."""
    taken = Taken()
    while any(reader.positions[partition] < end for partition, end in ends.items()):
        taken.batches += await reader.read()
    return taken


class SourceHarness:
    """A place for one test's records, with two empty partitions."""

    name: ClassVar[str]
    server: ClassVar[type[Server] | None] = None
    backend: ClassVar[str] = ""
    can_change: ClassVar[bool] = True
    """Can records be deleted, partitions be added, and all be made anew?"""
    can_leave_gaps: ClassVar[bool] = False
    can_fail: ClassVar[bool] = False
    """Can it be taken away and brought back?"""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory, self.running = directory, server
        self.space = uuid4().hex
        self.make()

    def url(self, **options: object) -> str:
        """The source's URL."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{self.address()}?{query}" if query else self.address()

    def address(self) -> str:
        """The URL without options."""
        raise NotImplementedError

    def nowhere(self) -> str:
        """The URL of a source that nobody has made."""
        return self.address().replace(self.space, "nowhere")

    def make(self) -> None:
        """Make it, empty."""
        raise NotImplementedError

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        """Append records; they are there afterwards."""
        raise NotImplementedError

    def delete(self, partition: int, before: int) -> None:
        """Delete what is older."""
        raise NotImplementedError

    def grow(self, partitions: int) -> None:
        """Add partitions until there are so many."""
        raise NotImplementedError

    def make_anew(self) -> None:
        """Remove it, and make another one under the same name."""
        raise NotImplementedError

    def leave_gap(self, partition: int) -> None:
        """Let offsets pass that have no record, at the end."""
        raise NotImplementedError

    def fail(self) -> None:
        """Take it away."""
        raise NotImplementedError

    def recover(self) -> None:
        """Bring it back."""
        raise NotImplementedError

    def close(self) -> None:
        """Clear up."""


class MemoryHarness(SourceHarness):
    """A topic of this process."""

    name = "memory"
    can_leave_gaps = can_fail = True

    def address(self) -> str:
        return f"memory://{self.space}"

    @property
    def topic(self) -> memory.Topic:
        """What stands behind the URL."""
        return memory.topic(self.space)

    def make(self) -> None:
        self.topic.make_anew(PARTITIONS)

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        self.topic.append(partition, records)

    def delete(self, partition: int, before: int) -> None:
        self.topic.delete(partition, before)

    def grow(self, partitions: int) -> None:
        self.topic.grow(partitions)

    def make_anew(self) -> None:
        self.make()

    def leave_gap(self, partition: int) -> None:
        self.topic.leave_gap(partition, 3)

    def fail(self) -> None:
        self.topic.stop()

    def recover(self) -> None:
        self.topic.start()


class LogHarness(SourceHarness):
    """An embedded log in the test's folder, with small segments."""

    name = "log"
    SEGMENT_BYTES = 2000

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.directory / self.space

    def address(self) -> str:
        return f"log://{self.folder}"

    def make(self) -> None:
        log_place(self.address()).create(PARTITIONS, segment_bytes=self.SEGMENT_BYTES)

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        with open_log(f"{self.address()}?fsync=never") as log:
            for start in range(0, len(records), 100):
                log.append(records[start : start + 100], partition)

    def delete(self, partition: int, before: int) -> None:
        with open_log(self.address()) as log:
            log.truncate(partition, before)

    def grow(self, partitions: int) -> None:
        log_place(self.address()).grow(partitions)

    def make_anew(self) -> None:
        shutil.rmtree(self.folder)
        self.make()


class MockKafkaHarness(SourceHarness):
    """A topic on librdkafka's mock cluster, which neither deletes nor takes anything back."""

    name = "kafka-mock"
    can_change = False
    can_fail = True

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.kafka = MockKafka()
        super().__init__(directory, server)

    @property
    def hosts(self) -> str:
        """Its brokers."""
        return self.kafka.hosts

    def address(self) -> str:
        return f"kafka://{self.hosts}/{self.space}"

    def make(self) -> None:
        self.kafka.make_topic(self.space, PARTITIONS)

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        produce(Producer({"bootstrap.servers": self.hosts, "log_level": 0}), self.space, partition, records)

    def fail(self) -> None:
        self.kafka.stop()

    def recover(self) -> None:
        self.kafka.start()

    def close(self) -> None:
        self.kafka.__exit__()


class KafkaHarness(SourceHarness):
    """A topic on a real Kafka."""

    name = "kafka"
    server = Kafka
    backend = "kafka"
    can_leave_gaps = True

    def __init__(self, directory: Path, server: Server | None) -> None:
        assert isinstance(server, Kafka)
        self.kafka = server
        self.admin = AdminClient({"bootstrap.servers": server.hosts, "log_level": 0})
        super().__init__(directory, server)

    def address(self) -> str:
        return f"kafka://{self.kafka.hosts}/{self.space}"

    def make(self, **settings: str) -> None:
        make_topic(self.admin, NewTopic(self.space, PARTITIONS, 1, config=settings))

    def plain(self) -> Producer:
        """A producer without transactions."""
        return Producer({"bootstrap.servers": self.kafka.hosts, "log_level": 0})

    def append(self, partition: int, records: Sequence[NewRecord]) -> None:
        produce(self.plain(), self.space, partition, records)

    def delete(self, partition: int, before: int) -> None:
        done(self.admin.delete_records([TopicPartition(self.space, partition, before)]))

    def grow(self, partitions: int) -> None:
        done(self.admin.create_partitions([NewPartitions(self.space, partitions)]))

    def make_anew(self) -> None:
        self.close()
        self.make()

    def transaction(self) -> Producer:
        """A producer in the middle of a transaction."""
        producer = Producer({"bootstrap.servers": self.kafka.hosts, "transactional.id": uuid4().hex, "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def leave_gap(self, partition: int) -> None:
        producer = self.transaction()
        produce(producer, self.space, partition, news(2, first=1000))
        producer.abort_transaction(30)

    def close(self) -> None:
        done(self.admin.delete_topics([self.space]))


def produce(producer: Producer, topic: str, partition: int, records: Sequence[NewRecord]) -> None:
    """Have Kafka keep the records."""
    failed: list[object] = []
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
            timestamp=record.time_ms or 0,
            headers=[*record.headers],
        )
    assert producer.flush(30) == 0
    assert not failed


def make_topic(admin: AdminClient, topic: NewTopic) -> None:
    """Have a topic; a broker that was told so by the controller may itself hear of it a little later."""
    done(admin.create_topics([topic]))
    end = time.monotonic() + PATIENCE
    while True:
        found = admin.list_topics(timeout=PATIENCE).topics.get(topic.topic)
        if found is not None and found.error is None and len(found.partitions) >= topic.num_partitions:
            return
        assert time.monotonic() < end, f"{topic.topic} was made, and is not there"
        time.sleep(0.02)


def done(asked: Mapping[Any, Any]) -> None:
    """Wait for what an administrator asked for."""
    for answer in asked.values():
        answer.result(30)


HARNESSES: tuple[type[SourceHarness], ...] = (MemoryHarness, LogHarness, MockKafkaHarness, KafkaHarness)


def params(harnesses: Iterable[type[SourceHarness]]) -> list[object]:
    """The harnesses as parameters of a fixture, each with its name and the backend it needs."""
    return [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(kind.backend)] if kind.backend else [])
        for kind in harnesses
    ]
