"""Files: what the standard library leaves to each caller."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE = 0o077
"""The umask with which new files belong to their user alone."""


def fsync_folder(folder: Path) -> None:
    """Sync a folder's list of files to disk: without that a new file is lost in a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and sync their entries to disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync_folder(folder.parent)


def write_synced(file: Path, content: bytes) -> None:
    """Write a file whole and have its content on disk; its folder is the caller's to sync."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def write_secret(file: Path, text: str) -> None:
    """Write a line that only its owner may read, from the first moment on; the file appears whole or not at all.

    If several processes write the same file at once, the line of the last one stays.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as out:
            out.write(f"{text}\n")
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def make_private(file: Path) -> None:
    """Make an empty file that its owner alone may read; nothing happens if it is there.

    The file is not opened where that can be avoided: closing a descriptor of a SQLite file would drop the locks that
    this process has on it.
    """
    try:
        os.mknod(file, stat.S_IFREG | 0o600)
    except FileExistsError:
        return
    except (AttributeError, PermissionError):  # not Linux
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return


def private(path: str, flags: int) -> int:
    """An `opener` for files that their owner alone may read, whatever the umask is."""
    return os.open(path, flags, 0o600)


@contextmanager
def privately() -> Iterator[None]:
    """Files and sockets that this process makes inside belong to its user alone."""
    before = os.umask(PRIVATE)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int | None:
    """The rights that a file or folder has; None if it is not there."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
