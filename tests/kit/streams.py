"""A fleet that runs a stream, what is appended to its source, and what comes out."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from rota.model import codec, keys
from rota.model.errors import RotaError
from rota.runtime import control_socket
from rota.sources import NewRecord
from rota.store import Put, Store, open_store
from rota.streams.core.records import Group, StreamStatus, StreamTaskStatus, StreamWishes
from tests.kit.fleet import Fleet
from tests.kit.node import workers
from tests.kit.sources import SourceHarness
from tests.kit.stream_places import Output, ParquetFolder, Row, TrialLog
from tests.kit.waiting import eventually

PARTITIONS = 4
PAUSE = 0.05
"""Seconds between appends."""

STREAM = """

@app.stream(source="{source}", sink="{sink}", start="earliest", {options})
def clicks(batch):
    for record in batch:
        if record.value == b"poison":
            raise ValueError("this one cannot be read")
        yield {{"part": record.partition, "at": record.offset, "number": int(record.value)}}
"""
"""What follows an app: one stream, and where it comes from and goes to."""

APP = (
    """
import rota

app = rota.App("shop")
"""
    + STREAM
)


@dataclass(frozen=True)
class Killed:
    """Whom a storm has ended with SIGKILL."""

    workers: int
    leaders: int


@dataclass
class StreamTrial:
    """One stream on a fleet, and the records it was given."""

    source: SourceHarness
    output: Output
    fleet: Fleet
    store: Store
    partitions: int = PARTITIONS
    appended: Counter[int] = field(default_factory=Counter)

    # What it is given

    def append(self, count: int) -> None:
        """Give each partition so many more records."""
        for partition in range(self.partitions):
            first = self.appended[partition]
            values = [b"%d" % number for number in range(first, first + count)]
            self.source.append(partition, [NewRecord(value=value) for value in values])
            self.appended[partition] += count

    def append_poison(self, partition: int) -> None:
        """Append a record that the stream's function cannot read."""
        self.source.append(partition, [NewRecord(value=b"poison")])
        self.appended[partition] += 1

    async def keep_appending(self, most: int = 20) -> None:
        """Append a few records again and again, for ever."""
        while True:
            # Not in a thread: who ends this must know what was appended.
            self.append(random.randint(1, most))
            await asyncio.sleep(PAUSE)

    # How it is

    async def status(self) -> StreamStatus | None:
        """How the leader says it is."""
        entry = await self.store.get(keys.STREAM_STATUS + "clicks")
        return codec.decode(StreamStatus, entry.value) if entry else None

    async def groups(self) -> list[Group]:
        """The groups there are."""
        return [codec.decode(Group, entry.value) for entry in (await self.store.scan(keys.STREAM_GROUPS)).entries]

    async def tasks(self) -> list[StreamTaskStatus]:
        """What tasks say."""
        entries = (await self.store.scan(keys.STREAM_TASKS)).entries
        return [codec.decode(StreamTaskStatus, entry.value) for entry in entries]

    async def until_lag(self, most: int, within: float = 60) -> StreamStatus:
        """Wait until no more than this is missing in the output."""

        async def look() -> StreamStatus | None:
            status = await self.status()
            is_there = status and sum(status.committed.values()) + most >= sum(self.appended.values())
            return status if is_there else None

        return await eventually(look, within=within)

    async def until_told(self, *words: str, within: float = 60) -> StreamStatus:
        """Wait until its status says one of these in its detail, or in its errors."""

        async def look() -> StreamStatus | None:
            status = await self.status()
            said = [status.detail, *(error.why for error in status.errors)] if status else []
            return status if any(word in text for word in words for text in said) else None

        return await eventually(look, within=within)

    async def rows(self) -> list[Row]:
        """What is in the output."""
        return await self.output.rows()

    def expected(self) -> list[Row]:
        """What should be there: every record once."""
        return [(part, number, number) for part in range(self.partitions) for number in range(self.appended[part])]

    # What is done to it

    async def wish(self, **wishes: object) -> None:
        """Want something of the stream, as a verb would."""
        wished = StreamWishes(**wishes)  # type: ignore[arg-type]
        await self.store.commit(Put(keys.STREAM_WISHES + "clicks", codec.encode(wished)))

    async def end(self, within: float = 90) -> None:
        """Suspend the stream, and wait until what it has read is published."""
        await self.wish(is_suspended=True)

        async def is_over() -> bool:
            return not await self.groups()

        await eventually(is_over, within=within)

    async def kill_a_worker(self) -> int:
        """End a stream's worker at random with SIGKILL; its process, or 0 if there was none."""
        pids = []
        for node in self.fleet.nodes.values():
            with suppress(RotaError, OSError):
                if node.is_running:
                    pids += workers(await control_socket.call(node.data, "status", 5), "task:stream:")
        if not pids:
            return 0
        pid = random.choice(pids)
        with suppress(ProcessLookupError, psutil.Error):
            os.kill(pid, signal.SIGKILL)
        return pid

    async def kill_the_leader(self) -> None:
        """End the node that leads with SIGKILL, and start it again."""
        node = self.fleet.nodes[await self.fleet.leader()]
        node.kill()
        node.start()

    async def storm(
        self, seconds: float, *, every: float, leaders: Sequence[float], most: int = 20, least: int = 0
    ) -> Killed:
        """Append, and kill a worker every so often, and the leader at these moments; then let it come to an end.

        It goes on until `least` workers were killed: where the machine is busy, there may be none to kill for a while.
        """
        producing = asyncio.create_task(self.keep_appending(most))
        try:
            killed = await self._kill_for(seconds, every, leaders, least)
        finally:
            producing.cancel()
            with suppress(asyncio.CancelledError):
                await producing
        await self.until_lag(0, within=90)
        await self.end()
        return killed

    async def _kill_for(self, seconds: float, every: float, leaders: Sequence[float], least: int) -> Killed:
        began, due, killed = time.monotonic(), list(leaders), 0
        while (past := time.monotonic() - began) < seconds or (killed < least and past < 10 * seconds):
            if due and past >= due[0]:
                due.pop(0)
                await self.kill_the_leader()
            killed += bool(await self.kill_a_worker())
            await asyncio.sleep(every)
        return Killed(killed, len(leaders) - len(due))


@asynccontextmanager
async def stream_trial(
    folder: Path,
    *,
    nodes: str = "ab",
    options: str = 'duration="5s"',
    source: SourceHarness | None = None,
    output: Output | None = None,
    url: str = "",
    partitions: int = PARTITIONS,
    app: str = APP,
) -> AsyncIterator[StreamTrial]:
    """A fleet with the stream `clicks`; from a log into a folder, on SQLite, if nothing else is said."""
    source, output = source or TrialLog(folder, None), output or ParquetFolder(folder)
    source.grow(partitions)
    await output.prepare()
    app = app.format(source=source.url(), sink=output.url(), options=options)
    url = url or f"sqlite:///{folder}/rota.db"
    async with open_store(url) as store:
        with Fleet(folder, url, store, nodes, "--lease-ttl", "3s", "--drain", "2s", app=app) as fleet:
            await fleet.ready()
            yield StreamTrial(source, output, fleet, store, partitions)
