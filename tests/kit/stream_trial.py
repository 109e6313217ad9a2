"""Streams in virtual time: the leader's real loop and real stream tasks, on a store, a source and an output in memory.

The supervisor is played by `Hands`: it has a task for each replica of each group's resource, as long as it is there.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from rota.fleet.leading.term import Term
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import RotaError
from rota.model.ids import NodeId, Revision
from rota.outputs.memory import MemoryCommitter
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import ResourceRecord
from rota.sources.memory import Topic, topic
from rota.sources.open import open_source
from rota.sources.port import NewRecord
from rota.store import Delete, Put, Store
from rota.store.follow import follow_all
from rota.streams.core.context import Batch
from rota.streams.core.records import Group, StreamStatus, StreamTaskStatus, StreamWishes
from rota.streams.core.spec import StreamSpec, declared
from rota.streams.fleet.keep import keep_streams
from rota.streams.task.assigned import Assigned, SequenceLimits
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import Transform
from tests.kit.virtual_trials import CLOCK

Node = Callable[..., "asyncio.Task[None]"]


def rows_of(batch: Batch) -> Iterator[dict[str, Any]]:
    for record in batch:
        yield {"part": record.partition, "at": record.offset, **json.loads(record.value)}


@dataclass
class Trial:
    """A stream, or several, with the hands that run their tasks."""

    store: Store
    name: str = "clicks"
    told: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    running: dict[str, "asyncio.Task[str]"] = field(default_factory=dict)
    has_hands: bool = True

    def __post_init__(self) -> None:
        self.space = uuid4().hex
        self.topic: Topic = topic(self.space)
        self.topic.make_anew(2)
        self.output = MemoryCommitter(self.space, self.name, self.store, CLOCK)

    async def declare(self, **options: Any) -> StreamSpec:
        """Declare the stream, as a node would."""
        given = {"source": f"memory://{self.space}", "sink": f"memory://{self.space}", "start": "earliest"}
        self.spec = StreamSpec.parse(name=self.name, is_async=False, **{**given, "duration": "10s", **options})
        await self.store.commit(Put(keys.STREAMS + self.name, codec.encode(declared("shop", self.spec))))
        return self.spec

    async def lead(self, term: Term, clock: Clock = CLOCK) -> None:
        """Be the leader."""
        await keep_streams(term, clock, self.tell)

    def tell(self, kind: str, subject: str, **fields: Any) -> None:
        self.told.append((kind, subject, fields))

    def grow(self, partition: int, count: int) -> None:
        """Append records."""
        self.topic.append(partition, [NewRecord(value=b"{}")] * count, 0)

    async def wish(self, **wishes: Any) -> None:
        """Want something, as a verb would."""
        await self.store.commit(Put(keys.STREAM_WISHES + self.name, codec.encode(StreamWishes(**wishes))))

    async def wishes(self) -> StreamWishes:
        entry = await self.store.get(keys.STREAM_WISHES + self.name)
        assert entry is not None
        return codec.decode(StreamWishes, entry.value)

    async def status(self, name: str = "") -> StreamStatus:
        """What the leader says of it, or of another one."""
        entry = await self.store.get(keys.STREAM_STATUS + (name or self.name))
        assert entry is not None, "the leader has said nothing of it"
        return codec.decode(StreamStatus, entry.value)

    async def groups(self) -> list[Group]:
        entries = (await self.store.scan(f"{keys.STREAM_GROUPS}{self.name}/")).entries
        return sorted((codec.decode(Group, each.value) for each in entries), key=lambda group: group.generation)

    async def resources(self) -> list[ResourceRecord]:
        entries = (await self.store.scan(f"{keys.RESOURCES}stream:{self.name}/")).entries
        return [codec.decode(ResourceRecord, each.value) for each in entries]

    async def statuses(self) -> list[StreamTaskStatus]:
        entries = (await self.store.scan(f"{keys.STREAM_TASKS}{self.name}/")).entries
        return [codec.decode(StreamTaskStatus, each.value) for each in entries]

    async def rows(self) -> list[tuple[int, int]]:
        """What is published."""
        return sorted((row["part"], row["at"]) for row in await self.output.read())

    def appended(self) -> list[tuple[int, int]]:
        """What should be, in the end."""
        return [(number, at) for number, each in enumerate(self.topic.partitions) for at in range(each.end)]

    # The hands

    async def work(self) -> None:
        """Run what the groups' resources ask for, for ever."""
        prefix = f"{keys.RESOURCES}stream:{self.name}/"
        try:
            async with aclosing(follow_all(self.store, prefix)) as coming:
                async for _ in coming:
                    await self._reconcile()
        finally:
            for task in self.running.values():
                task.cancel()

    async def _reconcile(self) -> None:
        wanted = {f"{each.id}#{slot}": each for each in await self.resources() for slot in range(each.replicas or 1)}
        for name in self.running.keys() - wanted.keys():
            await self.store.commit(Delete(self._key(name)))
            await self.end(name)
        if self.has_hands:
            for name in wanted.keys() - self.running.keys():
                await self.place(name)

    async def place(self, name: str, run: Callable[..., Any] = rows_of) -> None:
        """Assign a task to a node, and run it there."""
        group, _, slot = name.partition("#")
        assignment = Assignment(kind=f"stream:{self.name}", resource=group, slot=int(slot))
        epoch = await self.store.commit(Put(self._key(name), codec.encode(assignment)))
        stream = next(each.spec["stream"] for each in await self.resources() if each.id == group)
        self.running[name] = asyncio.create_task(self._live(stream, group, int(slot), epoch, run), name=name)

    async def end(self, name: str) -> None:
        """Kill a task."""
        task = self.running.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def _key(self, name: str) -> str:
        return keys.assignment(NodeId(f"n{name[-1]}"), f"stream:{self.name}/{name}")

    async def _live(self, stream: str, group: str, slot: int, epoch: Revision, run: Callable[..., Any]) -> str:
        assigned = Assigned(stream=stream, group=group, slot=slot, epoch=epoch, node=NodeId(f"n{slot}"))
        output = MemoryCommitter(self.space, stream, self.store, CLOCK)
        limits = SequenceLimits(time=self.spec.checkpoint_every, batch=self.spec.batch)
        while True:
            with suppress(RotaError):
                async with open_source(self.spec.source) as source:
                    task = StreamTask(assigned, Transform(run), self.store, source, output, CLOCK, limits=limits)
                    return await task.run()
            await asyncio.sleep(1)
