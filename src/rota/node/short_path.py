"""Short names for sockets: the names of unix sockets may be about a hundred bytes long, paths are longer at times."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

LONGEST = 100


@contextlib.contextmanager
def short(path: Path) -> Iterator[Path]:
    """The path of a socket, short enough to bind or to connect to; one that is too long goes through a link."""
    absolute = path.absolute()
    if len(os.fsencode(absolute)) <= LONGEST:
        yield absolute
        return
    with tempfile.TemporaryDirectory(prefix="rota-") as base:
        link = Path(base) / hashlib.blake2b(os.fsencode(absolute.parent), digest_size=4).hexdigest()
        link.symlink_to(absolute.parent)
        yield link / absolute.name
