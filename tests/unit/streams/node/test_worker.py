"""A stream worker's code in this process: the agent's end is played here, with the lender that the agent has."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rota import App, Batch
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.model import adapters, codec, keys
from rota.model.errors import Denied
from rota.model.ids import LeaseId
from rota.outputs.memory import MemoryCommitter
from rota.resources.pipe import TaskEnded, TaskSilent, TaskStarted
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Channel, PipeMessage, pair
from rota.runtime.pipes.worker import Beat, Finish
from rota.runtime.worker.calls import Calls
from rota.sources.memory import Topic, topic
from rota.sources.port import NewRecord
from rota.store import Delete, Put, Store, open_store
from rota.streams.core.records import Dismissal, Group, Phase, SkipRecord, StreamTaskStatus, TaskState
from rota.streams.node.lending import Lending
from rota.streams.node.lent import LentStore
from rota.streams.node.worker import Streaming, preload
from rota.streams.pipe import AskStore
from rota.streams.task.transform import Call, call_here
from tests.kit.waiting import eventually

SESSION = timedelta(seconds=30)
NOW = datetime(2026, 11, 16, tzinfo=UTC)
GROUP = Group(stream="s", id="g", number=0, generation=1, partitions=(0,), starts={0: 0}, since=NOW, created=NOW)


@dataclass
class Agent:
    """The agent's end of one stream worker."""

    store: Store
    folder: Path
    heard: list[PipeMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = uuid4().hex
        self.topic: Topic = topic(self.space)
        self.topic.make_anew(1)
        self.output = MemoryCommitter(self.space, "s", self.store, SYSTEM)
        self.app = App("shop")
        self.lending = Lending()

    def declare(self, **options: Any) -> None:
        given = {"source": f"memory://{self.space}", "sink": f"memory://{self.space}", "name": "s"}

        @self.app.stream(**{**given, **options})
        def rows(batch: Batch) -> Any:
            return [{"at": record.offset, "number": int(record.value)} for record in batch]

    async def say(self, group: Group = GROUP) -> None:
        await self.store.commit(Put(keys.stream_group(group.stream, "g"), codec.encode(group)))

    async def start(self, digest: str | None = None, stream: str = "s", call: Call = call_here) -> "asyncio.Task[None]":
        """The worker, as the loader would fork it."""
        lease = await self.store.grant(SESSION)
        self.lending.store, self.lending.lease = self.store, LeaseId(lease.id)
        digest = digest or (self.app.streams["s"].spec.digest if self.app.streams else "d")
        spec = {"digest": digest, "stream": stream}
        order = Order("stream:s/g#0", 7, "stream:s", "g", 0, json.dumps(spec).encode())
        brief = Brief(1, "stream", "task:stream:s/g#0", 0, 1, "n", 0.05, order=order, letters=str(self.folder))
        mine, theirs = pair()
        self.worker = Worker(brief, 7, None, SYSTEM.monotonic())
        self.worker.enter(WorkerPhase.READY, SYSTEM.monotonic())
        self.worker.channel = Channel(mine, self._hear, lambda: None)
        return asyncio.create_task(Streaming(self.app, brief, order, call).run(theirs))

    def _hear(self, message: PipeMessage) -> None:
        self.heard.append(message)
        self.lending.said(self.worker, message)

    def said(self, kind: type[PipeMessage]) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]

    async def status(self, condition: Callable[[StreamTaskStatus], bool]) -> StreamTaskStatus:
        """What the task says, once it says so."""

        async def look() -> StreamTaskStatus | None:
            entry = await self.store.get(keys.stream_task("s", "g", 0, 7))
            status = codec.decode(StreamTaskStatus, entry.value) if entry else None
            return status if status and condition(status) else None

        return await eventually(look, within=30)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    async with open_store("memory://") as store:
        agent = Agent(store, tmp_path)
        await agent.output.begin({0: 0})
        yield agent
        if agent.worker.channel is not None:
            agent.worker.channel.close()
        agent.lending.ended(agent.worker, "over")
        await asyncio.sleep(0)


async def test_a_task_reads_publishes_and_waits_to_be_stopped(agent: Agent) -> None:
    agent.declare(start="earliest")
    agent.topic.append(0, [NewRecord(value=b"%d" % number) for number in range(5)], 0)
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.offsets == {0: 5})
    assert agent.said(TaskStarted)
    entry = await agent.store.get(keys.stream_task("s", "g", 0, 7))
    assert entry is not None
    assert entry.lease == agent.lending.lease, "what it says goes with its node"
    await agent.say(replace(GROUP, phase=Phase.PUBLISHING, sequences=({0: 5},)))
    await agent.status(lambda status: status.state is TaskState.DONE)
    assert [row["number"] for row in await agent.output.read()] == list(range(5))
    await agent.store.commit(Delete(keys.stream_group("s", "g")))
    assert not worker.done(), "the leader takes its assignment away"
    agent.worker.send(Finish())
    await worker
    await eventually(lambda: agent.said(TaskEnded))
    assert agent.said(TaskSilent) == []


async def test_a_task_that_is_dismissed_is_given_back_with_the_reason(agent: Agent) -> None:
    agent.declare(start="earliest")
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.state is TaskState.READING)
    await agent.say(replace(GROUP, dismissed={0: Dismissal(epoch=7, why="too slow")}))
    (silent,) = await eventually(lambda: agent.said(TaskSilent))
    assert (silent.task, silent.epoch, silent.why) == ("stream:s/g#0", 7, "too slow")
    agent.worker.send(Finish())
    await worker


async def test_a_task_of_a_group_whose_tasks_fail_alike_makes_room_for_the_next_one_later(agent: Agent) -> None:
    agent.declare(start="earliest", max_errors=0)
    agent.topic.append(0, [NewRecord(value=b"no number")], 0)
    await agent.say(replace(GROUP, failures=10))
    worker = await agent.start()
    await agent.status(lambda status: status.state is TaskState.FAILED)
    beats = len(agent.said(Beat))
    await eventually(lambda: len(agent.said(Beat)) > beats + 5)
    assert agent.said(TaskSilent) == []
    agent.worker.send(Finish())
    await worker


@pytest.mark.parametrize(
    ("declares", "digest", "why"),
    [
        (False, None, 'this node\'s app has no stream "s"; reload it'),
        (True, "another", 'this node\'s app declares stream "s" otherwise than its group; reload it'),
    ],
)
async def test_a_group_of_another_declaration_is_given_back(
    agent: Agent, declares: bool, digest: str | None, why: str
) -> None:
    if declares:
        agent.declare()
    await agent.say()
    worker = await agent.start(digest)
    (silent,) = await eventually(lambda: agent.said(TaskSilent))
    assert silent.why == why
    agent.worker.send(Finish())
    await worker


async def test_a_source_that_is_away_is_waited_for(agent: Agent) -> None:
    agent.declare(start="earliest")
    agent.topic.is_up = False
    await agent.say()
    worker = await agent.start()
    await eventually(lambda: len(agent.said(Beat)) >= 4)
    assert not agent.said(TaskStarted)
    assert not agent.said(TaskSilent)
    agent.topic.is_up = True
    await agent.status(lambda status: status.state is TaskState.READING)
    agent.worker.send(Finish())
    await worker


async def test_records_that_are_gone_are_passed_over_and_put_on_record(agent: Agent) -> None:
    agent.declare(start="earliest", vanished="earliest")
    agent.topic.append(0, [NewRecord(value=b"%d" % number) for number in range(9)], 0)
    agent.topic.delete(0, 4)
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.offsets == {0: 9} and status.dropped == {"vanished": 4})
    entry = await eventually(lambda: agent.store.get(keys.stream_skip("s", 0, 0)))
    skip = codec.decode(SkipRecord, entry.value)
    assert (skip.first, skip.last, skip.offset, skip.policy) == (0, 3, 4, "earliest")
    agent.worker.send(Finish())
    await worker


async def test_what_cannot_be_read_is_put_aside_in_a_file(agent: Agent) -> None:
    agent.declare(start="earliest")
    agent.topic.append(0, [NewRecord(value=each, key=b"k") for each in (b"1", b"no number", b"3")], 0)
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.dropped == {"not readable": 1})
    (line,) = (agent.folder / "s.jsonl").read_text().splitlines()
    letter = json.loads(line)
    assert (letter["stream"], letter["partition"], letter["offset"]) == ("s", 0, 1)
    assert letter["error"].startswith("ValueError: invalid literal")
    assert (letter["key"], letter["value"]) == ("aw==", "bm8gbnVtYmVy")
    agent.worker.send(Finish())
    await worker


async def test_a_function_that_takes_long_keeps_its_task_from_nothing_but_reading(agent: Agent) -> None:
    may_end, calls = threading.Event(), Calls()
    given = {"source": f"memory://{agent.space}", "sink": f"memory://{agent.space}", "name": "s"}

    @agent.app.stream(start="earliest", **given)
    def rows(batch: Batch) -> Any:
        assert may_end.wait(60)
        return [{"at": record.offset} for record in batch]

    serving = threading.Thread(target=calls.serve)
    serving.start()
    try:
        agent.topic.append(0, [NewRecord(value=b"1")] * 5, 0)
        await agent.say()
        worker = await agent.start(call=calls.make)
        await agent.status(lambda status: status.state is TaskState.READING)
        beats = len(agent.said(Beat))
        await agent.say(replace(GROUP, phase=Phase.PAUSING))
        paused = await agent.status(lambda status: status.state is TaskState.PAUSED)
        assert paused.offsets == {0: 0}
        await eventually(lambda: len(agent.said(Beat)) > beats + 2)
        may_end.set()
        await agent.say()
        await agent.status(lambda status: status.offsets == {0: 5})
    finally:
        may_end.set()
        calls.end()
    agent.worker.send(Finish())
    await worker
    await asyncio.to_thread(serving.join)


async def test_a_worker_whose_agent_is_gone_ends(agent: Agent) -> None:
    agent.declare(start="earliest")
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.state is TaskState.READING)
    assert agent.worker.channel is not None
    agent.worker.channel.close()
    with suppress(BaseExceptionGroup):
        await asyncio.wait_for(worker, 60)
    assert worker.done()


async def test_who_fills_a_gap_runs_the_function_of_the_other_stream_and_publishes_with_it(agent: Agent) -> None:
    agent.declare(start="earliest")
    agent.topic.append(0, [NewRecord(value=b"%d" % number) for number in range(9)], 0)
    await MemoryCommitter(agent.space, "s~1", agent.store, SYSTEM).begin({0: 2})
    moved = replace(GROUP, stream="s~1", starts={0: 2}, phase=Phase.PUBLISHING, sequences=({0: 6},))
    await agent.say(moved)
    worker = await agent.start(stream="s~1")

    async def rows() -> list[int]:
        return [row["number"] for row in await agent.output.read()]

    assert await eventually(rows, within=30) == [2, 3, 4, 5]
    assert await agent.output.committed() == {0: 0}, "the offsets of the other stream stay where they are"
    agent.worker.send(Finish())
    await worker


async def test_a_worker_may_use_nothing_but_its_own_stream(agent: Agent) -> None:
    agent.declare(start="earliest")
    await agent.say()
    worker = await agent.start()
    await agent.status(lambda status: status.state is TaskState.READING)
    agent.worker.send(Finish())
    await worker
    asking = LentStore(lambda frame: agent.lending.said(agent.worker, AskStore(frame)))
    agent.worker.send = lambda message, fds=None: asking.heard(message.frame)  # type: ignore[method-assign]
    assert await asking.get(keys.stream_group("s", "g")) is not None
    for key in (keys.stream_group("other", "g"), keys.LEADER, "/streams/s"):
        with pytest.raises(Denied):
            await asking.get(key)


def test_what_streams_need_is_imported_once_and_what_is_missing_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, asked = App("shop"), []

    def imported(name: str) -> object:
        asked.append(name)
        if name == "rota.sources.kafka":
            raise ImportError("its library is broken")
        return object()

    monkeypatch.setattr(adapters, "import_module", imported)
    for number, source in enumerate(("kafka://h/t", "log:///a")):
        app.stream(name=f"s{number}", source=source, sink="parquet:///out")(lambda batch: [])
    preload(app)
    assert asked == ["rota.sources.kafka", "rota.sources.log.source", "rota.outputs.parquet"]
