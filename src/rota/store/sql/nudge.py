"""Nudges between the processes that share one SQLite file.

SQLite cannot notify one process of another's commit. So each process that watches binds a datagram socket in the folder
`<file>.nudge`, and a process that commits sends an empty message to every socket in there. An idle watch then costs
nothing.

Nudges are hints. A full socket buffer, an unreadable folder or a missing feature loses some, and the poll of
`store.sql.log` finds what they missed. A socket whose owner died is removed by the next process that cannot reach it.

Socket addresses hold about a hundred bytes, and paths may be longer: on Linux the folder is then named through
/proc/self/fd. Elsewhere such a long path has no nudges.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from rota.kit.files import privately

log = logging.getLogger(__name__)

LONGEST_ADDRESS = 100


class Nudges:
    """This process's place in the folder, and the others'."""

    def __init__(self, database: Path) -> None:
        self._folder = Path(f"{database}.nudge")
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._socket: socket.socket | None = None
        self._directory: int | None = None
        self._heard: Callable[[], None] = lambda: None

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` when another process has committed."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._directory = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            with privately():
                self._socket.bind(self._address(self._name))
        except OSError as error:
            log.info("no nudges, polling instead", extra={"folder": str(self._folder), "why": str(error)})
            self.close()
            return
        self._heard = heard
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def notify(self) -> None:
        """Nudge every other process."""
        if self._socket is None or self._directory is None:
            return
        with contextlib.suppress(OSError):  # no descriptor left, or no folder: the commit has happened all the same
            for name in os.listdir(self._directory):
                if name != self._name:
                    self._send(self._socket, name)

    def close(self) -> None:
        """Leave the folder."""
        if self._socket is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the socket is not read any more
                asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        if self._directory is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
            os.close(self._directory)
            self._directory = None

    def _send(self, sender: socket.socket, name: str) -> None:
        try:
            sender.sendto(b"", self._address(name))
        except ConnectionRefusedError:  # its owner died
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._directory)
        except OSError:
            # Full: its owner has nudges to read already, and reads the log after them. Gone: it left just now.
            pass

    def _read(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        self._heard()

    def _address(self, name: str) -> str:
        direct = str(self._folder / name)
        if len(os.fsencode(direct)) <= LONGEST_ADDRESS:
            return direct
        return f"/proc/self/fd/{self._directory}/{name}"
