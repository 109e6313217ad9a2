"""`make show-streams`: what streams must show. Takes about twenty minutes."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import benchmarks
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.ids import NodeId, Revision
from rota.outputs.open import open_committer
from rota.sources import NewRecord, open_source
from rota.store import Put, Store, open_store
from rota.streams.core.context import Batch
from rota.streams.core.records import Group, Phase, SkipRecord, StreamState, StreamTaskStatus, TaskState
from rota.streams.task.assigned import Assigned
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import Transform
from shows.ground import figure
from shows.report import Line, show
from tests.kit.chaos.grounds import small_disk
from tests.kit.harness import PostgresHarness, SqliteHarness, StoreHarness
from tests.kit.process import ROOT
from tests.kit.servers import Kafka, Postgres, Server
from tests.kit.sources import SourceHarness
from tests.kit.stream_places import Output, ParquetFolder, PostgresTable, SqliteTable, TrialLog, TrialTopic, sums
from tests.kit.streams import StreamTrial, stream_trial
from tests.kit.waiting import eventually

STORM = 180.0
KILL_EVERY = 5.0
LEADERS = (60.0, 120.0)
"""Seconds into a storm at which the leader is killed."""

PARTITIONS = 8
ROLLING = 'tasks=2, replicas=2, duration="15s"'

Places = dict[type[Server], Server]


@contextmanager
def _place(*kinds: type[Server]) -> Iterator[tuple[Path, Places]]:
    """A folder, and servers of these kinds."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-streams-")))
        base.chmod(0o755)  # PostgreSQL runs as a user of its own
        servers: Places = {}
        for kind in kinds:
            home = base / kind.__name__
            home.mkdir()
            servers[kind] = stack.enter_context(kind(home))
        yield base, servers


# Every record once


def every_record_of_kafka_is_in_parquet_once() -> Iterator[Line]:
    """On PostgreSQL."""
    yield from _stormed(TrialTopic, ParquetFolder, PostgresHarness)


def so_is_every_record_of_the_embedded_log() -> Iterator[Line]:
    """On SQLite."""
    yield from _stormed(TrialLog, ParquetFolder, SqliteHarness)


def and_every_record_is_in_a_table_once() -> Iterator[Line]:
    """Rows and offsets in one transaction of PostgreSQL, which is the store too."""
    yield from _stormed(TrialTopic, PostgresTable, PostgresHarness)


def _stormed(source: type[SourceHarness], output: type[Output], store: type[StoreHarness]) -> Iterator[Line]:
    kinds = {kind for kind in (source.server, store.server, Postgres if output.backend else None) if kind}
    with _place(*kinds) as (base, servers):
        yield from asyncio.run(
            _storm(
                base,
                source(base, servers[Kafka] if source.backend else None),
                output(base, servers[Postgres] if output.backend else None),
                store(base, servers[store.server] if store.server else None),
            )
        )


async def _storm(base: Path, source: SourceHarness, output: Output, store: StoreHarness) -> list[Line]:
    how = {"source": source, "output": output, "url": store.url(), "partitions": PARTITIONS}
    async with stream_trial(base, nodes="abc", options=ROLLING, **how) as trial:  # type: ignore[arg-type]
        trial.append(1)
        killed = await trial.storm(STORM, every=KILL_EVERY, leaders=LEADERS, most=40)
        found, wanted, status = sums(await trial.rows()), sums(trial.expected()), await trial.status()
    same = sum(found.get(partition) == sums for partition, sums in wanted.items())
    records, rows = (sum(count for count, _ in sums.values()) for sums in (wanted, found))
    what = f"{source.name} to {type(output).__name__} on {store.name}, {PARTITIONS} partitions, 2 groups × 2 on 3 nodes"
    assert status is not None
    return [
        Line(
            found == wanted and killed.leaders == len(LEADERS),
            f"{what}, {STORM:.0f} s: published rows equal produced records",
            f"{rows:,} rows of {records:,} records, {same} of {len(wanted)} partitions with equal count and checksum; "
            f"{killed.workers} workers and {killed.leaders} leaders killed −9, {status.generation} groups",
        )
    ]


# Collisions


def publishes_that_collide_are_told_apart() -> Iterator[Line]:
    """Stream tasks of their own will, on real transactions."""
    with _place(Postgres) as (base, servers):
        for output in (PostgresTable(base, servers[Postgres]), SqliteTable(base)):
            yield from asyncio.run(_collide(base, output))


class Collider:
    """Tasks of groups that nobody leads, from one log into one output."""

    def __init__(self, store: Store, source: SourceHarness, output: Output) -> None:
        self.store, self._source, self._output = store, source, output

    async def run(self, start: int, end: int, slot: int = 0) -> str:
        """A task that reads this range and publishes it; why it failed, or nothing."""
        group = _ranged(start, end)
        await self.store.commit(Put(keys.stream_group("clicks", group.id), codec.encode(group)))
        assigned = Assigned(stream="clicks", group=group.id, slot=slot, epoch=Revision(1), node=NodeId("n"))
        async with (
            open_source(self._source.url()) as source,
            open_committer(self._output.url(), "clicks", self.store) as output,
        ):
            return await StreamTask(assigned, Transform(_rows), self.store, source, output, SYSTEM).run()

    async def committed(self) -> int:
        """Up to where it is in the output."""
        async with open_committer(self._output.url(), "clicks", self.store) as output:
            return (await output.begin({0: 0}))[0]

    async def is_ready(self, start: int, end: int) -> bool:
        """Has the task of a range read all of it?"""
        entries = (await self.store.scan(f"{keys.STREAM_TASKS}clicks/{_ranged(start, end).id}/")).entries
        told = [codec.decode(StreamTaskStatus, entry.value) for entry in entries]
        return any(each.state is TaskState.PUBLISHING and each.offsets == {0: end} for each in told)


def _rows(batch: Batch) -> list[dict[str, int]]:
    return [{"part": record.partition, "at": record.offset, "number": int(record.value)} for record in batch]


def _ranged(start: int, end: int) -> Group:
    now = datetime.now(UTC)
    return Group(
        stream="clicks",
        id=f"g{start}-{end}",
        number=0,
        generation=1,
        partitions=(0,),
        starts={0: start},
        sequences=({0: end},),
        phase=Phase.PUBLISHING,
        since=now,
        created=now,
    )


async def _collide(base: Path, output: Output) -> list[Line]:
    source = TrialLog(base, None)
    source.append(0, [NewRecord(value=b"%d" % number) for number in range(400)])
    await output.prepare()
    kind = type(output).__name__
    async with open_store("memory://") as store:
        tasks = Collider(store, source, output)
        assert await tasks.committed() == 0
        ahead = asyncio.create_task(tasks.run(100, 200))
        await eventually(lambda: tasks.is_ready(100, 200))
        await asyncio.sleep(1)  # it tries again and again meanwhile
        waited, at = not ahead.done(), await tasks.committed()
        first = await tasks.run(0, 100)
        after = await ahead
        behind = await tasks.run(150, 300)
        pair = await asyncio.gather(tasks.run(200, 400), tasks.run(200, 400, slot=1))
        rows = await output.rows()
    return [
        Line(
            waited and at == 0 and (first, after) == ("", ""),
            f"{kind}: who is ahead waits for the one before it",
            f"committed up to {at} while it waited; both published then",
        ),
        Line("others published another range" in behind, f"{kind}: who is behind dies", behind or "it went on"),
        Line(
            pair == ["", ""] and rows == [(0, number, number) for number in range(400)],
            f"{kind}: of two replicas one publishes, and that counts for both",
            f"both ended well, and {len(rows)} rows of 400 records are there",
        ),
    ]


# What happens to sources and outputs


def whatever_happens_the_reason_is_in_the_status() -> Iterator[Line]:
    """One node, and a real Kafka to which things are done."""
    with _place(Kafka) as (base, servers):
        kafka = servers[Kafka]
        for number, trouble in enumerate(TROUBLES):
            folder = base / str(number)
            folder.mkdir()
            yield from asyncio.run(trouble(folder, kafka))


@asynccontextmanager
async def _trial(
    folder: Path, kafka: Server, options: str = "", output: Output | None = None
) -> AsyncIterator[StreamTrial]:
    """A stream that has published fifty records of each of its four partitions."""
    given = f'duration="2s", {options}'
    async with stream_trial(folder, nodes="a", options=given, source=TrialTopic(folder, kafka), output=output) as trial:
        trial.append(50)
        await trial.until_lag(0)
        yield trial


async def _made_anew(folder: Path, kafka: Server) -> list[Line]:
    async with _trial(folder, kafka) as trial:
        _make_anew(trial)
        status = await trial.until_told("the source was made anew")
        await trial.end()
    halted = Line(
        len(await trial.rows()) == 200,
        "a topic that was made anew halts the stream",
        f"{status.state}: {status.detail}",
    )
    (folder / "again").mkdir()
    async with _trial(folder / "again", kafka, 'vanished="earliest"') as trial:
        _make_anew(trial)
        trial.append(30)

        async def is_read() -> bool:
            status = await trial.status()
            return status is not None and status.committed == dict.fromkeys(range(4), 30)

        await eventually(is_read, within=90)
        rows = await trial.rows()
    return [
        halted,
        Line(len(rows) == 200 + 120, "… or it is read from its start, if the stream wants that", f"{len(rows)} rows"),
    ]


def _make_anew(trial: StreamTrial) -> None:
    trial.source.make_anew()
    trial.source.grow(trial.partitions)
    trial.appended.clear()


async def _retained(folder: Path, kafka: Server) -> list[Line]:
    async with _trial(folder, kafka) as trial:
        await _let_go(trial)
        status = await trial.until_told("partition 0 waits")
        others = await _until_committed(trial, {1: 100, 2: 100, 3: 100})
    halted = Line(
        others, "retention went past a committed offset: that partition waits, the others go on", status.detail
    )
    (folder / "again").mkdir()
    async with _trial(folder / "again", kafka, 'vanished="earliest"') as trial:
        await _let_go(trial)
        went_on = await _until_committed(trial, dict.fromkeys(range(4), 100))
        entries = (await trial.store.scan(keys.STREAM_SKIPS)).entries
        skips = [codec.decode(SkipRecord, entry.value) for entry in entries]
        rows = await trial.rows()
    said = "; ".join(f"partition {skip.partition}, offsets {skip.first} to {skip.last}, {skip.why}" for skip in skips)
    is_right = went_on and len(rows) == 380 and [(skip.first, skip.last) for skip in skips] == [(50, 69)]
    return [
        halted,
        Line(is_right, "… or it goes on behind them, and the gap is on record", f"{len(rows)} rows; {said}"),
    ]


async def _let_go(trial: StreamTrial) -> None:
    """Have the broker delete what was not read yet."""
    await trial.end()
    trial.append(50)
    trial.source.delete(0, 70)
    await trial.wish()


async def _until_committed(trial: StreamTrial, offsets: dict[int, int]) -> bool:
    async def look() -> bool:
        status = await trial.status()
        return status is not None and offsets.items() <= status.committed.items()

    with suppress(AssertionError):
        return await eventually(look, within=60)
    return False


async def _grown(folder: Path, kafka: Server) -> list[Line]:
    async with _trial(folder, kafka) as trial:
        trial.source.grow(5)
        trial.partitions = 5
        trial.append(40)
        await trial.until_lag(0)
        rows = await trial.rows()
    is_right = rows == trial.expected()
    return [Line(is_right, "a new partition is read from its start", f"{len(rows)} rows of {len(trial.expected())}")]


def _letters(folder: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.rglob("_letters/*.jsonl"))


async def _poisoned(folder: Path, kafka: Server) -> list[Line]:
    async with _trial(folder, kafka) as trial:
        trial.append_poison(1)
        trial.append(10)
        await trial.until_lag(0)
        rows = await trial.rows()
        kept = _letters(folder)
    aside = Line(
        len(rows) == sum(trial.appended.values()) - 1 and kept >= 1,
        "a record that cannot be read is put aside, and the rest goes on",
        f"{len(rows)} rows, {kept} dead letter",
    )
    (folder / "again").mkdir()
    async with _trial(folder / "again", kafka, "max_errors=0") as trial:
        trial.append_poison(1)
        status = await trial.until_told("records could not be read")
        unwell = await eventually(lambda: _is(trial, StreamState.UNHEALTHY_TASKS), within=60)
    why = status.errors[-1].why
    return [aside, Line(bool(unwell), "… or its task fails, if the stream allows none, and the status says which", why)]


async def _is(trial: StreamTrial, state: StreamState) -> bool:
    status = await trial.status()
    return status is not None and status.state is state


async def _restarted(folder: Path, kafka: Server) -> list[Line]:
    async with _trial(folder, kafka) as trial:
        kafka.kill()
        status = await trial.until_told("lost contact with the source")
        kafka.start()
        trial.append(50)
        await trial.until_lag(0, within=120)
        rows = await trial.rows()
    why = next(error.why for error in status.errors if "lost contact" in error.why)
    return [
        Line(rows == trial.expected(), "a broker that is killed and restarted only delays", f"{len(rows)} rows; {why}")
    ]


class Nowhere(TrialTopic):
    """A topic on brokers that nobody runs."""

    def address(self) -> str:
        return f"kafka://127.0.0.1:1/{self.space}"


async def _unreachable(folder: Path, kafka: Server) -> list[Line]:
    async with stream_trial(folder, nodes="a", source=Nowhere(folder, kafka)) as trial:
        await trial.until_told("unable to connect to the source")
        unwell = await eventually(lambda: _is(trial, StreamState.UNHEALTHY_SUPERVISOR), within=90)
        status = await trial.status()
    assert status is not None
    return [Line(bool(unwell), "brokers that cannot be reached are told", f"{status.state}: {status.detail}")]


async def _full(folder: Path, kafka: Server) -> list[Line]:
    output = ParquetFolder(folder)
    with small_disk(output.path, megabytes=2) as fill:
        async with _trial(folder, kafka, output=output) as trial:
            rest = fill()
            trial.append(50)
            status = await trial.until_told("No space left on device")
            rest.unlink()
            await trial.until_lag(0, within=120)
            rows = await trial.rows()
    why = next(text for text in (status.detail, *(error.why for error in status.errors)) if "No space" in text)
    return [
        Line(rows == trial.expected(), "a full disk is told, and with room again nothing is lost or doubled", why),
    ]


TROUBLES = (_made_anew, _retained, _grown, _poisoned, _restarted, _unreachable, _full)


# Beside others


def it_is_as_fast_as_it_should_be() -> Iterator[Line]:
    """`make bench`'s part about streams, by its own verdicts."""
    for row in benchmarks.run(only="stream"):
        yield Line(row.verdict != "short", row.name, figure(row))


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            publishes_that_collide_are_told_apart,
            whatever_happens_the_reason_is_in_the_status,
            every_record_of_kafka_is_in_parquet_once,
            so_is_every_record_of_the_embedded_log,
            and_every_record_is_in_a_table_once,
            it_is_as_fast_as_it_should_be,
        ]
    )
