"""The catalogue of a stream's output in the store: committed offsets, and a manifest for each publish.

For outputs that have no transactions of their own. The commit that writes a manifest expects the offsets as they were
read, so of two that publish the same range one wins, and the other gets the verdict.

A stream that fills a gap of another has offsets of its own, and its manifests are among the other one's: the output is
one.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from rota.model import codec, keys
from rota.model.errors import Conflict
from rota.model.ids import origin
from rota.outputs.verdict import Moves, PublishVerdict, Turn, fenced, judge, moves_of
from rota.store.port import Absent, At, Entry, Expect, Put, Store, Write
from rota.streams.core.manifest import CommittedOffset, Manifest, Offsets, Range
from rota.streams.core.records import MoveRecord

PAGE = 500
TOGETHER = 100
"""Partitions that begin in one commit."""


class PublishedCatalogue:
    """What of a stream is published."""

    def __init__(self, store: Store, stream: str) -> None:
        self._store, self._stream, self._output = store, stream, origin(stream)

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        """The committed offsets, after partitions without one were given that of `offsets`.

        If the first partitions are too many for one commit, none counts as begun until all have: if the leader dies in
        between, the remaining ones must not look like partitions added later.
        """
        while True:
            found = await self._entries()
            missing = sorted(set(offsets) - set(found))
            if not missing and (unfinished := _unfinished(found)):
                await self._finish(unfinished)
            elif not missing:
                return {partition: _offset(entry) for partition, entry in found.items()}
            else:
                together = len(missing) if len(missing) > TOGETHER and not found else 0
                await self._begin({each: offsets[each] for each in missing[:TOGETHER]}, together)

    async def _begin(self, offsets: Offsets, together: int) -> None:
        values = {
            keys.stream_offset(self._stream, partition): CommittedOffset(offset=offset, together=together)
            for partition, offset in offsets.items()
        }
        puts = [Put(key, codec.encode(value)) for key, value in values.items()]
        with suppress(Conflict):  # another leader began them
            await self._store.commit(*puts, expect=[Absent(key) for key in values])

    async def _finish(self, unfinished: Sequence[Entry]) -> None:
        """Forget how many there were to be: some of them are gone."""
        some = unfinished[:TOGETHER]
        puts = [Put(entry.key, codec.encode(CommittedOffset(offset=_offset(entry)))) for entry in some]
        with suppress(Conflict):
            await self._store.commit(*puts, expect=[At(entry.key, entry.modified) for entry in some])

    async def committed(self) -> dict[int, int]:
        """Partition → up to where it is in the output; nothing while a beginning is unfinished."""
        found = await self._entries()
        return {} if _unfinished(found) else {partition: _offset(entry) for partition, entry in found.items()}

    async def moves(self) -> Moves:
        """The moves: offsets that were set by hand."""
        entries = (await self._store.scan(keys.stream_moves(self._stream))).entries
        return moves_of(codec.decode(MoveRecord, entry.value) for entry in entries)

    async def publish(self, manifest: Manifest, seen: Moves | None = None) -> PublishVerdict:
        """Write the manifest and move the offsets, if it is its turn. A manifest that is there stays as it is.

        `seen` are the moves made before its records were read; None: they were not read.
        """
        while True:
            found = await self._entries()
            verdict = judge({partition: _offset(entry) for partition, entry in found.items()}, manifest.ranges)
            if verdict.turn is Turn.PUBLISHED and seen is not None:
                verdict = fenced(manifest.ranges, seen, await self.moves())  # one made later changes what is expected
            if verdict.turn is not Turn.PUBLISHED:
                return verdict
            expect = [At(found[each.partition].key, found[each.partition].modified) for each in manifest.ranges]
            is_new = Absent(keys.manifest(self._output, manifest.id))
            try:
                await self._store.commit(*self._writes(manifest), expect=[is_new, *expect])
            except Conflict:
                if await self.published(manifest.id):
                    return verdict  # by an earlier attempt whose answer was lost
                continue  # the offsets moved meanwhile: look again
            return verdict

    async def move(self, move: MoveRecord) -> MoveRecord:
        """Set offsets if they are where they were before, and put it on record in the same commit; what was set."""
        if (already := await self.moved(move.id)) is not None:
            return already
        found, made = await self._entries(), keys.stream_move(self._stream, move.id)
        writes: list[Write] = [Put(made, codec.encode(move))]
        expected: list[Expect] = [Absent(made)]
        for partition, offset in move.after.items():
            entry, key = found.get(partition), keys.stream_offset(self._stream, partition)
            at = _offset(entry) if entry else None
            if at != move.before.get(partition):
                raise moved(self._stream, partition, at)
            writes.append(Put(key, codec.encode(CommittedOffset(offset=offset))))
            expected.append(At(key, entry.modified) if entry else Absent(key))
        await self._store.commit(*writes, expect=expected)
        return move

    async def moved(self, id: str) -> MoveRecord | None:
        """What the move of this id has set; None if there was none."""
        entry = await self._store.get(keys.stream_move(self._stream, id))
        return codec.decode(MoveRecord, entry.value) if entry else None

    async def published(self, draft: str) -> Manifest | None:
        """What a draft became; None if it is not published."""
        entry = await self._store.get(keys.manifest(self._output, draft))
        return codec.decode(Manifest, entry.value) if entry else None

    async def manifests(self) -> list[Manifest]:
        """Every publish, the oldest first."""
        prefix, after = keys.manifests(self._output), None
        found: list[Manifest] = []
        while True:
            page = await self._store.scan(prefix, after=after, limit=PAGE)
            found += [codec.decode(Manifest, entry.value) for entry in page.entries]
            if not page.more:
                return sorted(found, key=lambda manifest: manifest.at)
            after = page.entries[-1].key

    def _writes(self, manifest: Manifest) -> Sequence[Write]:
        moved = [_put(self._stream, each, manifest.id) for each in manifest.ranges]
        return (Put(keys.manifest(self._output, manifest.id), codec.encode(manifest)), *moved)

    async def _entries(self) -> dict[int, Entry]:
        prefix = keys.stream_offsets(self._stream)
        return {int(entry.key.removeprefix(prefix)): entry for entry in (await self._store.scan(prefix)).entries}


def new_draft(at: datetime) -> str:
    """The id of a new draft; it begins with its time, so that files sort by it."""
    return f"{at:%Y%m%dT%H%M%S%f}-{secrets.token_hex(8)}"


def moved(stream: str, partition: int, at: int | None) -> Conflict:
    """Why offsets are not set."""
    where = "has no committed offset" if at is None else f"is committed up to {at}"
    return Conflict(f'stream "{stream}": partition {partition} {where}, which is not what you saw; look again')


def _put(stream: str, each: Range, manifest: str) -> Put:
    committed = CommittedOffset(offset=each.end, manifest=manifest)
    return Put(keys.stream_offset(stream, each.partition), codec.encode(committed))


def _unfinished(found: Mapping[int, Entry]) -> list[Entry]:
    """What has begun together with partitions that are not there yet."""
    records = [(entry, codec.decode(CommittedOffset, entry.value)) for entry in found.values()]
    return [entry for entry, record in records if record.together > len(found)]


def _offset(entry: Entry) -> int:
    return codec.decode(CommittedOffset, entry.value).offset
