"""A fleet that runs a stream, what is appended to its log, and what comes out."""

import asyncio
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow.dataset

from rota.model import codec, keys
from rota.model.errors import RotaError
from rota.model.stream import Group, StreamStatus, StreamTaskStatus, StreamWishes
from rota.node import control_socket
from rota.sources import NewRecord, log_place, open_log
from rota.store import Put, Store, open_store
from tests.kit.fleet import Fleet
from tests.kit.node import workers
from tests.kit.waiting import eventually

PARTITIONS = 4

APP = """
import rota

app = rota.App("shop")


@app.stream(source="{source}", sink="{sink}", start="earliest", {options})
def clicks(batch):
    for record in batch:
        if record.value == b"poison":
            raise ValueError("this one cannot be read")
        yield {{"part": record.partition, "at": record.offset, "number": int(record.value)}}
"""


@dataclass
class StreamTrial:
    """One stream on a fleet, and the records it was given."""

    folder: Path
    sink: str
    fleet: Fleet
    store: Store
    appended: Counter[int] = field(default_factory=Counter)

    def append(self, count: int) -> None:
        """Give each partition so many more records."""
        with open_log(f"log://{self.folder}/log?fsync=never") as log:
            for partition in range(PARTITIONS):
                first = self.appended[partition]
                log.append([NewRecord(value=b"%d" % number) for number in range(first, first + count)], partition)
                self.appended[partition] += count

    def append_poison(self, partition: int) -> None:
        """Append a record that the stream's function cannot read."""
        with open_log(f"log://{self.folder}/log?fsync=never") as log:
            log.append([NewRecord(value=b"poison")], partition)
        self.appended[partition] += 1

    async def keep_appending(self) -> None:
        """Append a few records again and again, for ever."""
        while True:
            self.append(random.randint(1, 20))
            await asyncio.sleep(0.05)

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

    async def wish(self, **wishes: object) -> None:
        """Want something of the stream, as a verb would."""
        wished = StreamWishes(**wishes)  # type: ignore[arg-type]
        await self.store.commit(Put(keys.STREAM_WISHES + "clicks", codec.encode(wished)))

    async def end(self, within: float = 90) -> None:
        """Suspend the stream, and wait until everything is published."""
        await self.wish(is_suspended=True)

        async def is_over() -> bool:
            return not await self.groups()

        await eventually(is_over, within=within)

    async def until_lag(self, most: int, within: float = 60) -> StreamStatus:
        """Wait until no more than this is missing in the output."""

        async def look() -> StreamStatus | None:
            status = await self.status()
            is_there = status and sum(status.committed.values()) + most >= sum(self.appended.values())
            return status if is_there else None

        return await eventually(look, within=within)

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

    def rows(self) -> list[tuple[int, int, int]]:
        """What is in the output."""
        if self.sink.startswith("parquet"):
            table = pyarrow.dataset.dataset(f"{self.folder}/out", partitioning="hive").to_table()
            return sorted((row["part"], row["at"], row["number"]) for row in table.to_pylist())
        with sqlite3.connect(f"{self.folder}/out.db") as database:
            return sorted(database.execute("SELECT part, at, number FROM clicks").fetchall())

    def expected(self) -> list[tuple[int, int, int]]:
        """What should be there: every record once."""
        return [(part, number, number) for part in range(PARTITIONS) for number in range(self.appended[part])]


@asynccontextmanager
async def stream_trial(
    folder: Path, *, nodes: str = "ab", to: str = "parquet", options: str = 'duration="5s"'
) -> AsyncIterator[StreamTrial]:
    """A fleet with the stream `clicks` from a log of four partitions."""
    log_place(f"log://{folder}/log").create(PARTITIONS)
    sink = f"parquet://{folder}/out" if to == "parquet" else f"sqlite:///{folder}/out.db?table=clicks"
    if to == "sqlite":
        with sqlite3.connect(f"{folder}/out.db") as database:
            database.execute("CREATE TABLE clicks (part INTEGER, at INTEGER, number INTEGER)")
    app = APP.format(source=f"log://{folder}/log?poll=50ms", sink=sink, options=options)
    url = f"sqlite:///{folder}/rota.db"
    flags = ("--lease-ttl", "3s", "--drain", "2s")
    async with open_store(url) as store:
        with Fleet(folder, url, store, nodes, *flags, app=app) as fleet:
            await fleet.ready()
            yield StreamTrial(folder, sink, fleet, store)
