"""Short names for sockets: the names of unix sockets may be about a hundred bytes long, paths are longer at times."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

LONGEST = 100
ROOM = 50
"""Bytes reserved for what is below the folder: a folder for links, a link in it, and the socket."""


@contextlib.contextmanager
def short(path: Path) -> Iterator[Path]:
    """The path of a socket, short enough to bind or to connect to; a longer one goes through a link."""
    absolute = path.absolute()
    if len(os.fsencode(absolute)) <= LONGEST:
        yield absolute
        return
    with tempfile.TemporaryDirectory(prefix="rota-", dir=_short_folder()) as base:
        link = Path(base) / hashlib.blake2b(os.fsencode(absolute.parent), digest_size=4).hexdigest()
        link.symlink_to(absolute.parent)
        yield link / absolute.name


def _short_folder() -> str:
    """Where links are made: the folder of temporary files, unless its own name is too long."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= LONGEST - ROOM else "/tmp"
