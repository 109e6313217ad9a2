"""Records per second into and out of the embedded log, beside bare files, and out of Kafka, beside its bare client.

Records of 200 bytes, a thousand to an append. The bare file gets the same bytes in as many writes, and with a sync
after each where the log syncs; it is read in blocks and split at its line ends, which is the least that gives records
back. Kafka has a topic of four partitions, compressed by lz4. The bare client is confluent-kafka's consumer with the
settings of our source, looking at each record's offset and value; it is there with its own defaults too. The clock runs
from the first records on.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import measure
from benchmarks.measure import Goal, Row, Samples, Side, Turn
from rota.sources import NewRecord, log_place, open_log, open_source
from rota.sources import kafka as kafka_source
from rota.sources import url as urls
from tests.kit import obtain
from tests.kit.servers import Kafka

SIZE = 200
TOGETHER = 1000
APPENDED = 200_000
SYNCED = 50_000
FETCHED = 400_000
PARTITIONS = 4
TURNS = 2
TOPIC = "bench"

FILE, OURS = "bare file", "ours"
TUNED, DEFAULT = "confluent-kafka, our settings", "confluent-kafka, its defaults"
GOALS = {TUNED: Goal(at=0.8, short=0.5)}

VALUES = [b"%016d" % number + bytes(SIZE - 17) + b"\n" for number in range(TOGETHER)]
RECORDS = [NewRecord(value=value) for value in VALUES]

Pass = Callable[[], Awaitable[float]]
"""Does the work once; the seconds that one record took."""


def rows(rounds: int) -> list[Row]:
    """The log's rates, and Kafka's where there is one."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        found = asyncio.run(_log_rows(Path(folder), rounds))
        if obtain.missing("kafka") is None:
            with Kafka(Path(folder)) as server:
                _fill(server.hosts)
                found += asyncio.run(_kafka_rows(server.hosts, rounds))
    return found


async def _log_rows(base: Path, rounds: int) -> list[Row]:
    append = partial(_appending, base, APPENDED)
    synced = partial(_appending, base, SYNCED)
    return [
        *await _compared("log: appended, no sync", {FILE: append(bare_file, ""), OURS: append(ours, "never")}, rounds),
        *await _compared(
            "log: appended, synced", {FILE: synced(bare_file, "sync"), OURS: synced(ours, "always")}, rounds
        ),
        *await _compared("log: read", {FILE: partial(_reading_file, base), OURS: partial(_reading_log, base)}, rounds),
    ]


async def _kafka_rows(hosts: str, rounds: int) -> list[Row]:
    sides: Mapping[str, Side] = {
        TUNED: partial(_side, partial(fetch_bare, hosts, _our_settings(hosts))),
        DEFAULT: partial(_side, partial(fetch_bare, hosts, {"bootstrap.servers": hosts})),
        OURS: partial(_side, partial(fetch_ours, hosts)),
    }
    return await _compared("kafka: read", sides, rounds)


async def _compared(name: str, sides: Mapping[str, Side], rounds: int) -> list[Row]:
    played = await measure.play(sides, rounds, TURNS)
    rates = {side: [measure.rate(samples[side]) for samples in played] for side in sides}
    others = [side for side in sides if side != OURS]
    return [measure.compare(name, "records/s", to, rates[to], rates[OURS], GOALS.get(to)) for to in others]


@asynccontextmanager
async def _side(work: Pass) -> AsyncIterator[Turn]:
    async def turn() -> Samples:
        return [await work()]

    yield turn


# The log


def _appending(base: Path, count: int, how: Callable[[Path, int, str], float], policy: str) -> Side:
    async def work() -> float:
        with tempfile.TemporaryDirectory(dir=base) as folder:
            return await asyncio.to_thread(how, Path(folder), count, policy)

    return partial(_side, work)


def bare_file(folder: Path, count: int, policy: str) -> float:
    """Write the bytes of so many records."""
    file = os.open(folder / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        before = perf_counter()
        for _ in range(count // TOGETHER):
            os.write(file, b"".join(VALUES))
            if policy == "sync":
                os.fdatasync(file)
        return (perf_counter() - before) / count
    finally:
        os.close(file)


def ours(folder: Path, count: int, policy: str) -> float:
    """Append so many records."""
    url = f"log://{folder / 'log'}"
    log_place(url).create(1)
    with open_log(f"{url}?fsync={policy}") as log:
        before = perf_counter()
        for _ in range(count // TOGETHER):
            log.append(RECORDS)
        return (perf_counter() - before) / count


@asynccontextmanager
async def _reading_file(base: Path) -> AsyncIterator[Turn]:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        bare_file(Path(folder), APPENDED, "")

        def read() -> Samples:
            before, seen = perf_counter(), 0
            with (Path(folder) / "file").open("rb") as file:
                while lines := file.readlines(2**20):
                    seen += len(lines)
            assert seen == APPENDED
            return [(perf_counter() - before) / seen]

        yield lambda: asyncio.to_thread(read)


@asynccontextmanager
async def _reading_log(base: Path) -> AsyncIterator[Turn]:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        ours(Path(folder), APPENDED, "never")
        async with open_source(f"log://{folder}/log") as source:

            async def turn() -> Samples:
                reader, seen = await source.reader({0: 0}), 0
                before = perf_counter()
                while seen < APPENDED:
                    seen += sum(len(batch.records) for batch in await reader.read(10_000))
                took = perf_counter() - before
                await reader.close()
                return [took / seen]

            yield turn


# Kafka


def _fill(hosts: str) -> None:
    admin = AdminClient({"bootstrap.servers": hosts, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    settings = {"linger.ms": 20, "queue.buffering.max.messages": 2 * FETCHED, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": hosts, "log_level": 0, **settings})
    for number in range(FETCHED):
        producer.produce(TOPIC, VALUES[number % TOGETHER], partition=number % PARTITIONS)
    producer.flush(60)


def _our_settings(hosts: str) -> dict[str, Any]:
    return kafka_source.read(urls.parse(f"kafka://{hosts}/{TOPIC}")).consumer()


async def fetch_bare(hosts: str, settings: Mapping[str, Any]) -> float:
    """Read the topic with the client alone."""
    return await asyncio.to_thread(_fetch_bare, hosts, settings)


def _fetch_bare(hosts: str, settings: Mapping[str, Any]) -> float:
    consumer = Consumer({"group.id": "bench", "enable.auto.commit": False, "log_level": 0, **settings})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    first = seen = last = size = 0
    before = perf_counter()
    while seen < FETCHED:
        for one in consumer.consume(500, timeout=1):
            if one.error() is None:
                seen += 1
                size += len(one.value() or b"")
                last = max(last, one.offset() or 0)
        if not first and seen:
            first, before = seen, perf_counter()
    took = perf_counter() - before
    consumer.close()
    assert (last, size) == (FETCHED // PARTITIONS - 1, FETCHED * SIZE)
    return took / (FETCHED - first)


async def fetch_ours(hosts: str) -> float:
    """Read the topic through our source."""
    async with open_source(f"kafka://{hosts}/{TOPIC}") as source:
        reader = await source.reader(dict.fromkeys(range(PARTITIONS), 0))
        first = seen = last = size = 0
        before = perf_counter()
        while seen < FETCHED:
            for batch in await reader.read(2000):
                seen += len(batch.records)
                size += sum(len(record.value or b"") for record in batch.records)
                last = max(last, batch.next - 1)
            if not first and seen:
                first, before = seen, perf_counter()
        took = perf_counter() - before
        await reader.close()
    assert (last, size) == (FETCHED // PARTITIONS - 1, FETCHED * SIZE)
    return took / (FETCHED - first)
