"""One segment, for those who read it: bytes of a file, and where in them to begin."""

import os
from collections.abc import Iterator, Sequence

from rota.kit import records
from rota.sources.log import batches, index
from rota.sources.log.batches import Sound
from rota.sources.log.index import Hint
from rota.sources.log.layout import PartitionFolder

CHUNK = 2**20
"""Bytes read at a time."""


class LogSegment:
    """An open segment; it can be read even when it was deleted meanwhile."""

    def __init__(self, partition: PartitionFolder, first: int) -> None:
        self.first = first
        self.path = partition.segment(first)
        self.seed = partition.seed(first)
        self._index = partition.index(first)
        self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def size(self) -> int:
        """Its bytes now."""
        return os.fstat(self._file).st_size

    @property
    def is_current(self) -> bool:
        """Is it still what stands under its name?"""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def read(self, position: int, size: int) -> bytes:
        """The bytes there, as many as there are."""
        parts = []
        while size > 0 and (part := os.pread(self._file, size, position)):
            parts.append(part)
            position += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def hints(self) -> list[Hint]:
        """What the index says, checked only by its own checksums."""
        try:
            return index.decode(self._index.read_bytes(), self.first)
        except FileNotFoundError:
            return [index.front(self.first)]

    def anchor(self, nearest_first: Sequence[Hint]) -> Hint:
        """The first of these hints that holds; the front needs no proof."""
        for hint in nearest_first:
            if hint.position == 0:
                return hint
            found = self.at(hint.position)
            if found is not None and found.first == hint.offset:
                return hint
        return index.front(self.first)

    def at(self, position: int) -> Sound | None:
        """The batch that begins there, or None."""
        data = self.read(position, CHUNK)
        length = records.length_at(data, 0)
        if length is not None and CHUNK < length <= batches.MOST_BYTES + CHUNK:
            data = self.read(position, length)
        return batches.at(data, 0, self.seed)

    def after(self, position: int, last: int) -> tuple[int, Sound] | None:
        """The next sound batch from `position` on that comes behind the offset `last`, and where it ends."""
        data = self.read(position, self.size - position)
        found = batches.after(data, 0, last, self.seed)
        return None if found is None else (position + found.end, found)

    def scan(self, begin: Hint) -> Iterator[tuple[int, Sound]]:
        """Every sound batch from there on, and where it ends; damage is stepped over."""
        position, last = begin.position, begin.offset - 1
        data, base = b"", position
        while True:
            found = batches.at(data, position - base, self.seed)
            if found is None:
                data, base = self.read(position, CHUNK), position
                found = self.at(position)  # it may be larger than that
            if found is not None and found.first > last:
                position = base + found.end
            elif (further := self.after(position, last)) is not None:
                position, found = further
            else:
                return
            last = found.next - 1
            yield position, found
