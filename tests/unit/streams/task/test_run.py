"""One stream task: what it reads, pauses, publishes and says, with a real store, source and output in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from rota.kit.record import replace
from rota.kit.time import virtual
from rota.kit.time.clock import SYSTEM, Clock
from rota.model import codec, keys
from rota.model.errors import Invalid, Unavailable
from rota.model.ids import NodeId, Revision
from rota.outputs.memory import MemoryCommitter, MemoryDraft
from rota.outputs.port import Letter, Spoiled, Unfit
from rota.sources.memory import Topic, topic
from rota.sources.open import open_source
from rota.sources.port import NewRecord, Vanished
from rota.store import Delete, Put, Store, open_store
from rota.streams.core.context import Batch
from rota.streams.core.records import Dismissal, Group, Phase, StreamTaskStatus, TaskState
from rota.streams.task.assigned import Assigned, SequenceLimits
from rota.streams.task.pace import FIRST, ReadPace
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import DeadLetter, Transform
from tests.kit.committers import move
from tests.kit.virtual_trials import CLOCK
from tests.kit.waiting import eventually

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def parsed(batch: Batch) -> Iterator[dict[str, Any]]:
    for record in batch:
        yield {"part": record.partition, "offset": record.offset, **json.loads(record.value)}


@dataclass
class World:
    """A topic, a store, an output, and the tasks of one group."""

    store: Store
    name: str = field(default_factory=lambda: uuid4().hex)
    tasks: list["asyncio.Task[str]"] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    made: int = 0
    clock: Clock = SYSTEM

    def __post_init__(self) -> None:
        self.topic: Topic = topic(self.name)
        self.topic.make_anew(2)
        self.committer = MemoryCommitter(self.name, "s", self.store, self.clock)
        self.group = Group(
            stream="s",
            id="g",
            number=0,
            generation=1,
            partitions=(0, 1),
            starts={0: 0, 1: 0},
            since=NOON,
            created=NOON,
        )

    def grow(self, partition: int, count: int, value: bytes | None = b"{}", time: datetime | None = None) -> None:
        """Append records."""
        time_ms = None if time is None else int(time.timestamp() * 1000)
        self.topic.append(partition, [NewRecord(value=value, time_ms=time_ms)] * count, 0)

    async def say(self, **changes: Any) -> None:
        """Write the group's record."""
        self.group = replace(self.group, **changes)
        await self.store.commit(Put(keys.stream_group("s", "g"), codec.encode(self.group)))

    async def start(
        self, slot: int = 0, function: Callable[..., Any] = parsed, limits: SequenceLimits | None = None, **more: Any
    ) -> "asyncio.Task[str]":
        """Start a task of the group."""
        self.made += 1
        limits = replace(limits or SequenceLimits(), tell=timedelta(milliseconds=50))  # or every test waits for figures
        await self.committer.begin({0: 0, 1: 0})
        assigned = Assigned(stream="s", group="g", slot=slot, epoch=Revision(self.made), node=NodeId("n"))
        transform = Transform(function, more.pop("most_errors", None))

        async def live() -> str:
            async with open_source(f"memory://{self.name}") as source:
                task = StreamTask(
                    assigned,
                    transform,
                    self.store,
                    source,
                    self.committer,
                    self.clock,
                    limits=limits,
                    put_aside=self.letters.extend,
                    **more,
                )
                return await task.run()

        running = asyncio.create_task(live())
        self.tasks.append(running)
        return running

    async def status(self, slot: int = 0) -> StreamTaskStatus | None:
        """What the newest task of a slot says."""
        prefix = f"{keys.STREAM_TASKS}s/g/{slot}@"
        entries = (await self.store.scan(prefix)).entries
        found = [codec.decode(StreamTaskStatus, entry.value) for entry in entries]
        return max(found, key=lambda status: status.epoch, default=None)

    async def until(self, state: TaskState, slot: int = 0, **offsets: int) -> StreamTaskStatus:
        """Wait until a task says that it is so, and there."""
        wanted = {int(name[1:]): offset for name, offset in offsets.items()}

        async def said() -> StreamTaskStatus | None:
            status = await self.status(slot)
            is_there = status and status.state is state and wanted.items() <= status.offsets.items()
            return status if is_there else None

        return await eventually(said, within=30)

    async def output(self) -> list[tuple[int, int]]:
        """What is published."""
        return sorted((row["part"], row["offset"]) for row in await self.committer.read())


def records(partition: int, count: int, first: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(first, first + count)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_store("memory://") as store:
        world = World(store)
        yield world
        for task in world.tasks:
            task.cancel()
        await asyncio.gather(*world.tasks, return_exceptions=True)


async def test_a_group_is_read_paused_and_published(world: World) -> None:
    world.grow(0, 5)
    world.grow(1, 3)
    await world.say()
    running = await world.start()
    await world.until(TaskState.READING, p0=5, p1=3)
    await world.say(phase=Phase.PAUSING, is_final=True)
    paused = await world.until(TaskState.PAUSED)
    world.grow(0, 10)
    assert paused.offsets == {0: 5, 1: 3}
    assert await world.output() == []
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 5, 1: 3},))
    assert await running == ""
    assert await world.output() == records(0, 5) + records(1, 3)
    assert await world.committer.committed() == {0: 5, 1: 3}
    status = await world.status()
    assert status is not None
    assert (status.state, status.rows) == (TaskState.DONE, 8)


async def test_a_group_that_a_newer_rota_wrote_is_waited_out_and_said(world: World) -> None:
    world.grow(0, 5)
    await world.say()
    running = await world.start()
    await world.until(TaskState.READING, p0=5)
    await world.store.commit(Put(keys.stream_group("s", "g"), b'{"v":99}'))

    async def is_said() -> bool:
        status = await world.status()
        return status is not None and status.trouble.startswith("its group is not understood here: ")

    await eventually(is_said)
    await world.say(phase=Phase.PUBLISHING, is_final=True, sequences=({0: 5, 1: 0},))
    assert await running == ""
    assert await world.output() == records(0, 5)


async def test_replicas_publish_once_and_the_slower_one_catches_up(world: World) -> None:
    world.grow(0, 5)
    await world.say()
    first = await world.start(0)
    await world.until(TaskState.READING, p0=5)
    await world.say(phase=Phase.PAUSING, is_final=True)
    await world.until(TaskState.PAUSED)
    second = await world.start(1)
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 5, 1: 0},))
    assert (await first, await second) == ("", "")
    assert await world.output() == records(0, 5)


async def test_a_sequence_is_published_while_reading_goes_on(world: World) -> None:
    world.grow(0, 5)
    await world.say()
    await world.start()
    await world.until(TaskState.READING, p0=5)
    await world.say(phase=Phase.PAUSING)
    await world.until(TaskState.PAUSED)
    world.grow(0, 4)
    await world.say(phase=Phase.READING, sequences=({0: 5, 1: 0},))
    status = await world.until(TaskState.READING, p0=9)
    assert status.sequence == 1
    await eventually(lambda: _equals(world.output(), records(0, 5)))
    assert await world.committer.committed() == {0: 5, 1: 0}


async def test_a_task_behind_the_agreement_reads_no_further_than_that(world: World) -> None:
    world.grow(0, 100)
    await world.say(sequences=({0: 40, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(limits=SequenceLimits(batch=7))) == ""
    assert await world.output() == records(0, 40)


async def test_a_checkpoint_is_asked_for_when_there_is_much(world: World) -> None:
    world.grow(0, 50)
    await world.say()
    await world.start(limits=SequenceLimits(rows=20, batch=10))

    async def asked() -> bool:
        status = await world.status()
        return bool(status and status.wants_checkpoint)

    await eventually(asked)
    status = await world.status()
    assert status is not None
    assert status.wants_checkpoint.endswith("rows")


async def test_a_checkpoint_is_asked_for_after_a_while_even_without_rows(world: World) -> None:
    world.grow(0, 5)
    await world.say()
    await world.start(function=lambda batch: None, limits=SequenceLimits(time=timedelta(milliseconds=100)))

    async def asked() -> bool:
        status = await world.status()
        return bool(status and "s old" in status.wants_checkpoint)

    await eventually(asked)


async def test_offsets_advance_when_all_rows_are_filtered(world: World) -> None:
    world.grow(0, 5)
    await world.say(sequences=({0: 5, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(function=lambda batch: [])) == ""
    assert await world.committer.committed() == {0: 5, 1: 0}
    assert await world.output() == []


async def test_a_task_that_stands_by_begins_when_it_is_told_where(world: World) -> None:
    world.grow(0, 9)
    await world.say(starts={}, phase=Phase.STANDBY, after=("f",))
    await world.start()
    await world.until(TaskState.STANDBY)
    await world.committer.move(move("a", {0: 0}, {0: 4}))
    await world.say(starts={0: 4, 1: 0}, phase=Phase.READING, after=())
    status = await world.until(TaskState.READING, p0=9)
    assert status.rows == 5


async def test_what_a_task_read_before_its_offsets_were_set_by_hand_is_not_published(world: World) -> None:
    world.grow(0, 5)
    await world.say()
    running = await world.start()
    await world.until(TaskState.READING, p0=5)
    await world.committer.move(move("a", {0: 0}, {0: 0}))
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 5, 1: 0},))
    assert "set by hand" in await running
    assert (await world.output(), await world.committer.committed()) == ([], {0: 0, 1: 0})


async def test_a_task_that_is_dismissed_ends_and_says_why(world: World) -> None:
    await world.say()
    running = await world.start()
    await world.until(TaskState.READING)
    await world.say(dismissed={0: Dismissal(epoch=Revision(1), why="too slow")})
    assert await running == "too slow"
    await world.until(TaskState.FAILED)


async def test_a_task_whose_group_is_gone_ends(world: World) -> None:
    await world.say()
    running = await world.start()
    await world.until(TaskState.READING)
    await world.store.commit(Delete(keys.stream_group("s", "g")))
    assert "its group is gone" in await running


async def test_records_of_other_times_are_dropped_and_counted(world: World) -> None:
    world.grow(0, 2, time=NOON - timedelta(hours=2))
    world.grow(0, 3, time=NOON)
    world.grow(0, 4, time=SYSTEM.wall() + timedelta(days=2))
    world.grow(0, 1, value=None, time=NOON)
    await world.say(earliest=NOON - timedelta(hours=1), latest=NOON + timedelta(hours=1))
    await world.start()
    status = await world.until(TaskState.READING, p0=10)
    assert (status.rows, status.dropped) == (3, {"late": 2, "early": 4, "without a value": 1})


async def test_records_that_came_while_nobody_read_the_group_are_not_early(world: World) -> None:
    early = timedelta(seconds=5)
    world.grow(0, 3, time=SYSTEM.wall())
    await world.say(latest=NOON + early, early=early)  # made before a night without a node
    await world.start()
    status = await world.until(TaskState.READING, p0=3)
    assert (status.rows, status.dropped) == (3, {})


async def test_a_poison_record_is_put_aside(world: World) -> None:
    world.grow(0, 3)
    world.grow(0, 1, value=b"poison")
    world.grow(0, 3)
    await world.say()
    await world.start()
    status = await world.until(TaskState.READING, p0=7)
    assert (status.rows, status.dropped) == (6, {"not readable": 1})
    assert [letter.record.offset for letter in world.letters] == [3]


async def test_a_record_whose_row_does_not_fit_is_put_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fitted(self: MemoryCommitter, rows: list[dict[str, Any]], *, is_tried: bool = False) -> Any:
        if any("odd" in row for row in rows):
            raise Invalid("a row is odd")
        return rows

    monkeypatch.setattr(MemoryCommitter, "fitted", fitted)
    world.grow(0, 3)
    world.grow(0, 1, value=b'{"odd": 1}')
    world.grow(0, 3)
    await world.say()
    await world.start()
    status = await world.until(TaskState.READING, p0=7)
    assert (status.rows, status.dropped) == (6, {"does not fit": 1})
    assert [(letter.record.offset, letter.error) for letter in world.letters] == [(3, "Invalid: a row is odd")]


async def test_an_output_that_cannot_be_asked_whether_rows_fit_is_no_dead_letter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 2

    async def away(self: MemoryCommitter, rows: Any, *, is_tried: bool = False) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("the output is away")
        return rows

    monkeypatch.setattr(MemoryCommitter, "fitted", away)
    world.grow(0, 3)
    await world.say()
    await world.start()
    status = await world.until(TaskState.READING, p0=3)
    assert (status.rows, status.dropped, world.letters) == (3, {}, [])


def refusing(monkeypatch: pytest.MonkeyPatch, odd: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Let the output refuse rows when they are published or tried, as a table with constraints does."""
    publish = MemoryCommitter.publish

    async def tried(self: MemoryCommitter, rows: Any, *, is_tried: bool = False) -> Any:
        if is_tried and odd(rows):
            raise Unfit("a row breaks a constraint")
        return rows

    async def refused(self: MemoryCommitter, draft: MemoryDraft, spans: Any) -> Any:
        if odd(draft.content):
            raise Unfit("a row breaks a constraint")
        return await publish(self, draft, spans)

    monkeypatch.setattr(MemoryCommitter, "fitted", tried)
    monkeypatch.setattr(MemoryCommitter, "publish", refused)


async def test_records_whose_rows_are_refused_by_a_publish_are_put_aside_and_the_rest_is_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: any("odd" in row for row in rows))
    world.grow(0, 3)
    world.grow(0, 1, value=b"poison")
    world.grow(0, 1, value=b'{"odd": 1}')
    world.grow(0, 3)
    world.grow(1, 2)
    await world.say(sequences=({0: 7, 1: 1},), phase=Phase.PUBLISHING)
    assert await (await world.start(limits=SequenceLimits(batch=2))) == ""
    assert await world.output() == [(0, 0), (0, 1), (0, 2), (0, 5), (0, 6), (1, 0)]
    assert await world.committer.committed() == {0: 7, 1: 1}
    assert [letter.record.offset for letter in world.letters] == [3, 4]
    status = await world.status()
    assert status is not None
    assert (status.rows, status.dropped) == (6, {"not readable": 1, "does not fit": 1})


class Keeping(MemoryCommitter):
    """An output that keeps letters with its rows."""

    kept: dict[str, list[int]]
    """The offsets of each draft's letters."""

    def keep_letters(self, draft: MemoryDraft, letters: Sequence[Letter]) -> None:
        self.kept[draft.id] = [letter.offset for letter in letters]


@pytest.fixture
async def keeping(world: World) -> Keeping:
    """The world's output, which keeps letters."""
    world.committer = keeping = Keeping(world.name, "s", world.store, world.clock)
    keeping.kept = {}
    return keeping


async def test_an_output_that_keeps_letters_gets_all_of_a_sequence_with_its_publish_also_if_it_is_made_again(
    world: World, keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: any("odd" in row for row in rows))
    world.grow(0, 3)
    world.grow(0, 1, value=b"poison")
    world.grow(0, 1, value=b'{"odd": 1}')
    await world.say(sequences=({0: 5, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(limits=SequenceLimits(batch=2))) == ""
    (published,) = await world.committer.manifests()
    assert keeping.kept[published.id] == [3, 4]
    assert world.letters == [], "nothing is in the node's own file"


@pytest.mark.usefixtures("keeping")
async def test_many_bytes_of_letters_ask_for_a_checkpoint(world: World) -> None:
    world.grow(0, 9)
    world.grow(0, 1, value=b"poison")
    await world.say()
    await world.start(limits=SequenceLimits(letters=10))
    status = await world.until(TaskState.READING, p0=10)
    assert status.wants_checkpoint.endswith("bytes of dead letters")


async def test_a_record_that_fails_only_while_its_sequence_is_made_again_is_put_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: any("odd" in row for row in rows))
    seen = 0

    def shaky(batch: Batch) -> list[dict[str, Any]]:
        nonlocal seen
        if any(record.offset == 1 for record in batch):
            seen += 1
            if seen > 1:
                raise OSError("what it asks is away")
        return list(parsed(batch))

    world.grow(0, 2)
    world.grow(0, 1, value=b'{"odd": 1}')
    world.grow(0, 2)
    await world.say(sequences=({0: 5, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(function=shaky)) == ""
    assert await world.output() == [(0, 0), (0, 3), (0, 4)]
    assert [letter.record.offset for letter in world.letters] == [1, 2]
    status = await world.status()
    assert status is not None
    assert status.dropped == {"not readable": 1, "does not fit": 1}


async def test_a_sequence_is_made_again_at_the_pace_that_its_function_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: any("odd" in row for row in rows))
    monkeypatch.setattr(ReadPace, "took", lambda *_: None)  # it is as slow as it may be
    sizes: list[int] = []

    def slow(batch: Batch) -> list[dict[str, Any]]:
        sizes.append(len(batch.records))
        return list(parsed(batch))

    world.grow(0, 1, value=b'{"odd": 1}')
    world.grow(0, 299)
    await world.say(sequences=({0: 300, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(function=slow)) == ""
    assert max(sizes) == FIRST


async def test_a_task_that_is_dismissed_does_not_make_the_rest_of_a_sequence_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: any("odd" in row for row in rows))
    seen: list[int] = []

    async def noted(batch: Batch) -> list[dict[str, Any]]:
        first = batch.records[0].offset
        if first == 0 and 0 in seen:
            await world.say(dismissed={0: Dismissal(epoch=Revision(1), why="too slow")})
            await asyncio.sleep(0.2)
        seen.append(first)
        return list(parsed(batch))

    world.grow(0, 5)
    world.grow(0, 1, value=b'{"odd": 1}')
    await world.say(sequences=({0: 6, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start(function=noted, limits=SequenceLimits(batch=1))) == "too slow"
    assert (seen, world.letters) == ([0, 1, 2, 3, 4, 5, 0], [])


async def test_an_output_that_refuses_all_records_ends_the_task_however_few_each_sequence_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, bool)
    world.grow(0, 120)
    await world.say(sequences=({0: 60, 1: 0}, {0: 120, 1: 0}), phase=Phase.PUBLISHING)
    assert "more records than not cannot be read" in await (await world.start())
    assert (await world.committer.committed(), len(world.letters)) == ({0: 60, 1: 0}, 60)


async def test_rows_that_are_refused_only_together_fail_the_task_and_it_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda rows: len(rows) > 2)
    world.grow(0, 4)
    await world.say(sequences=({0: 4, 1: 0},), phase=Phase.PUBLISHING)
    error = await (await world.start(limits=SequenceLimits(batch=2)))
    assert "a row breaks a constraint" in error
    assert "no single record" in error
    assert (world.letters, await world.committer.committed()) == ([], {0: 0, 1: 0})


async def test_too_many_poison_records_end_the_task(world: World) -> None:
    world.grow(0, 5, value=b"poison")
    await world.say()
    assert "3 records could not be read, and 2 may" in await (await world.start(most_errors=2))


async def test_a_gap_without_records_is_passed_over(world: World) -> None:
    world.grow(0, 2)
    world.topic.leave_gap(0, 5)
    world.grow(0, 2)
    await world.say(sequences=({0: 9, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start()) == ""
    assert await world.output() == [(0, 0), (0, 1), (0, 7), (0, 8)]


async def test_records_that_are_gone_end_the_task_unless_the_stream_goes_on(world: World) -> None:
    world.grow(0, 10)
    world.topic.delete(0, 4)
    await world.say()
    assert "cannot be read" in await (await world.start(0))

    async def earliest(error: Vanished) -> int | None:
        return error.bounds.start

    await world.start(1, vanished=earliest)
    status = await world.until(TaskState.READING, slot=1, p0=10)
    assert (status.rows, status.dropped) == (6, {"vanished": 4})


async def test_offsets_do_not_move_past_a_gap_before_it_is_on_record(world: World) -> None:
    on_record = asyncio.Event()

    async def earliest(error: Vanished) -> int | None:
        await on_record.wait()
        return error.bounds.start

    world.grow(0, 10)
    world.topic.delete(0, 4)
    await world.say()
    running = await world.start(vanished=earliest)
    await world.until(TaskState.READING)
    await world.say(phase=Phase.PAUSING, is_final=True)
    assert (await world.until(TaskState.PAUSED)).offsets[0] == 0
    on_record.set()
    for _ in range(10):
        await asyncio.sleep(0)
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 2, 1: 0},))
    assert await running == "", "it has gone no further than it said"
    assert await world.committer.committed() == {0: 2, 1: 0}


async def test_what_was_read_of_a_source_made_anew_is_not_published(world: World) -> None:
    world.grow(0, 5)
    await world.say(identity=world.topic.identity)
    running = await world.start()
    await world.until(TaskState.READING, p0=5)
    world.topic.make_anew(2)
    world.grow(0, 9)
    await world.until(TaskState.READING, p0=9)
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 9, 1: 0},))
    assert "the source was made anew" in await running
    assert await world.output() == []


async def test_what_was_read_of_a_source_that_was_deleted_is_published(world: World) -> None:
    world.grow(0, 5)
    await world.say(identity=world.topic.identity)
    running = await world.start()
    await world.until(TaskState.READING, p0=5)
    await world.say(phase=Phase.PAUSING, is_final=True)
    await world.until(TaskState.PAUSED)
    world.topic.make_anew(0)
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 5, 1: 0},))
    assert await running == ""
    assert await world.output() == records(0, 5)


async def test_an_outage_of_the_source_is_told_and_passes(world: World) -> None:
    world.grow(0, 3)
    await world.say()
    await world.start()
    await world.until(TaskState.READING, p0=3)
    world.topic.stop()

    async def told() -> bool:
        status = await world.status()
        return bool(status and "stopped" in status.trouble)

    await eventually(told, within=30)
    world.topic.start()
    world.grow(0, 2)
    await world.until(TaskState.READING, p0=5)


async def test_an_output_that_is_away_delays_the_publish(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = 3
    publish = MemoryCommitter.publish

    async def shaky(self: MemoryCommitter, *given: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("the output is away")
        return await publish(self, *given)

    monkeypatch.setattr(MemoryCommitter, "publish", shaky)
    world.grow(0, 3)
    await world.say(sequences=({0: 3, 1: 0},), phase=Phase.PUBLISHING)
    assert await (await world.start()) == ""
    assert failures == -1
    assert await world.output() == records(0, 3)


async def test_a_draft_that_is_spoiled_ends_the_task(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: MemoryDraft, rows: object) -> None:
        raise Spoiled("no space left; make room")

    monkeypatch.setattr(MemoryDraft, "append", full)
    world.grow(0, 3)
    await world.say()
    assert await (await world.start()) == "no space left; make room"
    assert (await world.until(TaskState.FAILED, p0=0)).error == "no space left; make room"


async def test_rows_made_while_a_pause_was_asked_for_are_read_again(world: World) -> None:
    gate = asyncio.Event()
    calls = 0

    async def slow(batch: Batch) -> list[dict[str, Any]]:
        nonlocal calls
        calls += 1
        if calls == 2:
            await gate.wait()
        return list(parsed(batch))

    world.grow(0, 4)
    await world.say()
    running = await world.start(function=slow)
    await world.until(TaskState.READING, p0=4)
    world.grow(0, 4)
    await eventually(lambda: calls == 2)
    await world.say(phase=Phase.PAUSING, is_final=True)
    paused = await world.until(TaskState.PAUSED)
    gate.set()
    assert paused.offsets[0] == 4
    await world.say(phase=Phase.PUBLISHING, sequences=({0: 6, 1: 0},))
    assert await running == ""
    assert await world.output() == records(0, 6)


async def test_records_that_are_read_again_after_a_pause_are_errors_once(world: World) -> None:
    gate = asyncio.Event()
    whole = 0

    async def slow(batch: Batch) -> list[dict[str, Any]]:
        nonlocal whole
        if [record.offset for record in batch] == [4, 5, 6, 7]:
            whole += 1
            await gate.wait()
        return list(parsed(batch))

    world.grow(0, 4)
    await world.say()
    await world.start(function=slow, most_errors=3)
    await world.until(TaskState.READING, p0=4)
    world.topic.append(0, [NewRecord(value=each) for each in (b"poison", b"poison", b"{}", b"{}")], 0)
    await eventually(lambda: whole == 1)
    await world.say(phase=Phase.PAUSING)
    await world.until(TaskState.PAUSED)
    gate.set()
    await asyncio.sleep(0.1)
    await world.say(phase=Phase.READING, sequences=({0: 4, 1: 0},))
    status = await world.until(TaskState.READING, p0=8)
    assert (whole, status.dropped) == (2, {"not readable": 2})


async def _equals(coming: Any, wanted: object) -> bool:
    return bool(await coming == wanted)


def test_a_status_is_repeated_seldom_and_comes_back_when_it_is_lost() -> None:
    key = keys.stream_task("s", "g", 0, Revision(1))

    async def told(store: Store) -> dict[int, int]:
        entry = await store.get(key)
        assert entry is not None
        return codec.decode(StreamTaskStatus, entry.value).offsets

    async def story() -> None:
        async with open_store("memory://") as store:
            world = World(store, clock=CLOCK)
            world.grow(0, 5)
            await world.say(phase=Phase.READING)
            await world.start(limits=SequenceLimits(repeat=timedelta(seconds=10)))
            await asyncio.sleep(2)
            assert await told(store) == {0: 5, 1: 0}
            before = await store.revision()
            await asyncio.sleep(9)
            assert await store.revision() <= before + 1  # it had 180 times to say the same
            world.grow(1, 3)
            await asyncio.sleep(1)
            assert await told(store) == {0: 5, 1: 3}
            await store.commit(Delete(key))
            await asyncio.sleep(10)
            assert await told(store) == {0: 5, 1: 3}
            world.tasks[0].cancel()
            await asyncio.gather(*world.tasks, return_exceptions=True)

    virtual.run(story())
