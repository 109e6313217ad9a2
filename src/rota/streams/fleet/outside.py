"""What a stream has outside the fleet: its source and its output, opened and queried as its declaration says."""

from contextlib import AsyncExitStack

from rota.outputs.open import open_committer
from rota.outputs.port import Committer
from rota.sources.open import open_source
from rota.sources.port import Bounds, Replaceable, Source
from rota.store.port import Store
from rota.streams.core.spec import StreamSpec
from rota.streams.core.where import Edge, Where, where


class Outside:
    """Source and output of one stream."""

    def __init__(self, store: Store) -> None:
        self.partitions: tuple[int, ...] = ()
        self.bounds: dict[int, Bounds] = {}
        self.identity: str | None = None
        """What the source reported when it was last queried."""

        self.replaced: frozenset[int] = frozenset()
        """Partitions that were there before, and in whose place there are others."""

        self._store = store
        self._up = AsyncExitStack()
        self._digest = ""
        self._source: Source | None = None
        self._committer: Committer | None = None

    async def look(self, spec: StreamSpec) -> None:
        """Query the source's identity, partitions and offsets."""
        await self._adopt(spec)
        if self._source is None:
            self._source = await self._up.enter_async_context(open_source(spec.source))
        identity, partitions = await self._source.identity(), await self._source.partitions()
        bounds = await self._source.bounds(partitions)
        gone = {*self.partitions, *self.replaced}.difference(partitions)
        replaced = await self._source.replaced(gone) if gone and isinstance(self._source, Replaceable) else ()
        # Together: what is known of the source before goes with its identity.
        self.identity, self.partitions, self.bounds = identity, partitions, bounds
        self.replaced = frozenset(replaced)

    async def output(self, spec: StreamSpec) -> Committer:
        """The output, reached."""
        await self._adopt(spec)
        if self._committer is None:
            self._committer = await self._up.enter_async_context(open_committer(spec.sink, spec.name, self._store))
        return self._committer

    async def offset(self, partition: int, where: Where) -> int:
        """The offset of a place in a partition, as it was when the source was last looked at."""
        bounds = self.bounds[partition]
        match where:
            case Edge.EARLIEST:
                return bounds.start
            case Edge.LATEST:
                return bounds.end
            case int():
                return where
            case _:
                assert self._source is not None, "bounds are of a source that was reached"
                return await self._source.offset_at(partition, where)

    async def close(self) -> None:
        """Close both."""
        self._source = self._committer = None
        await self._up.aclose()

    async def _adopt(self, spec: StreamSpec) -> None:
        """Use this declaration, and close what was opened for another one."""
        if spec.digest != self._digest:
            await self.close()
            self._digest, self.partitions, self.bounds, self.identity = spec.digest, (), {}, None
            self.replaced = frozenset()

    async def starts(self, spec: StreamSpec, committed: dict[int, int]) -> dict[int, int]:
        """Where partitions begin that have no committed offset: as declared, and those that came later at their start.

        Records that came between would be lost otherwise: a partition is only noticed some time after it was made.
        """
        if spec.ranges:
            return {partition: start for partition, (start, _) in spec.ranges.items() if partition not in committed}
        place = Edge.EARLIEST if committed else where(spec.start)
        return {
            partition: await self.offset(partition, place) for partition in self.bounds if partition not in committed
        }

    async def ends(self, spec: StreamSpec) -> dict[int, int]:
        """Where partitions end for a stream that ends somewhere; nothing for one that does not."""
        if spec.ranges:
            return {partition: end for partition, (_, end) in spec.ranges.items()}
        if spec.upto is None:
            return {}
        return {partition: await self.offset(partition, where(spec.upto)) for partition in self.bounds}
