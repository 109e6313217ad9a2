"""A stream whose publishes a test writes itself."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rota.kit.record import replace
from rota.model import codec, keys
from rota.outputs.open import open_committer
from rota.sources import NewRecord, log_place, open_log
from rota.store import Delete, Put, Store
from rota.streams.core.manifest import Range
from rota.streams.core.spec import StreamSpec
from rota.streams.fleet.verify import Extent, Verified, verify
from tests.kit.committers import move as moved

NOON = datetime(2026, 1, 16, 12, tzinfo=UTC)


BY = Extent(by=("part", "at"))


class Written:
    """A stream that somebody has written by hand."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        log_place(f"log://{folder}/log").create(2)
        self.spec = StreamSpec.parse(
            name="clicks", source=f"log://{folder}/log", sink=f"parquet://{folder}/out", is_async=False
        )

    def append(self, partition: int, count: int) -> None:
        with open_log(f"log://{self.folder}/log?fsync=never") as log:
            log.append([NewRecord(value=b"x", time_ms=int(NOON.timestamp() * 1000))] * count, partition)

    async def publish(
        self, partition: int, start: int, end: int, rows: Iterable[int] | None = None, by: str = "clicks"
    ) -> None:
        """Publish a range, with a row for each record unless it is said which have one."""
        async with open_committer(self.spec.sink, by, self.store) as committer:
            await committer.begin({partition: start})
            draft = committer.draft("t", {partition: start})
            if made := [{"part": partition, "at": at} for at in (range(start, end) if rows is None else rows)]:
                draft.append(made)
            await committer.publish(draft, [Range(partition=partition, start=start, end=end)])

    async def move(self, partition: int, before: int, after: int, backfill: str = "") -> None:
        made = replace(moved("a", {partition: before}, {partition: after}), backfill=backfill)
        async with open_committer(self.spec.sink, "clicks", self.store) as committer:
            await committer.move(made)
        await self.store.commit(Put(keys.stream_move("clicks", made.id), codec.encode(made)))

    async def forget_a_publish(self, number: int) -> None:
        """As if it had never been, although the offsets moved."""
        entries = (await self.store.scan(keys.manifests("clicks"))).entries
        await self.store.commit(Delete(entries[number].key))

    async def verify(self, extent: Extent = BY, **options: Any) -> Verified:
        return await verify(self.store, self.spec, extent, **options)
