"""The spool: messages on disk, in order, until their sink has confirmed them.

`append` returns when its messages are on disk for good; one trip there for the whole batch. `read` gives them back in
order, each once in a life of the spool; `confirm` says which need not be kept. A spool that is opened again goes on
from the first that was not confirmed, so a crash may repeat some, and loses none.

Messages lie in segments, files that are only appended to and are deleted as a whole. A life never appends to a segment
of an earlier one. `position` remembers up to which number everything is confirmed; it has two places that are written
in turn, so that one of them is always whole. It is in the kernel's hands when `confirm` returns, and on disk after
`sync`: a machine that loses power repeats more than a process that is killed.

What an earlier life left half written at the end is cut off, and `torn` says how many bytes; those messages were never
reported as safe. Any other damage is skipped and reported: those messages are lost, by number. Nothing is lost
silently. A sector that cannot be read is damage, too; its segment is renamed instead of deleted, for another tool may
read more of it. A segment of which nothing can be read is not damaged: the disk fails, which is Unavailable, and is
tried again.

When the disk is full, or the spool has reached `limit`, `append` raises `SpoolRefused`: nothing was kept, retry when
there is room. A batch that is larger than `limit` is never taken.
"""

import errno
import os
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from rota.kit import records
from rota.kit.decoding import UNREADABLE
from rota.kit.files import fsync_folder
from rota.model.errors import Invalid, Unavailable
from rota.sinks.port import Message

LIMIT = 2**30
"""The default limit of a spool, in bytes."""

SEGMENT = 8 * 2**20
"""Bytes after which a new segment is begun."""

SUFFIX = ".segment"
UNREADABLE_SUFFIX = ".unreadable"
"""The suffix of a finished segment in which some sectors could not be read."""

SECTOR = 4096
"""Bytes that are read at a time where more cannot be."""


class SpoolRefused(Unavailable):
    """The disk took none of these messages; wait until there is room."""


class ReadBack(NamedTuple):
    """What was read, and what cannot be."""

    messages: list[tuple[int, Message]]
    lost: list[int]


Left = Callable[[Sequence[Message]], None]


class Spool:
    """The spool in one folder, for one sink."""

    def __init__(self, folder: Path, left: Left, *, limit: int = LIMIT, segment: int = SEGMENT) -> None:
        """Open or create the folder; `left` is called with what an earlier process left, a part at a time."""
        if limit < 1 or segment < 1:
            raise Invalid(f"spool {folder}: limit {limit} and segment {segment} must be above zero")
        self.folder = folder
        self.torn = 0
        """Bytes that were cut off the end when it was opened."""

        self.lost: list[int] = []
        """Numbers of the messages that were found damaged when it was opened."""

        self._limit, self._segment_size = limit, min(segment, max(1, limit // 4))
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Message).decode
        self._last = self._last_read = 0
        self._done: set[int] = set()
        self._segments: deque[_Segment] = deque()
        self._writing: _Segment | None = None
        self._reading: _Reading | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._position = _Position(folder / "position")
            self._recover_or_close(left)
        except OSError as error:
            raise Unavailable(f"spool {folder}: {error.strerror}; make the folder usable and try again") from error

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def unconfirmed(self) -> int:
        """Messages that it keeps."""
        return self._last - self._position.confirmed - len(self._done)

    # Writing

    def append(self, messages: Sequence[Message]) -> int:
        """Keep the messages; returns the number of the first, the others follow."""
        first = self._last + 1
        encode, pack = self._encode, records.encode
        data = b"".join([pack(sequence, encode(message)) for sequence, message in enumerate(messages, first)])
        if self.size + len(data) > self._limit:
            raise SpoolRefused(
                f"spool {self.folder}: {self.size} of {self._limit} bytes are used, {len(data)} more do not fit; "
                "fix the sink, or raise the limit"
            )
        try:
            self._write(data, first)
        except OSError as error:
            raise SpoolRefused(f"spool {self.folder}: {error.strerror}; make room on the disk") from error
        self._last += len(messages)
        return first

    def _write(self, data: bytes, first: int) -> None:
        segment = self._writing
        if segment is None or segment.size >= self._segment_size:
            segment = self._begin(first)
        try:
            segment.append(data)
        except OSError:
            # How much reached the disk is unknown: continue in another segment, and never read these bytes.
            self._writing = None
            if segment.size:
                segment.cut()
            else:
                self._segments.remove(segment)
                segment.delete()
            raise

    def _begin(self, first: int) -> "_Segment":
        segment = _Segment.create(self.folder / f"{first:020d}{SUFFIX}", first)
        try:
            fsync_folder(self.folder)
        except OSError:
            segment.delete()
            raise
        self._segments.append(segment)
        self._writing = segment
        return segment

    # Reading

    def read(self, most: int) -> ReadBack:
        """The next messages, at most `most`, and the numbers of those between that are damaged."""
        found = ReadBack([], [])
        while len(found.messages) < most and self._last_read < self._last:
            segment = next(each for each in self._segments if self._end(each) > self._last_read)
            try:
                reading = self._loaded(segment)
            except OSError as error:
                if found.messages or found.lost:
                    break  # the next call says so
                raise Unavailable(f"spool {self.folder}: {error.strerror}; make the disk readable") from error
            record = records.after(reading.data, reading.offset, self._last_read)
            self._take(record, found, self._end(segment))
            if record is not None:
                reading.offset = record.end
        return found

    def _loaded(self, segment: "_Segment") -> "_Reading":
        """The content of a segment that is still to be read."""
        reading = self._reading
        if reading is None or reading.segment is not segment or reading.is_at_end:
            reading = self._reading = _Reading(segment, 0 if reading is None else reading.offset_in(segment))
        return reading

    def _take(self, record: records.FramedRecord | None, found: ReadBack, end: int) -> None:
        """Note a record, and the numbers missing before it; with None, those missing up to `end`."""
        sequence = end + 1 if record is None else record.sequence
        for missing in range(self._last_read + 1, sequence):
            self._lose(missing, found)
        self._last_read = min(sequence, end)
        if record is None or self._is_done(sequence):
            return
        try:
            found.messages.append((sequence, self._decode(record.content)))
        except UNREADABLE:
            self._lose(sequence, found)

    def _lose(self, sequence: int, found: ReadBack) -> None:
        if not self._is_done(sequence):
            found.lost.append(sequence)
            self._done.add(sequence)

    def _is_done(self, sequence: int) -> bool:
        return sequence <= self._position.confirmed or sequence in self._done

    def _end(self, segment: "_Segment") -> int:
        """The last number that belongs to a segment."""
        index = self._segments.index(segment) + 1
        return self._segments[index].first - 1 if index < len(self._segments) else self._last

    # Letting go

    def confirm(self, sequences: Iterable[int]) -> None:
        """These messages need not be kept; segments without others are deleted."""
        confirmed = self._position.confirmed
        self._done.update(sequence for sequence in sequences if sequence > confirmed)
        while confirmed + 1 in self._done:
            confirmed += 1
            self._done.remove(confirmed)
        if confirmed > self._position.confirmed:
            self._position.move(confirmed)
            self._delete_confirmed()

    def sync(self) -> None:
        """Have the position on disk."""
        self._position.sync()

    def close(self) -> None:
        """Close the files; their content stays."""
        self._position.close()
        for segment in self._segments:
            segment.close()

    def _delete_confirmed(self) -> None:
        while self._segments and self._end(self._segments[0]) <= self._position.confirmed:
            segment = self._segments.popleft()
            if segment is self._writing:
                self._writing = None
            segment.delete()

    # Opening

    def _recover_or_close(self, left: Left) -> None:
        try:
            self._recover(left)
        except BaseException:
            self.close()
            raise

    def _recover(self, left: Left) -> None:
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            self._segments.append(_Segment.open(path))
        if self._segments and self._segments[0].first - 1 > self._position.confirmed:
            self._position.move(self._segments[0].first - 1)  # segments are deleted only when all is confirmed
        self._last_read = self._last = self._position.confirmed
        for index, segment in enumerate(self._segments):
            is_last = index + 1 == len(self._segments)
            left(self._look_through(segment, None if is_last else self._segments[index + 1].first - 1))
        self._last_read = self._position.confirmed
        self.confirm(self.lost)
        self._delete_confirmed()

    def _look_through(self, segment: "_Segment", end: int | None) -> list[Message]:
        """What a segment has that is not confirmed. In the last segment, a half-written end is cut off."""
        data, offset, found = segment.read(0), 0, ReadBack([], [])
        while record := records.after(data, offset, self._last_read):
            if end is not None and record.sequence > end:
                break  # the write was refused, and its number given to another message
            self._take(record, found, record.sequence)
            offset = record.end
        if end is not None:
            self._take(None, found, end)
        elif offset < len(data):
            self.torn = len(data) - offset
            segment.size = offset
            if not segment.is_unreadable:
                segment.cut()
        self._last = max(self._last, self._last_read)
        self.lost += found.lost
        return [message for _, message in found.messages]


class _Segment:
    """A file of records."""

    def __init__(self, path: Path, first: int, file: int, size: int) -> None:
        self.path, self.first, self.size = path, first, size
        self._file = file
        self.is_unreadable = False
        """Has it sectors that could not be read?"""

    @classmethod
    def create(cls, path: Path, first: int) -> "_Segment":
        """A new one; what was refused under the same name is gone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return cls(path, first, os.open(path, flags, 0o600), 0)

    @classmethod
    def open(cls, path: Path) -> "_Segment":
        """One of an earlier life."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return cls(path, int(path.stem), file, os.fstat(file).st_size)

    def append(self, data: bytes) -> None:
        """Write behind what is there, and have it on disk."""
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, memoryview(data)[written:], self.size + written)
        os.fdatasync(self._file)
        self.size += len(data)

    def read(self, offset: int) -> bytes:
        """Everything from there on, with zeros for sectors that cannot be read; OSError if none of them can."""
        try:
            return self._read(offset, self.size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._read_sectors(offset, error)

    def _read(self, offset: int, end: int) -> bytes:
        parts = []
        while offset < end and (part := os.pread(self._file, end - offset, offset)):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def _read_sectors(self, offset: int, failed: OSError) -> bytes:
        parts, is_all_bad = [], True
        while offset < self.size:
            end = min(offset - offset % SECTOR + SECTOR, self.size)
            try:
                parts.append(self._read(offset, end))
                is_all_bad = False
            except OSError:
                parts.append(bytes(end - offset))
            offset = end
        if is_all_bad:
            raise failed
        self.is_unreadable = True
        return b"".join(parts)

    def cut(self) -> None:
        """Cut off what is behind the last that was kept."""
        with suppress(OSError):  # the numbers are used again in another segment; this lets the next process know
            os.ftruncate(self._file, self.size)
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def delete(self) -> None:
        """Delete it. A file that cannot be deleted is found by the next process, and counts as confirmed."""
        self.close()
        with suppress(OSError):
            if self.is_unreadable:
                self.path.rename(self.path.with_suffix(UNREADABLE_SUFFIX))
            else:
                self.path.unlink(missing_ok=True)


class _Reading:
    """How far one segment has been read back."""

    def __init__(self, segment: _Segment, start: int) -> None:
        self.segment, self.offset = segment, 0
        self.data = segment.read(start)
        self._start = start

    @property
    def is_at_end(self) -> bool:
        """Is there nothing left of what was loaded?"""
        return self.offset >= len(self.data)

    def offset_in(self, segment: _Segment) -> int:
        """Where to go on in a segment."""
        return self._start + self.offset if segment is self.segment else 0


class _Position:
    """The number up to which everything is confirmed. If it cannot be written, messages repeat after a restart; none
    are lost."""

    _PLACE = struct.Struct("!QI")
    _APART = 512

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            places = [self._load(place) for place in (0, 1)]
        except BaseException:
            os.close(self._file)
            raise
        self.confirmed = max(places)
        self._turn = places.index(min(places))
        self._is_synced = True

    def move(self, confirmed: int) -> None:
        """Remember this."""
        self.confirmed = confirmed
        with suppress(OSError):
            os.pwrite(self._file, self._PLACE.pack(confirmed, _sum(confirmed)), self._turn * self._APART)
            self._turn, self._is_synced = 1 - self._turn, False

    def sync(self) -> None:
        """Have it on disk."""
        if not self._is_synced:
            with suppress(OSError):
                os.fdatasync(self._file)
                self._is_synced = True

    def close(self) -> None:
        self.sync()
        os.close(self._file)

    def _load(self, place: int) -> int:
        data = os.pread(self._file, self._PLACE.size, place * self._APART)
        if len(data) < self._PLACE.size:
            return 0
        number, checksum = self._PLACE.unpack(data)
        return int(number) if checksum == _sum(number) else 0


def _sum(number: int) -> int:
    return crc32(number.to_bytes(8, "big"))
