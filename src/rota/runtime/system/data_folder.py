"""The data folder: what a node keeps on its own disk, and the proof that it is alone.

`lock` is locked for as long as the process lives (the kernel releases it, whatever the process dies of) and names its
holder. `home` is the folder's permanent name: a node that finds its own home in the store has found an earlier life of
itself. `node` remembers the node's name.

Other users may not enter the folder. If they could, the rights are narrowed and a warning is logged.
"""

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from rota.kit.files import PRIVATE, mode_of, private
from rota.model.config import check_node_id
from rota.model.errors import Conflict, Denied, Invalid
from rota.model.ids import NodeId

log = logging.getLogger(__name__)


class DataFolder:
    """A folder that this process holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A copy of the folder is another folder, although it has a copy of the name.
        self.home = f"{self._lasting('home', secrets.token_hex(8))}-{path.stat().st_ino}"

    def node_id(self, wanted: NodeId | None) -> NodeId:
        """The node's name: `wanted`, which must equal the remembered name if there is one."""
        name = NodeId(self._lasting("node", wanted or _name_from_host()))
        if wanted is not None and name != wanted:
            raise Invalid(
                f'data folder {self.path} belongs to node "{name}"; start it as that, or give "{wanted}" its own'
            )
        check_node_id(name)
        return name

    def _lasting(self, name: str, first: str) -> str:
        """The content of a file that is written once."""
        file, draft = self.path / name, self.path / f"{name}.new"
        with _translated(self.path):
            if file.exists() and (text := file.read_text(errors="replace").strip()):
                return text
            with open(draft, "w", opener=private) as out:
                out.write(first + "\n")
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
        return first


@contextlib.contextmanager
def hold(path: Path) -> Iterator[DataFolder]:
    """The folder, created if needed, and locked until the end; Conflict names the holder of the lock."""
    with _translated(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(path, lock)
        _narrow(path)
        yield DataFolder(path)
    finally:
        os.close(lock)


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """The Rota error for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise Denied(f"data folder {path}: {error.strerror}; choose another with --data") from error


def _lock(path: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 64, 0).decode(errors="replace").strip() or "another process"
        raise Conflict(f"data folder {path} is in use by {holder}; stop it, or choose another with --data") from None
    with _translated(path):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"pid {os.getpid()}\n".encode(), 0)


def _narrow(path: Path) -> None:
    """Take the right to enter away from other users; an older Rota, or a mkdir by hand, may have given it."""
    mode = mode_of(path)
    if mode is None or not mode & PRIVATE:
        return
    fields = {"folder": str(path), "mode": f"{mode:04o}"}
    try:
        path.chmod(0o700)
    except OSError as error:
        log.warning(
            "others may enter the data folder",
            extra={**fields, "why": error.strerror, "run": f"chmod 700 {shlex.quote(str(path))}"},
        )
    else:
        log.warning("others could enter the data folder, and cannot any more", extra=fields)


def _name_from_host() -> str:
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0]).strip("-")[:40]
    return f"{host or 'node'}-{secrets.token_hex(2)}"
