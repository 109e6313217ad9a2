"""A sink in a file of JSON lines: `file:///path[?option=value&…]`.

    rotate=67108864     at how many bytes a new file is begun; the full one gets a number behind its name
    keep=0              how many full files stay; 0: all
    window=4096         how many messages may be under way

Lines are synced to the disk before they are confirmed. A line that was torn by a power cut was never confirmed; it is
cut off when the file is opened again. A file that was deleted is made anew. One process has the file: a lock keeps
others out. Several nodes of one machine each have their own by a name with {node} in it, as in
`file:///var/lib/messages-{node}.jsonl`: that is the node whose relay writes it.
"""

import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path

from rota.kit.files import fsync_folder
from rota.model.errors import Conflict, Invalid
from rota.sinks.intake import Intake
from rota.sinks.lines import LinesSink
from rota.sinks.port import Outcomes
from rota.sinks.url import Options, SinkUrl

ROTATE = 64 * 1024 * 1024
BLOCK = 64 * 1024


async def open(url: SinkUrl, outcomes: Outcomes) -> LinesSink:
    """A sink on the file that the URL names; its folder must be there."""
    options = Options(url)
    if url.hosts or not url.path.strip("/"):
        raise options.wrong("it names no file; write file:///path/to/messages.jsonl")
    intake = Intake(str(url), options.window(), outcomes)
    rotate, keep = options.number("rotate", ROTATE, least=1), options.number("keep", 0)
    options.done()
    try:
        writer = FileWriter(Path(url.path), rotate, keep)
    except OSError as error:
        raise Invalid(f"sink {url}: cannot be opened: {error.strerror}; check the folder and its rights") from None
    return LinesSink(intake, writer, str(url))


class FileWriter:
    """The file that is being filled, and the full ones beside it."""

    def __init__(self, path: Path, rotate: int, keep: int) -> None:
        self._path, self._rotate, self._keep = path, rotate, keep
        self._is_torn = False
        """Has it more than whole, synced lines?"""
        self._lock = _lock(path)
        try:
            self._file, self._size = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def write(self, lines: Sequence[bytes]) -> None:
        if self._is_torn:
            os.ftruncate(self._file, self._size)
        if os.fstat(self._file).st_nlink == 0:  # the file was deleted, and what is written to it would be lost
            self._open_again()
        elif self._size >= self._rotate:
            self._begin_another()
        data = b"".join(lines)
        self._is_torn = True
        _write_all(self._file, data)
        os.fsync(self._file)
        self._is_torn = False
        self._size += len(data)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def _open(self) -> tuple[int, int]:
        """The file, ready to be appended to, and its size."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = _whole(file)
            os.ftruncate(file, size)
            fsync_folder(self._path.parent)
        except BaseException:
            os.close(file)
            raise
        return file, size

    def _begin_another(self) -> None:
        if self._path.exists():  # else the last try to begin another one failed halfway
            os.rename(self._path, self._numbered(max(self._full(), default=0) + 1))
        self._open_again()
        if self._keep:
            for old in sorted(self._full())[: -self._keep]:
                self._numbered(old).unlink(missing_ok=True)

    def _open_again(self) -> None:
        file, size = self._open()
        os.close(self._file)
        self._file, self._size = file, size

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number:06}")

    def _full(self) -> list[int]:
        """The numbers of the full files."""
        name = re.compile(re.escape(self._path.name) + r"\.(\d{6,})")
        found = (name.fullmatch(entry.name) for entry in self._path.parent.iterdir())
        return [int(match[1]) for match in found if match]


def _lock(path: Path) -> int:
    """Keep other processes out; the lock is another file, for this one is renamed when it is full."""
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        own = path.with_name(f"{path.stem}-{{node}}{path.suffix}")
        raise Conflict(
            f"sink file://{path}: another process has it, and a file has one writer; "
            f"if that is another node of this machine, write sink=file://{own}: each node then has its own file"
        ) from None
    return lock


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _whole(file: int) -> int:
    """The size of a file up to its last whole line."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - BLOCK)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
