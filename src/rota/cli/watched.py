"""Watched files: the Python files of an app, looked at again and again for what has changed.

Looked at are the `.py` files in the app's folder and below: the app itself, and whatever it imports from there. A file
counts as changed when it has another time, size or place on the disk, so editors that put a new file in the place of
the old one are noticed too. A change is reported once it has settled: two looks in a row see the same.

Looking is polling, which works on every file system. Its cost is bounded by `MOST` files; hidden folders, virtual
environments and `__pycache__` are left out.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from rota.kit.aside import in_thread

MOST = 5_000
"""Files that are looked at; of more, the first ones by name."""

LOOK = 0.5
"""Seconds between two looks."""

LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})

Look: TypeAlias = Mapping[Path, tuple[int, int, int]]
"""What was seen: of each file its time, size and number on the disk."""


def folder_of(app: str) -> Path:
    """The folder of an app, as `rota up` is given it: a file, or a module below the working directory."""
    name = app.partition(":")[0]
    path = Path(name)
    if not (path.exists() or name.endswith(".py")):
        path = Path(*name.split("."))
    return path.resolve() if path.is_dir() else path.resolve().parent


def look(folder: Path, most: int = MOST) -> Look:
    """The Python files of a folder and those below it, as they are now."""
    seen = {}
    for path in _files(folder):
        try:
            found = path.stat()
        except OSError:
            continue  # it went away this moment
        seen[path] = found.st_mtime_ns, found.st_size, found.st_ino
        if len(seen) == most:
            break
    return seen


def changed(before: Look, now: Look) -> list[Path]:
    """The files that are new, gone or different."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


async def changes(folder: Path, pause: float = LOOK) -> AsyncGenerator[list[Path], None]:
    """Yields the files that changed since they were last yielded, each time that there are any, until closed."""
    told = last = await in_thread(lambda: look(folder))
    while True:
        await asyncio.sleep(pause)
        now = await in_thread(lambda: look(folder))
        if now == last and (found := changed(told, now)):
            told = now
            yield found
        last = now


def _files(folder: Path) -> Iterator[Path]:
    for where, below, names in os.walk(folder):
        below[:] = sorted(each for each in below if not _is_left_out(Path(where, each)))
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(where, name)


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in LEFT_OUT or (folder / "pyvenv.cfg").exists()
