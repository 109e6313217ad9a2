"""Files: what the standard library leaves to each caller."""

import os
from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Have it on disk which files a folder has: a new file is lost in a power failure without that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, and have it on disk that they are there."""
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
    """Write a line that nobody else may read, from the first moment on; it is there whole or not at all."""
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as out:
        out.write(f"{text}\n")
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
