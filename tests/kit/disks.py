"""A disk with places that cannot be read."""

import errno
import os
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
