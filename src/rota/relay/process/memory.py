"""The relay's memory: the ids of settled messages, in files that survive the death of the process.

A relay that is killed forgets its window, and a copy that comes later would go out again. So what is settled is also
written to a file, before any ack is sent, and the next process begins with it. Nothing is synced: what a process has
written is the kernel's, and stays when the process dies. A machine that loses power forgets, as a relay without this
file would. It costs 20 bytes a message, for about as long as the window lasts.

Memories lie in segments that are only appended to and deleted as a whole. A record is what was settled in one turn: the
time, the marks that this segment has not named before, then an id and a mark's number for each message. What is damaged
ends its segment; those messages may repeat, which is what all of them would without it. If the disk takes nothing, the
relay goes on without, and says so once.
"""

import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rota.kit import records
from rota.kit.decoding import UNREADABLE
from rota.relay.core.dedup import ID_SIZE, SPAN, Excerpt, Mark

log = logging.getLogger(__name__)

SUFFIX = ".memory"
SEGMENT = SPAN / 2
"""Seconds after which a new segment is begun."""

RETRY = 1.0
"""Seconds without another attempt after the disk refused a write: each attempt leaves an empty segment."""

GRAIN = 2.0
"""Seconds of settling times that count as equal when they are read back."""

_TAG = 4
_ENTRY = ID_SIZE + _TAG


class _Turn(msgspec.Struct, frozen=True, array_like=True):
    """What was settled in one turn."""

    at: float
    """Seconds of the wall clock."""

    marks: list[tuple[str, str, int | None]]
    """Kind, resource and the one replica that sent it; numbered from the segment's start."""

    entries: bytes


class RelayMemory:
    """The memory of a relay on disk, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._encode = msgspec.msgpack.Encoder().encode
        self._file = -1
        self._begun = 0.0
        self._number = 0
        self._turns = 0
        self._tags: dict[Mark, bytes] = {}
        self._is_failing = False
        self._failed = 0.0

    def recall(self, wall: float) -> list[Excerpt]:
        """What earlier processes have written and a window would still remember."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            segments = self._segments()
            self._number = max((int(segment.stem) for segment in segments), default=0)
            return [excerpt for segment in segments for excerpt in _recalled(segment.read_bytes(), wall)]
        except OSError as error:
            self._fails(error)
            return []

    def keep(self, settled: Iterable[tuple[bytes, Mark]], wall: float) -> None:
        """Write down what was settled."""
        if self._is_failing and 0 <= wall - self._failed < RETRY:
            return
        try:
            if self._file < 0 or not 0 <= wall - self._begun < SEGMENT:  # the clock may have been set back
                self._begin(wall)
            data = self._turn(settled, wall)
            if os.write(self._file, data) < len(data):
                raise OSError(0, "it took only a part of what was written")
            self._is_failing = False
        except OSError as error:
            self._failed = wall
            self._fails(error)

    def forget(self, wall: float, reach: float) -> None:
        """Delete what is older than `reach` seconds, and than the window's span: the process may die once more."""
        try:
            for segment in self._segments():
                if int(segment.stem) < self._number and wall - segment.stat().st_mtime > max(SPAN, reach):
                    segment.unlink()
        except OSError as error:
            self._fails(error)

    def close(self) -> None:
        """Write nothing more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _segments(self) -> list[Path]:
        return sorted(path for path in self._folder.glob(f"*{SUFFIX}") if path.stem.isdigit())

    def _begin(self, wall: float) -> None:
        self.close()
        self._number += 1
        path = self._folder / f"{self._number:020}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._begun, self._turns, self._tags = wall, 0, {}

    def _turn(self, settled: Iterable[tuple[bytes, Mark]], wall: float) -> bytes:
        tags, marks = self._tags, []
        parts: list[bytes] = []
        for message_id, mark in settled:
            tag = tags.get(mark)
            if tag is None:
                tag = tags[mark] = len(tags).to_bytes(_TAG, "big")
                marks.append((mark.tally.kind, mark.tally.resource, mark.slot))
            parts += (message_id, tag)
        self._turns += 1
        return records.encode(self._turns, self._encode(_Turn(wall, marks, b"".join(parts))))

    def _fails(self, error: OSError) -> None:
        """Continue without memory; a later turn tries a new segment."""
        self.close()
        if not self._is_failing:
            self._is_failing = True
            log.warning(
                "relay cannot write its memory; copies may repeat if it dies",
                extra={"folder": str(self._folder), "why": error.strerror},
            )


def _recalled(data: bytes, wall: float) -> list[Excerpt]:
    """What one segment remembers, oldest first, as far as it is sound and not too old."""
    decode = msgspec.msgpack.Decoder(_Turn).decode
    marks: list[tuple[str, str, int | None]] = []
    gathered: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
    record = records.at(data, 0)
    while record is not None:
        try:
            turn = decode(record.content)
        except UNREADABLE:
            break  # written by another version of Rota
        marks += turn.marks
        age = max(0.0, wall - turn.at)  # the clock may have been set back
        if age <= SPAN:
            _gather(turn.entries, int(age / GRAIN), gathered)
        record = records.at(data, record.end)
    return [_excerpt(marks[number], grain, ids) for (grain, number), ids in sorted(gathered.items(), reverse=True)]


def _gather(entries: bytes, grain: int, gathered: defaultdict[tuple[int, int], list[bytes]]) -> None:
    for start in range(0, len(entries), _ENTRY):
        middle = start + ID_SIZE
        number = int.from_bytes(entries[middle : start + _ENTRY], "big")
        gathered[grain, number].append(entries[start:middle])


def _excerpt(mark: tuple[str, str, int | None], grain: int, ids: Sequence[bytes]) -> Excerpt:
    kind, resource, slot = mark
    return Excerpt(kind=kind, resource=resource, age=grain * GRAIN, slot=slot, ids=b"".join(ids))
