"""The lines that workers print, in files of the node: one for each resource, service and stream.

`append` is called by workers, each for itself; `read` and `tidy` by the agent, in threads. A file is opened for each
write, so a worker holds nothing that a fork could copy. At `LARGEST` bytes a file becomes the older one of two, in
place of the one before it. What cannot be written raises OSError, and the caller drops it: the lines are also in the
node's own output.

Workers may run as a user whom the node does not trust. So the agent follows no link in the folder, opens only plain
files that belong to the folder's owner, and reads a bounded part of them.

One line of a file: the time in UTC, the worker's process id, its part of the work (`-`: none), and the text.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec

from rota.kit.aside import in_thread
from rota.kit.time.clock import Clock
from rota.model.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

LARGEST = 512 * 1024
"""Bytes of a file; there are two of them, the newer and the older."""

LONGEST = 8 * 1024
"""Bytes of a line; the rest of a longer one is cut off."""

PART = 64 * 1024
"""Bytes that one call reads."""

MOST_FILES = 2000
MOST_BYTES = 256 * 1024 * 1024
"""Bytes that all files of a node may take; the oldest are removed first."""

KEPT = 7 * 24 * 3600.0
"""Seconds after the last write for which a file is kept."""

TIDY = 600.0
"""Seconds between two searches for files to remove."""

OLDER = ".1"
_STAMP = 27
"""Characters of a time: 2026-01-31T12:00:00.000000Z. A file is identified by the time of its first line."""

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\d{1,10}) (\S{1,200}) (.*)", re.DOTALL)
_PLACE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)@(\d{1,9})")


WORKER_LINES = "worker"
"""The subject of the lines that workers of tasks print outside of any task."""


def resource_lines(kind: str, id: str) -> str:
    """The subject of the lines that the tasks of a resource print."""
    return f"resource {kind}/{id}"


def service_lines(name: str) -> str:
    """The subject of the lines that the workers of a service print."""
    return f"service {name}"


def stream_lines(name: str) -> str:
    """The subject of the lines that the tasks of a stream print."""
    return f"stream {name}"


def subject_of(kind: str, id: str) -> str:
    """The subject that callers name by a kind and an id."""
    match kind:
        case "service":
            return service_lines(id)
        case "stream":
            return stream_lines(id)
        case "worker":
            return WORKER_LINES
        case _:
            return resource_lines(kind, id)


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a worker printed."""

    at: datetime
    """When it was printed, by the clock of the node."""

    pid: int
    """The process id of the worker."""

    part: str
    """The replica, the group of a service, or the group and slot of a stream; empty: none."""

    text: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a file, in the order in which they were printed."""

    lines: tuple[WorkerLine, ...]
    next: str
    """The place behind them; empty: there is no file yet."""


def written(at: datetime, pid: int, part: str, text: str) -> bytes:
    """A line as it is written to a file; the text has no line break."""
    head = f"{at:%Y-%m-%dT%H:%M:%S.%fZ} {pid} {part.replace(' ', '_')[:200] or '-'} ".encode(errors="replace")
    return head + text.encode(errors="backslashreplace")[:LONGEST] + b"\n"


class Printed:
    """The files of one node; `opened` is the descriptor of a folder that this process cannot reach by its path."""

    def __init__(self, folder: Path, opened: int | None = None) -> None:
        self._folder, self._opened = folder, opened

    # By workers

    def append(self, subject: str, lines: bytes) -> None:
        """Add whole lines to the file of a subject; all of them or none."""
        name = _name(subject)
        file = self._open_to_write(name)
        try:
            if os.fstat(file).st_size + len(lines) > LARGEST and self._set_aside(file, name):
                os.close(file)
                file = self._open_to_write(name)
            elif os.fstat(file).st_size > 2 * LARGEST:
                raise OSError("another worker is stuck while it sets the file aside")
            written = os.write(file, lines)
            if written < len(lines):
                os.ftruncate(file, os.fstat(file).st_size - written)
                raise OSError("only a part of a line could be written")
        finally:
            os.close(file)

    def _open_to_write(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        path = name if self._opened is not None else str(self._folder / name)
        return os.open(path, flags, 0o600, dir_fd=self._opened)

    def _set_aside(self, file: int, name: str) -> bool:
        """Rename a full file to the older one, unless another worker has; False if another worker is doing so."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        path = name if self._opened is not None else str(self._folder / name)
        if os.stat(path, dir_fd=self._opened, follow_symlinks=False).st_ino == os.fstat(file).st_ino:
            os.rename(path, f"{path}{OLDER}", src_dir_fd=self._opened, dst_dir_fd=self._opened)
        return True

    # By the agent

    def read(self, subject: str, after: str = "", tail: int | None = None) -> Part:
        """At most `PART` bytes of lines: after a place, or the last `tail`, or from the oldest kept line on."""
        place = _place(after)
        if tail is not None and tail < 1:
            raise Invalid(f"tail is {tail}; it must be 1 or more")
        try:
            with self._files(subject) as files:
                if not files:
                    return Part(lines=(), next=after)
                if place is None and tail is not None:
                    return _last(files, tail)
                return _from(files, *_found(files, place))
        except OSError as error:
            raise Unavailable(
                f"printed lines of {subject} cannot be read in {self._folder}: {error.strerror}"
            ) from None

    @contextmanager
    def _files(self, subject: str) -> Iterator[list[tuple[int, str]]]:
        """The older and the newer file, opened, with the time of the first line; without those that have none."""
        name = _name(subject)
        with ExitStack() as up:
            try:
                folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                yield []
                return
            up.callback(os.close, folder)
            owner = os.fstat(folder).st_uid
            newer, older = (_opened(up, folder, each, owner) for each in (name, f"{name}{OLDER}"))
            if newer is not None and older is not None and os.path.sameopenfile(newer, older):
                older = None  # it was renamed between the two calls
            found = [(file, stamp) for file in (older, newer) if file is not None and (stamp := _stamp(file))]
            yield found

    def tidy(self, now: float) -> None:
        """Remove files to which nothing is added any more, the oldest ones if there are too many or too much, and those
        of an earlier user of the app: its present workers cannot write to them."""
        with contextlib.suppress(FileNotFoundError):
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _tidy(folder, now)
            finally:
                os.close(folder)


async def keep_tidy(printed: Printed, clock: Clock) -> None:
    """Remove files that are due, at once and then periodically, until cancelled."""
    while True:
        try:
            await in_thread(partial(printed.tidy, clock.wall().timestamp()))
        except OSError as error:
            log.warning("printed lines are not cleared away", extra={"why": str(error)})
        await asyncio.sleep(TIDY)


def _tidy(folder: int, now: float) -> None:
    found, owner = [], os.fstat(folder).st_uid
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found.append((about.st_mtime if about.st_uid == owner else 0.0, name, about.st_size))
    files = size = 0
    for changed, name, bytes in sorted(found, reverse=True):
        files, size = files + 1, size + bytes
        if now - changed > KEPT or files > MOST_FILES or size > MOST_BYTES:
            with contextlib.suppress(OSError):  # a folder that the app has made, or a file that is gone already
                os.unlink(name, dir_fd=folder)


def _name(subject: str) -> str:
    """The file name of a subject, whose own name may be long and have any characters."""
    return f"{sha256(subject.encode(errors='backslashreplace')).hexdigest()[:40]}.log"


def _opened(up: ExitStack, folder: int, name: str, owner: int) -> int | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    up.callback(os.close, file)
    about = os.fstat(file)
    return file if stat.S_ISREG(about.st_mode) and about.st_uid == owner else None


def _stamp(file: int) -> str:
    """The time of the first line; empty if there is no such line."""
    begin = os.pread(file, _STAMP, 0).decode(errors="replace")
    return begin if _PLACE.fullmatch(f"{begin}@0") else ""


def _place(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    if (found := _PLACE.fullmatch(text)) is None:
        raise Invalid(f'after is "{text[:200]}"; it must be the next of an earlier answer, or be left out')
    return found[1], int(found[2])


def _found(files: list[tuple[int, str]], place: tuple[str, int] | None) -> tuple[int, int]:
    """The file that a place is in, and its offset; the oldest kept line if the place does not exist any more."""
    if place is not None:
        for number, (_, stamp) in enumerate(files):
            if stamp == place[0]:
                return number, place[1]
    return 0, 0


def _from(files: list[tuple[int, str]], number: int, offset: int) -> Part:
    """The lines from a place on."""
    lines: list[WorkerLine] = []
    left = PART
    while True:
        file, stamp = files[number]
        data = os.pread(file, left, offset)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == PART:  # no line is that long
            whole = data
        lines += _lines(whole)
        offset, left = offset + len(whole), left - len(data)
        is_read = os.fstat(file).st_size - offset <= len(data) - len(whole)
        if left <= 0 or not is_read or number + 1 == len(files):
            return Part(lines=tuple(lines), next=f"{stamp}@{offset}")
        number, offset = number + 1, 0


def _last(files: list[tuple[int, str]], tail: int) -> Part:
    """The last lines, of both files if need be."""
    left, pieces, place = PART, list[bytes](), ""
    for file, stamp in reversed(files):
        size = os.fstat(file).st_size
        begin = max(0, size - left)
        data = os.pread(file, size - begin, begin)
        end = data.rfind(b"\n") + 1
        place = place or f"{stamp}@{begin + end}"
        pieces.insert(0, data[data.find(b"\n") + 1 if begin else 0 : end])
        left -= len(data)
        if left <= 0 or sum(piece.count(b"\n") for piece in pieces) >= tail:
            break
    return Part(lines=tuple(_lines(b"".join(pieces)))[-tail:], next=place)


def _lines(data: bytes) -> Iterator[WorkerLine]:
    for each in data.split(b"\n"):
        if found := _LINE.fullmatch(each):
            at, pid, part, text = (group.decode(errors="replace") for group in found.groups())
            with contextlib.suppress(ValueError):  # a 31st of February that no worker has written
                yield WorkerLine(
                    at=datetime.fromisoformat(at), pid=int(pid), part="" if part == "-" else part, text=text
                )
