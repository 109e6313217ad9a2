"""Disks with places that cannot be read, and disks that are full."""

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EVERYTHING = range(1 << 62)


class BadSectors:
    """Makes `os.pread` fail where a file is hurt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pread = os.pread
        self._hurt: dict[int, range] = {}
        monkeypatch.setattr(os, "pread", self.pread)

    def hurt(self, path: Path, places: range = EVERYTHING) -> None:
        """These bytes of a file cannot be read from now on."""
        self._hurt[path.stat().st_ino] = places

    def heal(self) -> None:
        """Everything can be read again."""
        self._hurt.clear()

    def pread(self, file: int, size: int, offset: int) -> bytes:
        """As `os.pread`, where nothing is hurt."""
        bad = self._hurt.get(os.fstat(file).st_ino, range(0))
        if max(offset, bad.start) < min(offset + size, bad.stop):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._pread(file, size, offset)


@contextmanager
def small_files() -> Iterator[int]:
    """Inside, no file grows beyond so many bytes: the kernel writes what fits, and then refuses, as a full disk does.

    For a part of a test, never the whole: a report of tests that goes to a file is a file, too.
    """
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield 1000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
