"""Streams: rows a second from Kafka into Parquet beside others that do the same, and the pause when groups change.

*Rows*: a topic of four partitions on a real Kafka, JSON of about 200 bytes, lz4. Everybody reads it from its start,
decodes it by `json.loads` and writes Parquet with zstd; the clock runs from the first record on until all is written
and committed. Ours is one stream task as a worker runs it, which publishes each record once. The bare loop is
confluent-kafka's consumer with our settings and pyarrow, with a commit at the brokers after the file is closed: at
least once. quixstreams and bytewax are told the same of the client; each is a process of its own, as it would be.

*Pause*: two groups of two tasks on two real nodes that read a log, to which something is appended every few
milliseconds, and change every three seconds. A group's pause is the longest, of its partitions, from when somebody of
the group before it had read its last record, or its own first record was appended, until somebody had read that one.
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import measure
from benchmarks.measure import Goal, Row
from benchmarks.queues import VENV, obtain_peers
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.ids import NodeId, Revision
from rota.outputs.open import open_committer
from rota.sources import NewRecord, open_log, open_source
from rota.sources import kafka as kafka_source
from rota.sources import url as urls
from rota.store import Put, open_store
from rota.streams.core.context import Batch
from rota.streams.core.records import Group, Phase
from rota.streams.task.assigned import Assigned
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import Transform
from tests.kit import obtain
from tests.kit.process import ROOT
from tests.kit.servers import Kafka
from tests.kit.streams import stream_trial
from tests.kit.waiting import Recorder

COUNT = 400_000
PARTITIONS = 4
TOPIC = "clicks"
STREAM = "bench"
ROW_GROUP = 50_000

OURS, BARE = "ours", "confluent-kafka + pyarrow"
PEERS = ("quixstreams", "bytewax")
GOALS = {BARE: Goal(at=0.8, short=0.6), **dict.fromkeys(PEERS, Goal(at=2, short=1))}
PAUSE = Goal(at=200, short=400)
"""Milliseconds."""

READ_FOR = 30.0
"""Seconds in which pauses are taken."""

Read = Callable[[str, Path], Awaitable[float]]
"""Reads the topic into a folder; rows a second."""


def rows(rounds: int) -> list[Row]:
    """Every figure of streams."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        pauses = [_paused(Path(folder)) for _ in range(rounds)]
        found = [measure.alone("stream: pause in reading when a group changes, median", "ms", pauses, PAUSE)]
        if obtain.missing("kafka") is None:
            obtain_peers()
            with Kafka(Path(folder)) as server:
                _fill(server.hosts)
                found = [*asyncio.run(_compared(server.hosts, Path(folder), rounds)), *found]
    return found


async def _compared(hosts: str, base: Path, rounds: int) -> list[Row]:
    sides: Mapping[str, Read] = {BARE: bare, **{peer: partial(theirs, peer) for peer in PEERS}, OURS: ours}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in list(sides)[:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory(dir=base) as folder:
                rates[side].append(await sides[side](hosts, Path(folder)))
                _check(Path(folder))
    return [
        measure.compare("stream: kafka to parquet", "rows/s", side, rates[side], rates[OURS], GOALS[side])
        for side in sides
        if side != OURS
    ]


def _fill(hosts: str) -> None:
    admin = AdminClient({"bootstrap.servers": hosts, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    settings = {"linger.ms": 20, "queue.buffering.max.messages": 2 * COUNT, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": hosts, "log_level": 0, **settings})
    for number in range(COUNT):
        producer.produce(TOPIC, json.dumps(_click(number)).encode(), partition=number % PARTITIONS)
    producer.flush(60)


def _click(number: int) -> dict[str, Any]:
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    page = f"/shop/items/{number * 7919 % 10_007}"
    return {"number": number, "user": number * 31 % 5_003, "page": page, "ms": number % 997, "agent": agent}


def _check(folder: Path) -> None:
    """Everybody must have written everything."""
    files = [path for path in folder.rglob("*.parquet") if "_drafts" not in path.parts]
    assert sum(pq.read_metadata(path).num_rows for path in files) == COUNT, f"rows are missing below {folder}"


class Watch:
    """When the first records came, and how many they were."""

    def __init__(self) -> None:
        self._began, self._first = 0.0, 0

    def see(self, records: int) -> None:
        """Records have come."""
        if not self._first:
            self._began, self._first = perf_counter(), records

    def rate(self) -> float:
        """Rows a second, now that all is done."""
        return (COUNT - self._first) / (perf_counter() - self._began)


async def ours(hosts: str, folder: Path) -> float:
    """One stream task: it reads to the end of the topic and publishes."""
    watch = Watch()

    def transform(batch: Batch) -> list[dict[str, Any]]:
        watch.see(len(batch))
        return [json.loads(record.value) for record in batch]

    async with (
        open_store("memory://") as store,
        open_source(f"kafka://{hosts}/{TOPIC}") as source,
        open_committer(f"parquet://{folder}", STREAM, store) as output,
    ):
        bounds = await source.bounds(range(PARTITIONS))
        starts = await output.begin({number: bound.start for number, bound in bounds.items()})
        group = _group(starts, {number: bound.end for number, bound in bounds.items()})
        await store.commit(Put(keys.stream_group(STREAM, group.id), codec.encode(group)))
        assigned = Assigned(stream=STREAM, group=group.id, slot=0, epoch=Revision(1), node=NodeId("n"))
        why = await StreamTask(assigned, Transform(transform), store, source, output, SYSTEM).run()
        assert not why, why
    return watch.rate()


def _group(starts: dict[int, int], ends: dict[int, int]) -> Group:
    now = datetime.now(UTC)
    return Group(
        stream=STREAM,
        id="g",
        number=0,
        generation=1,
        partitions=tuple(starts),
        starts=starts,
        sequences=(ends,),
        phase=Phase.PUBLISHING,
        since=now,
        created=now,
    )


async def bare(hosts: str, folder: Path) -> float:
    """The client and pyarrow alone."""
    return await asyncio.to_thread(_bare, hosts, folder)


def _bare(hosts: str, folder: Path) -> float:
    settings = kafka_source.read(urls.parse(f"kafka://{hosts}/{TOPIC}")).consumer()
    consumer = Consumer({**settings, "group.id": uuid4().hex, "enable.partition.eof": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    watch, writer, seen = Watch(), None, 0
    waiting: list[Any] = []
    while seen < COUNT:
        messages = consumer.consume(500, timeout=1)
        watch.see(len(messages))
        waiting += [json.loads(one.value() or b"") for one in messages]
        seen += len(messages)
        if len(waiting) >= ROW_GROUP or seen == COUNT:
            table = pa.Table.from_pylist(waiting)
            writer = writer or pq.ParquetWriter(folder / "bare.parquet", table.schema, compression="zstd")
            writer.write_table(table)
            waiting = []
    assert writer is not None
    writer.close()
    with (folder / "bare.parquet").open("rb") as file:
        os.fsync(file.fileno())
    consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
    rate = watch.rate()
    consumer.close()
    return rate


async def theirs(peer: str, hosts: str, folder: Path) -> float:
    """A stream processor of somebody else."""
    told = {"PEER": peer, "HOSTS": hosts, "TOPIC": TOPIC, "COUNT": str(COUNT), "FOLDER": "out"}
    argv = [str(VENV / "bin/python"), str(ROOT / "benchmarks/peers/streams.py")]
    run = partial(subprocess.run, argv, cwd=folder, env={**os.environ, **told}, capture_output=True, text=True)
    done = await asyncio.to_thread(lambda: run(timeout=300))
    assert done.returncode == 0, done.stderr[-2000:]
    took, records = done.stdout.split()[-2:]
    return int(records) / float(took)


# The pause

NOTING = """
import os, time
import rota

app = rota.App("shop")
NOTES = os.path.join(os.path.dirname(__file__), "notes")


@app.stream(source="{source}", sink="{sink}", start="earliest", {options})
def clicks(batch):
    at, spans = time.time(), {{}}
    for record in batch:
        spans.setdefault(record.partition, [record, record])[1] = record
    lines = [
        f"{{at:.6f}} {{part}} {{first.offset}} {{last.offset}} {{first.time_ms / 1000}}\\n"
        for part, (first, last) in spans.items()
    ]
    fd = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, "".join(lines).encode())
    os.close(fd)
    return [{{"part": record.partition, "at": record.offset, "number": int(record.value)}} for record in batch]
"""


def _paused(base: Path) -> float:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        return asyncio.run(_pause(Path(folder)))


async def _pause(folder: Path) -> float:
    """The median of the groups' pauses, in milliseconds."""
    options = 'tasks=2, replicas=2, duration="3s"'
    async with stream_trial(folder, nodes="ab", options=options, app=NOTING) as trial:
        async with Recorder(trial.store, keys.STREAM_GROUPS, await trial.store.revision()) as seen:
            appending = asyncio.create_task(_append(trial.source.address()))
            await asyncio.sleep(READ_FOR)
            appending.cancel()
            with suppress(asyncio.CancelledError):
                await appending
            written = [value for commit in seen.changes for value in commit.values() if value]
        read = _notes([note for node in trial.fleet.nodes.values() for note in node.notes()])
    groups = {group.id: group for value in written if (group := codec.decode(Group, value)).starts}
    pauses = [pause for group in groups.values() if (pause := _pause_before(group, read)) is not None]
    return 1000 * median(pauses)


async def _append(url: str) -> None:
    """Append a record to each partition every few milliseconds, for ever."""
    with open_log(f"{url}?fsync=never") as log:  # one for all: who opens it anew each time leaves no hints in its index
        for number in count():
            for partition in range(PARTITIONS):
                log.append([NewRecord(value=b"%d" % number)], partition)
            await asyncio.sleep(0.005)


@dataclass
class Notes:
    """What the tasks noted. Keys are partition and offset."""

    read: dict[tuple[int, int], float] = field(default_factory=dict)
    """When somebody had first read it."""

    written: dict[tuple[int, int], float] = field(default_factory=dict)
    """When it was appended, of the first of each batch."""


def _notes(lines: list[list[str]]) -> Notes:
    found = Notes()
    for at, partition, first, last, written in lines:
        found.written[int(partition), int(first)] = float(written)
        for offset in range(int(first), int(last) + 1):
            key = int(partition), offset
            found.read[key] = min(found.read.get(key, float(at)), float(at))
    return found


def _pause_before(group: Group, notes: Notes) -> float | None:
    """Seconds in which a partition of a group was not read before the group began; None if it is the first one."""
    spans = []
    for partition, start in group.starts.items():
        before, first = (partition, start - 1), (partition, start)
        if before in notes.read and first in notes.written:
            spans.append(max(0.0, notes.read[first] - max(notes.read[before], notes.written[first])))
    return max(spans, default=None)
