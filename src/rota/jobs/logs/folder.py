"""Run logs in a folder: one file for each attempt.

A folder that all nodes share (`folder:///srv/rota`, on a network file system) makes logs outlive their nodes. Logs in a
node's own folder last as long as its disk. A file that is still written to is called `2.part`, a whole one `2.log`;
runs are spread over 256 folders, so that none gets too many entries.

A log begins with its chunk at 0: an older log of that run and attempt is deleted. A run that was deleted at another
node and made anew has the same id.

The disk is never touched by the event loop's thread.
"""

import asyncio
import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from io import SEEK_END
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from rota.jobs.logs import rules
from rota.jobs.logs.port import CHUNK, LogChunk
from rota.kit.files import private
from rota.model.errors import Unavailable

T = TypeVar("T")

LONG = "="
"""The prefix of a run's folder if the run's name is too long for one; a file in it has the name."""

NAME = "name"


class FolderLogs:
    """Logs in a folder."""

    def __init__(self, folder: Path, *, is_shared: bool = False) -> None:
        self._folder = folder
        self.is_shared = is_shared

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        rules.check(chunks)
        await self._do(partial(self._append, chunks))

    async def read(self, run: str, attempt: int, offset: int = 0) -> bytes:
        return await self._do(partial(self._read, run, attempt, offset))

    async def is_whole(self, run: str, attempt: int) -> bool:
        return await self._do((self._place(run) / f"{attempt}.log").exists)

    async def forget(self, runs: Sequence[str]) -> None:
        for run in runs:
            await self._do(partial(shutil.rmtree, self._place(run), ignore_errors=True))

    async def older(self, age: timedelta, limit: int) -> list[str]:
        return await self._do(partial(self._older, age, limit))

    async def held(self, run: str | None = None) -> int:
        return await self._do(partial(_size, self._folder if run is None else self._place(run)))

    async def close(self) -> None:
        """There is nothing to close."""

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise Unavailable(f"logs in {self._folder}: {error.strerror}; is the disk well?") from error

    def _place(self, run: str) -> Path:
        shard = hashlib.blake2b(run.encode(), digest_size=1).hexdigest()
        name = quote(run, safe="")
        if len(name) > 200 or name in (".", ".."):
            name = LONG + hashlib.blake2b(run.encode(), digest_size=16).hexdigest()
        return self._folder / shard / name

    def _append(self, chunks: Sequence[LogChunk]) -> None:
        for chunk in chunks:
            place = self._place(chunk.run)
            part, whole = place / f"{chunk.attempt}.part", place / f"{chunk.attempt}.log"
            is_first = chunk.offset == 0
            if whole.exists() and not is_first:
                continue
            if not place.exists():
                place.mkdir(parents=True, mode=0o700, exist_ok=True)
                if place.name.startswith(LONG):
                    with open(place / NAME, "w", opener=private) as name:
                        name.write(chunk.run)
            with open(part, "r+b" if part.exists() and not is_first else "w+b", opener=private) as file:
                end = file.seek(0, SEEK_END)
                if end < chunk.offset:  # the bytes before it were given up
                    file.write(rules.filler(chunk.offset - end))
                file.seek(chunk.offset)
                file.write(chunk.data)
            if is_first:  # a log of an earlier run with that id, which was deleted on another node
                whole.unlink(missing_ok=True)
            if chunk.is_last:
                part.rename(whole)

    def _read(self, run: str, attempt: int, offset: int) -> bytes:
        for ending in ("log", "part", "log"):  # the writer may rename it meanwhile
            file = self._place(run) / f"{attempt}.{ending}"
            if file.exists():
                try:
                    with file.open("rb") as opened:
                        opened.seek(offset)
                        return opened.read(CHUNK)
                except FileNotFoundError:
                    continue
        return b""

    def _older(self, age: timedelta, limit: int) -> list[str]:
        found = []
        before = time.time() - age.total_seconds()
        for place in self._folder.glob("*/*"):
            born = min((each.stat().st_mtime for each in place.iterdir()), default=0.0)
            if born < before:
                found.append((born, (place / NAME).read_text() if place.name.startswith(LONG) else unquote(place.name)))
        return [run for _, run in sorted(found)[:limit]]


def _size(folder: Path) -> int:
    """Bytes of the logs below a folder."""
    found = (file for ending in ("log", "part") for file in folder.rglob(f"*.{ending}"))
    return sum(map(_file_size, found))


def _file_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # renamed or removed meanwhile
        return 0
