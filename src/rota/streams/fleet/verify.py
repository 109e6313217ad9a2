"""Proof that the output of a stream has every record once: its ranges, its files, its source and its rows are compared.

It only looks, so it may run beside the stream; what is published meanwhile is left out. The source is read again from
where the output begins, or as far back as it still has records.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import origin
from rota.outputs.open import open_output
from rota.outputs.port import Output
from rota.sources.open import open_source
from rota.sources.port import Bounds, Source
from rota.store.port import Store
from rota.streams.core.manifest import Manifest
from rota.streams.core.proof import Flaw, Span, Walk
from rota.streams.core.records import MoveRecord
from rota.streams.core.spec import StreamSpec
from rota.streams.core.where import Edge, Where

READ = 5000
"""Records that are read at a time."""

Tell = Callable[[int, int, int], None]
"""Called with progress: the partition, the offset, and the offset where it ends."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are looked at, and how."""

    start: Where | None = None
    end: Where | None = None
    """The start of each partition; None: all that is published."""

    partitions: frozenset[int] = frozenset()
    """The partitions; empty: all."""

    by: tuple[str, str] | None = None
    """The fields of a row that have its record's partition and offset, if rows are looked at one by one."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at of one partition."""

    partition: int
    start: int
    end: int
    records: int
    """That the source has there."""

    unread: int
    """Offsets that the source has deleted, so that only the ranges can be checked."""

    ranges: int
    flaws: tuple[str, ...] = ()


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at of a stream, and what is wrong."""

    stream: str
    partitions: tuple[Checked, ...]
    publishes: int
    rows: int
    """Rows of all publishes together."""

    flaws: tuple[str, ...] = ()
    """Everything that is wrong."""


async def verify(store: Store, spec: StreamSpec, extent: Extent, tell: Tell = lambda *_: None) -> Verified:
    """Compare a stream's output with its source; rows of its backfills are included."""
    if spec.name != origin(spec.name):
        raise Invalid(f'stream "{spec.name}" fills a gap of "{origin(spec.name)}"; verify that one, which has both')
    async with open_output(spec.sink, spec.name, store) as output, open_source(spec.source) as source:
        committed = await output.committed()
        listed, moves = await output.manifests(), await _moves(store, spec.name)
        if listed is None and extent.by is None:
            raise Invalid(
                f"output {spec.sink} keeps no list of ranges; say which fields of a row have partition and offset"
            )
        manifests = listed or []
        if unknown := sorted(extent.partitions - committed.keys()):
            raise NotFound(f'stream "{spec.name}" has published nothing of partition {unknown[0]}; leave it out')
        wanted = sorted(extent.partitions or committed)
        bounds = await source.bounds([each for each in await source.partitions() if each in wanted])
        walks = {each: _walk(each, listed, moves, committed[each], bounds.get(each)) for each in wanted}
        spans = {each: await _span(each, walks[each], source, bounds.get(each), extent) for each in wanted}
        seen = await _rows(output, spans, extent.by) if extent.by else {}
        checked = [
            await _checked(each, walks[each], spans[each], source, bounds.get(each), seen.get(each), tell)
            for each in wanted
        ]
        files = await _files(output, manifests)
    return Verified(
        stream=spec.name,
        partitions=tuple(checked),
        publishes=len(manifests),
        rows=sum(manifest.rows for manifest in manifests),
        flaws=(*(flaw for each in checked for flaw in each.flaws), *files),
    )


async def _moves(store: Store, stream: str) -> list[MoveRecord]:
    entries = (await store.scan(keys.stream_moves(stream))).entries
    found = [codec.decode(MoveRecord, entry.value) for entry in entries]
    # Where another stream reads what was left out, the output has it in the end: nothing is left out.
    return [move for move in found if not move.backfill]


def _walk(
    partition: int,
    manifests: Sequence[Manifest] | None,
    moves: Sequence[MoveRecord],
    committed: int,
    bounds: Bounds | None,
) -> Walk:
    """How a partition came to where it is; where the output has no ranges, from the source's start without a stop."""
    if manifests is None:
        return Walk([(bounds.start if bounds else 0, committed)], [], committed)
    ranges = [each for manifest in manifests for each in manifest.ranges if each.partition == partition]
    jumps = [(each.before[partition], each.after[partition]) for each in moves if partition in each.after]
    return Walk([(each.start, each.end) for each in ranges], jumps, committed)


async def _span(partition: int, walk: Walk, source: Source, bounds: Bounds | None, extent: Extent) -> Span:
    """Which records of a partition are looked at."""

    async def offset(where: Where | None, otherwise: int) -> int:
        match where:
            case None:
                return otherwise
            case int():
                return where
            case Edge.EARLIEST:
                return bounds.start if bounds else otherwise
            case Edge.LATEST:
                return walk.committed
            case _:
                return await source.offset_at(partition, where)

    start, end = await offset(extent.start, walk.begin), await offset(extent.end, walk.committed)
    return start, max(start, min(end, walk.committed))


async def _rows(output: Output, spans: Mapping[int, Span], by: tuple[str, str]) -> dict[int, bytearray]:
    """How often each record has a row: a byte for each."""
    part, at = by
    found = {each: bytearray(end - start) for each, (start, end) in spans.items()}
    async for piece in output.rows(is_whole=False):  # files that are gone show as missing records
        for row in piece:
            partition, offset = row.get(part), row.get(at)
            if not isinstance(partition, int) or not isinstance(offset, int):
                raise Invalid(f'a row has no whole numbers in "{part}" and "{at}"; say by which fields rows are known')
            start, end = spans.get(partition, (0, 0))
            if start <= offset < end and found[partition][offset - start] < 255:
                found[partition][offset - start] += 1
    return found


async def _checked(
    partition: int,
    walk: Walk,
    span: Span,
    source: Source,
    bounds: Bounds | None,
    seen: bytearray | None,
    tell: Tell,
) -> Checked:
    """One partition."""
    start, end = span
    first = min(end, max(start, bounds.start)) if bounds else end
    last = max(first, min(end, bounds.end)) if bounds else end
    flaws = [str(flaw) for flaw in walk.flaws(partition, span)]
    if bounds is not None and end > bounds.end:
        flaws.append(f"partition {partition}: it is published up to {end}, and its source ends at {bounds.end}")
    counts = Counted(partition, walk, start, seen)
    if first < last:
        await _read(source, partition, (first, last), counts, tell)
        flaws += counts.flaws(first, last)
    return Checked(
        partition=partition,
        start=start,
        end=end,
        records=counts.records,
        unread=end - start - (last - first),
        ranges=walk.ranges,
        flaws=tuple(flaws),
    )


class Counted:
    """The records of a partition as they are read, beside the rows that came of them."""

    def __init__(self, partition: int, walk: Walk, start: int, seen: bytearray | None) -> None:
        self.records = 0
        self._partition, self._walk, self._start, self._seen = partition, walk, start, seen
        self._wrong: list[Flaw] = []

    def take(self, offset: int) -> None:
        """The source has this record."""
        self.records += 1
        if self._seen is None:
            return
        times, due = self._seen[offset - self._start], self._walk.due(offset)
        self._seen[offset - self._start] = 0
        if times == due:
            return
        before = self._wrong[-1] if self._wrong else None
        start = offset
        if before is not None and (before.end, before.times, before.due) == (offset, times, due):
            start = self._wrong.pop().start
        self._wrong.append(Flaw(partition=self._partition, start=start, end=offset + 1, times=times, due=due))

    def flaws(self, first: int, last: int) -> list[str]:
        """What is wrong with the rows of records between these."""
        found = [str(flaw) for flaw in self._wrong]
        left = self._seen[first - self._start : last - self._start] if self._seen is not None else b""
        stray = next((index for index, times in enumerate(left) if times), None)
        if stray is not None:
            found.append(f"partition {self._partition}: there are rows of record {first + stray}, which is not there")
        return found


async def _read(source: Source, partition: int, span: Span, counts: Counted, tell: Tell) -> None:
    at, end = span
    reader = await source.reader({partition: at})
    try:
        while at < end:
            for batch in await reader.read(READ):
                for record in batch.records:
                    if record.offset < end:
                        counts.take(record.offset)
                at = batch.next
            tell(partition, at, end)
    finally:
        await reader.close()


async def _files(output: Output, manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """Publishes whose files do not have the rows that they should."""
    found = []
    for manifest in manifests:
        there = await output.counted(manifest)
        if there is not None and there != manifest.rows:
            found.append(f"publish {manifest.id}: {there} of its {manifest.rows} rows are there")
    total, published = await output.total(), sum(manifest.rows for manifest in manifests)
    if total is not None and total < published:
        found.append(f"the output has {total} rows, and {published} were published")
    return tuple(found)
