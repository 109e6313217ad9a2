"""Reading one partition of a log, from files that another process may be appending to, cutting or deleting.

`take` gives records in order and never a wrong one: a batch counts when its checksum is right and it begins with the
offset that comes next. Where that is not so and a sound batch follows, records are lost, and it is `RecordsLost` with
their offsets. Where none follows, a writer is busy, or was cut off: there is nothing yet.
"""

from collections.abc import Iterator
from contextlib import closing

from rota.sources.gaps import Missing, outside
from rota.sources.log import batches, index
from rota.sources.log.layout import PartitionFolder
from rota.sources.log.segment import CHUNK, LogSegment
from rota.sources.port import Bounds, Gap, Record

DAMAGED = "they are damaged on disk"


class RecordsLost(Exception):
    """Records that come next cannot be read; the adapter knows how to say so."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(f"{missing.gap}: {missing.why}")
        self.missing = missing


def bounds(partition: PartitionFolder) -> Bounds:
    """What a partition has."""
    while True:
        firsts = partition.segments()
        if not firsts:
            return Bounds(0, 0)
        try:
            end = _end(partition, firsts[-1])
        except FileNotFoundError:
            continue  # deleted since they were listed
        return Bounds(min(end, max(firsts[0], partition.load_start())), end)


def _end(partition: PartitionFolder, first: int) -> int:
    with closing(LogSegment(partition, first)) as segment:
        end = first
        for _, found in segment.scan(segment.anchor(segment.hints()[::-1])):
            end = found.next
        return end


def offset_at(partition: PartitionFolder, time_ms: int) -> int:
    """Where records that are as late begin; the end if there are none."""
    whole = bounds(partition)
    found = (
        record.offset
        for record in _as_late(partition, time_ms)
        if record.time_ms >= time_ms and record.offset >= whole.start
    )
    return next(found, whole.end)


def _as_late(partition: PartitionFolder, time_ms: int) -> Iterator[Record]:
    """Records among which the first that is as late is."""
    for first in partition.segments():
        try:
            segment = LogSegment(partition, first)
        except FileNotFoundError:
            continue
        with closing(segment):
            for _, found in segment.scan(segment.anchor(index.for_time(segment.hints(), time_ms))):
                yield from found.records


class PartitionReader:
    """A place in a partition."""

    def __init__(self, partition: PartitionFolder, offset: int) -> None:
        self.offset = offset
        """What comes next."""
        self._partition = partition
        self._segment: LogSegment | None = None
        self._position = 0
        """Where in the segment the next batch begins."""
        self._passed = 0
        """The offset behind the last batch before that."""
        self._ready: list[Record] = []
        """Records that were decoded and not taken."""

    def take(self, most: int) -> list[Record]:
        """The next records, at most `most`; empty if there are none yet; raises RecordsLost if they are gone."""
        if not self._ready and not self._load():
            return []
        taken, self._ready = self._ready[:most], self._ready[most:]
        self.offset = taken[-1].offset + 1
        return taken

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _load(self) -> bool:
        """Decode what comes next; False if there is nothing."""
        try:
            while self._segment is not None or self._open():
                segment = self._segment
                assert segment is not None
                if self._decode(segment):
                    return True
                if segment.is_current and not self._is_finished(segment):
                    return bool(self._ready)
                self.close()
        except FileNotFoundError:
            self.close()  # deleted while we looked; the next look sees that
        return False

    def _is_finished(self, segment: LogSegment) -> bool:
        """Has a segment given all it has? Lost if that is less than it had."""
        later = [first for first in self._partition.segments() if first > segment.first]
        if not later:
            self._check_cut(segment)
            return False
        if self._decode(segment):  # appended between our look at it and the writer's step to the next one
            return False
        if later[0] > self.offset:
            raise RecordsLost(Missing(Gap(self.offset, later[0] - 1), DAMAGED))
        return True

    def _check_cut(self, segment: LogSegment) -> None:
        if segment.size >= self._position:
            return
        self.close()  # it was cut, and may have been written again since
        if missing := outside(self.offset, bounds(self._partition)):
            raise RecordsLost(missing)

    def _open(self) -> bool:
        """Open the segment that has the next offset; False if there is none yet."""
        firsts = self._partition.segments()
        start = max(firsts[0], self._partition.load_start()) if firsts else 0
        before = [first for first in firsts if first <= self.offset]
        is_at_edge = self.offset < start or not before or before[-1] == firsts[-1]
        if is_at_edge and (missing := outside(self.offset, bounds(self._partition))):
            raise RecordsLost(missing)
        if not before:
            return False
        segment = self._segment = LogSegment(self._partition, before[-1])
        anchor = segment.anchor(index.for_offset(segment.hints(), self.offset))
        self._position, self._passed = anchor.position, anchor.offset
        return True

    def _decode(self, segment: LogSegment) -> bool:
        """Decode some of a segment; False if it has nothing more."""
        while not self._ready:
            before = self._position
            self._decode_chunk(segment)
            if self._position == before:
                self._decode_one(segment)
            if self._position == before:
                return False
        return True

    def _decode_chunk(self, segment: LogSegment) -> None:
        """Decode the batches that follow without a break, as far as they were read in one go."""
        data, place = segment.read(self._position, CHUNK), 0
        while (sound := batches.at(data, place, segment.seed)) and sound.first == self._passed:
            place = sound.end
            self._keep(sound)
        self._position += place

    def _decode_one(self, segment: LogSegment) -> None:
        """Decode a batch that is larger than that, or one behind damage; Lost if the damage had what comes next."""
        if self._position >= segment.size:
            return
        sound = segment.at(self._position)  # once more: the first time it may have been half written
        if sound is not None and sound.first == self._passed:
            self._position += sound.end
        elif (further := segment.after(self._position, self._passed - 1)) is not None:
            # It was written after what lies before it, so that is not half written: it is damaged.
            end, sound = further
            if sound.first > self.offset:
                raise RecordsLost(Missing(Gap(self.offset, sound.first - 1), DAMAGED))
            self._position = end
        else:
            return
        self._keep(sound)

    def _keep(self, sound: batches.Sound) -> None:
        self._passed = sound.next
        if sound.next > self.offset:
            self._ready += sound.records[max(0, self.offset - sound.first) :]
