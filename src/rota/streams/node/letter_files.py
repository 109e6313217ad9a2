"""Dead letters of streams whose output keeps none itself: in a file for the operator.

One line of JSON for each, with the record whole. A task that takes another's place reads again what was not published,
and so the same letter may be there twice; partition and offset say which record it is.

A letter is all that is left of its record once the offsets have moved on. So it is on disk before they do, and nothing
is deleted here: when the file is full, or cannot be written, the task fails and the stream does not go on.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from rota.kit.files import fsync_folder
from rota.model.errors import RotaError
from rota.streams.task.letters import letter_of
from rota.streams.task.transform import DeadLetter

MOST = 256 * 1024 * 1024
"""Bytes of a file."""

MIB = 1024 * 1024


class NotKept(RotaError):
    """Dead letters could not be written; nothing of them is there."""


class Letters:
    """The dead letters of one stream on one node; `opened` is the descriptor of a folder whose path is closed to us."""

    def __init__(self, folder: Path, stream: str, most: int = MOST, opened: int | None = None) -> None:
        self._file, self._stream, self._most = folder / f"{stream}.jsonl", stream, most
        self._opened = opened

    def put_aside(self, letters: Sequence[DeadLetter]) -> None:
        """Write them down; they are on disk when this returns. NotKept says why they are not."""
        lines = "".join(f"{letter_of(self._stream, letter).line}\n" for letter in letters).encode()
        try:
            if self._opened is None:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._append(lines)
        except OSError as error:
            raise self._not_kept(
                f"cannot be written: {error.strerror}; make room there, or let it be written"
            ) from error

    def _append(self, lines: bytes) -> None:
        """Append whole lines, or nothing; workers of several groups take turns."""
        name = self._file if self._opened is None else self._file.name
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=self._opened), "ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file.fileno()).st_size
            if size + len(lines) > self._most:
                raise self._not_kept(f"has its {self._most // MIB} MiB; look into it, and move it away")
            try:
                # A worker that was killed while it wrote has left half a line, which must not spoil the next one.
                _write(file.fileno(), lines if _ends_a_line(file.fileno(), size) else b"\n" + lines)
                os.fsync(file.fileno())
                if size == 0:
                    self._sync_folder()
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise

    def _sync_folder(self) -> None:
        if self._opened is None:
            fsync_folder(self._file.parent)
        else:
            os.fsync(self._opened)

    def _not_kept(self, why: str) -> NotKept:
        return NotKept(f'stream "{self._stream}": the file of its dead letters, {self._file}, {why}')


def _ends_a_line(descriptor: int, size: int) -> bool:
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
