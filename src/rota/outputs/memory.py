"""`memory://name`: rows in this process, for tests and the simulator. The offsets are in the store."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar, cast

from rota.kit.time.clock import SYSTEM, Clock
from rota.outputs.catalogue import PublishedCatalogue, new_draft
from rota.outputs.port import Committer, Draft, Output, Rows, Swept
from rota.outputs.url import CommitterUrl
from rota.outputs.verdict import Moves, PublishVerdict
from rota.store.port import Store
from rota.streams.core.manifest import Manifest, Offsets, Range
from rota.streams.core.records import MoveRecord


async def open(url: CommitterUrl, stream: str, store: Store, clock: Clock) -> Committer:
    """The output with that name; all of this process share it."""
    return MemoryCommitter(url.hosts[0] if url.hosts else stream, stream, store, clock)


async def look(url: CommitterUrl, stream: str, store: Store) -> Output:
    """What this process has published there."""
    return MemoryCommitter(url.hosts[0] if url.hosts else stream, stream, store, SYSTEM)


class MemoryDraft:
    """A list of rows."""

    def __init__(self, id: str, task: str, seen: Moves | None) -> None:
        self.id, self.task, self.seen = id, task, seen
        self.content: list[dict[str, Any]] = []

    @property
    def rows(self) -> int:
        return len(self.content)

    @property
    def bytes(self) -> int:
        return 100 * len(self.content)

    def append(self, rows: Rows) -> None:
        self.content += as_dicts(rows)

    def discard(self) -> None:
        """There is nothing but itself."""


class MemoryCommitter:
    """Published rows by the manifest that published them: written before it, read only if it is there."""

    written: ClassVar[dict[str, dict[str, list[dict[str, Any]]]]] = {}

    def __init__(self, name: str, stream: str, store: Store, clock: Clock) -> None:
        self._kept = self.written.setdefault(name, {})
        self._stream, self._catalogue, self._clock = stream, PublishedCatalogue(store, stream), clock
        self._seen: Moves | None = None

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        return await self._catalogue.begin(offsets)

    async def committed(self) -> dict[int, int]:
        return await self._catalogue.committed()

    async def attach(self) -> dict[int, int]:
        self._seen = await self._catalogue.moves()
        return await self._catalogue.committed()

    async def fitted(self, rows: Rows, *, is_tried: bool = False) -> list[dict[str, Any]]:
        return as_dicts(rows)

    def draft(self, task: str, starts: Offsets) -> Draft:
        return MemoryDraft(new_draft(self._clock.wall()), task, self._seen)

    async def publish(self, draft: Draft, ranges: Sequence[Range]) -> PublishVerdict:
        own = cast(MemoryDraft, draft)
        self._kept[own.id] = own.content
        manifest = Manifest(
            id=own.id,
            stream=self._stream,
            ranges=tuple(ranges),
            rows=own.rows,
            segments=(),
            at=self._clock.wall(),
            by=own.task,
        )
        return await self._catalogue.publish(manifest, own.seen)

    async def move(self, move: MoveRecord) -> MoveRecord:
        return await self._catalogue.move(move)

    async def moved(self, id: str) -> MoveRecord | None:
        return await self._catalogue.moved(id)

    async def sweep(self) -> Swept:
        """Do nothing: drafts are freed with their last reference."""
        return Swept()

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    async def read(self) -> list[dict[str, Any]]:
        """What is published."""
        return [row for manifest in await self._catalogue.manifests() for row in self._kept[manifest.id]]

    async def manifests(self) -> list[Manifest]:
        return await self._catalogue.manifests()

    async def total(self) -> None:
        """Rows are counted by publish."""

    async def counted(self, manifest: Manifest) -> int:
        return len(self._kept.get(manifest.id, ()))

    async def rows(
        self, most: int | None = None, *, is_whole: bool = True
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        yield (await self.read())[:most]


def as_dicts(rows: Rows) -> list[dict[str, Any]]:
    """Rows as dicts, whichever way they came."""
    if isinstance(rows, Sequence):
        return [dict(row) for row in rows]
    return cast(list[dict[str, Any]], rows.to_pylist())
