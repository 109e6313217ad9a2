"""Appending to one partition: one process at a time, which holds the partition's lock.

`append` returns when its records are where the policy wants them: `ALWAYS` on disk, `NEVER` in the kernel's hands, and
with a duration at most that much later on disk (the owner must call `sync_if_due`). A process that is killed
loses nothing under any of them; a machine that loses power loses what was not on disk.

A half-written end of the last segment, left by an earlier process, is cut off when a writer begins, and `torn` says how
many bytes that were: their append never returned. A full disk is Unavailable, and none of the records was kept. A disk
that fails to sync is Unknown, and the writer accepts nothing more: its successor will find what is there.
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from rota.kit.files import fsync_folder
from rota.kit.time.clock import Clock
from rota.kit.time.epoch import milliseconds
from rota.model.errors import Conflict, Invalid, Unavailable, Unknown
from rota.sources.log import batches, index, layout, retention
from rota.sources.log.index import Hint
from rota.sources.log.layout import Meta, PartitionFolder
from rota.sources.log.segment import LogSegment
from rota.sources.port import NewRecord

ALWAYS: Final = "always"
NEVER: Final = "never"
Fsync: TypeAlias = Literal["always", "never"] | timedelta

PARTS_OF_AGE = 10
"""With an age to be kept, a segment is closed after this part of it, so that not much more than that is kept."""


class PartitionWriter:
    """The writer of one partition; it holds the partition's lock."""

    def __init__(self, partition: PartitionFolder, meta: Meta, fsync: Fsync, clock: Clock, shown: str) -> None:
        self.torn = 0
        """Bytes that were cut off the end when it began."""
        self.end = 0
        """The offset of the next record."""
        self._partition, self._meta = partition, meta
        self._fsync, self._clock = fsync, clock
        self._name = f"source {shown}: partition {partition.number}"
        self._file = self._hints = -1
        self._first = self._size = self._hinted = 0
        self._latest_ms = index.NEVER
        self._begun = self._synced = clock.monotonic()
        self._is_dirty = self._is_broken = False
        self._lock = self._take_lock()
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[NewRecord]) -> int:
        """Append records, all or none; the offset of the first."""
        self._check(records)
        if not records:
            return self.end
        try:
            if self._is_full():
                self._begin(self.end)
                self.retain()
            return self._append(records)
        except OSError as error:
            raise Unavailable(f"{self._name}: {error.strerror}; make room, and append again") from error

    def sync_if_due(self) -> None:
        """Have everything on disk if the policy wants that by now."""
        since = self._clock.monotonic() - self._synced
        if isinstance(self._fsync, timedelta) and self._is_dirty and since >= self._fsync.total_seconds():
            self.sync()

    def sync(self) -> None:
        """Have everything on disk."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._is_broken = True
            raise Unknown(f"{self._name}: {error.strerror}; some records may be lost, look at the end of it") from error
        self._is_dirty, self._synced = False, self._clock.monotonic()

    def retain(self) -> int:
        """Delete the oldest segments that need not be kept; how many that were."""
        keep_bytes, keep_age = self._meta.keep_bytes, self._meta.keep_age
        surplus = retention.surplus(self._kept(), self._clock.wall(), keep_bytes, keep_age)
        for segment in surplus:
            self._delete(segment.first)
        return len(surplus)

    def truncate(self, before: int) -> int:
        """Have no records below an offset; the offset at which it starts now."""
        if before > self.end:
            raise Invalid(f"{self._name}: it ends at {self.end}, so nothing before {before} can be cut; name less")
        if before == self.end and self._size:
            self._begin(self.end)  # so that all the others can go
        firsts = self._partition.segments()
        if before > max(firsts[0], self._partition.load_start()):
            self._partition.save_start(before)
        for first, then in pairwise(firsts):
            if then <= before:
                self._delete(first)
        return max(self._partition.load_start(), self._partition.segments()[0])

    def close(self) -> None:
        """Sync it to disk, and release the lock."""
        if self._file >= 0:
            with suppress(Unknown):
                if self._is_dirty and not self._is_broken:
                    self.sync()
            os.close(self._file)
            os.close(self._hints)
            self._file = self._hints = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Appending

    def _check(self, records: Sequence[NewRecord]) -> None:
        if self._is_broken:
            raise Unavailable(f"{self._name}: its disk failed; open the log again and look at the end of it")
        for number, record in enumerate(records):
            if batches.weight(record) > batches.MOST_BYTES:
                most = batches.MOST_BYTES
                raise Invalid(f"{self._name}: record {number} of {len(records)} has more than {most} bytes; send less")

    def _is_full(self) -> bool:
        age = self._meta.keep_age
        is_old = age is not None and self._clock.monotonic() - self._begun > age.total_seconds() / PARTS_OF_AGE
        return self._size >= self._meta.segment_bytes or (is_old and self._size > 0)

    def _append(self, records: Sequence[NewRecord]) -> int:
        seed = self._partition.seed(self._first)
        numbered = batches.numbered(records, self.end, milliseconds(self._clock.wall()))
        position, latest_ms, hinted = self._size, self._latest_ms, self._hinted
        encoded, hints = [], []
        for batch in batches.cut(numbered):
            if position - hinted >= index.EVERY:
                hints.append(index.encode(Hint(batch[0].offset, position, latest_ms)))
                hinted = position
            encoded.append(batches.encode(batch, seed))
            position += len(encoded[-1])
            latest_ms = max(latest_ms, *(record.time_ms for record in batch), index.NEVER)
        self._write(b"".join(encoded))
        if hints:
            with suppress(OSError):  # a hint less only makes reading slower
                os.write(self._hints, b"".join(hints))
        first, self.end = self.end, self.end + len(records)
        self._size, self._latest_ms, self._hinted = position, latest_ms, hinted
        self._is_dirty = True
        if self._fsync == ALWAYS:
            self.sync()
        else:
            self.sync_if_due()
        return first

    def _write(self, data: bytes) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, memoryview(data)[written:], self._size + written)
        except OSError:
            self._is_broken = True  # unless what was written can be taken back
            os.ftruncate(self._file, self._size)
            self._is_broken = False
            raise

    def _begin(self, first: int) -> None:
        """Begin a segment; the one before is on disk then, unless the policy is never."""
        if self._is_dirty and self._fsync != NEVER:
            self.sync()
        before = (self._file, self._hints)
        self._open(first)
        for file in before:
            if file >= 0:
                os.close(file)
        fsync_folder(self._partition.folder)

    def _open(self, first: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._partition.segment(first), flags, 0o644)
        try:
            self._hints = os.open(self._partition.index(first), flags | os.O_APPEND, 0o644)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self._first, self._size, self._hinted, self._latest_ms = first, 0, 0, index.NEVER
        self._begun = self._clock.monotonic()

    # Beginning

    def _take_lock(self) -> int:
        try:
            lock = os.open(self._partition.folder / layout.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Unavailable(f"{self._name}: {error.strerror}; make the folder usable") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Conflict(f"{self._name}: another process appends to it; one can at a time") from None
        return lock

    def _recover(self) -> None:
        """Go on behind the last sound batch, and cut off what lies behind it."""
        try:
            firsts = self._partition.segments()
            if not firsts:
                self._begin(0)
                return
            self._open(firsts[-1])
            self.end, self._size, self._latest_ms, self._hinted = self._look()
            self.torn = os.fstat(self._file).st_size - self._size
            if self.torn:
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
        except OSError as error:
            raise Unavailable(f"{self._name}: {error.strerror}; make the folder usable") from error

    def _look(self) -> tuple[int, int, int, int]:
        """The end of the last segment: in offsets, in bytes; its latest time; and where its last hint is."""
        segment = LogSegment(self._partition, self._first)
        try:
            anchor = segment.anchor(segment.hints()[::-1])
            end, size, latest_ms = anchor.offset, anchor.position, anchor.latest_ms
            for position, found in segment.scan(anchor):
                end, size, latest_ms = found.next, position, max(latest_ms, found.latest_ms)
            return end, size, latest_ms, anchor.position
        finally:
            segment.close()

    # Letting go

    def _kept(self) -> list[retention.KeptSegment]:
        firsts = self._partition.segments()
        stats = [os.stat(self._partition.segment(first)) for first in firsts]
        return [
            retention.KeptSegment(first, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
            for first, stat in zip(firsts, stats, strict=True)
        ]

    def _delete(self, first: int) -> None:
        self._partition.segment(first).unlink(missing_ok=True)
        self._partition.index(first).unlink(missing_ok=True)
