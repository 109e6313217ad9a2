"""The service manager: what a node reports to systemd, if systemd has started it.

systemd hands down a socket, `NOTIFY_SOCKET`, and with a watchdog how often it expects a sign of life, `WATCHDOG_USEC`.
The node reports when it is ready, what it does, that it stops, and periodically that it is healthy. Healthy means that
its loops turn, not only that the process exists; so a node that hangs is killed and restarted. A store that is out of
reach does not count: the node keeps trying to reach it.

No answer is expected, and a manager that does not listen changes nothing. Both variables are taken out of the
environment: they are not meant for the processes that the node starts.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, MutableMapping

import msgspec

LOOK = 0.5
"""Seconds between two checks of the node's condition."""


class Condition(msgspec.Struct, frozen=True):
    """The condition of a node at this moment."""

    is_ready: bool
    """Is it in the fleet? Workers that keep falling do not count, because systemd would kill the whole node for them.
    """

    is_well: bool
    """Do its loops turn?"""

    words: str
    """The same in one line of text."""


class Manager:
    """The service manager that has started this process, if any."""

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        """`address`: the socket where it listens; None: there is no manager. `watchdog`: seconds between expected signs
        of life."""
        self._address, self.watchdog = address, watchdog

    @property
    def listens(self) -> bool:
        """Is there a manager that listens?"""
        return self._address is not None

    def notify(self, **fields: object) -> None:
        """Send these fields; does nothing if no manager listens."""
        if self._address is None:
            return
        text = "".join(f"{name}={value}\n" for name, value in fields.items())
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(text.encode(), name)


def from_environ(environ: MutableMapping[str, str], pid: int) -> Manager:
    """The manager that the environment names; its variables are removed from the environment."""
    address, wait = environ.pop("NOTIFY_SOCKET", None), environ.pop("WATCHDOG_USEC", "")
    is_watched = environ.pop("WATCHDOG_PID", str(pid)) == str(pid) and wait.isascii() and wait.isdigit()
    return Manager(address, int(wait) / 1e6 if is_watched and int(wait) else None)


async def keep_notified(manager: Manager, look: Callable[[], Condition]) -> None:
    """Report the node's condition: once that it is ready, what it does whenever that changes, and signs of life often
    enough."""
    pause = min(LOOK, manager.watchdog / 3) if manager.watchdog else LOOK
    was_ready, said = False, ""
    while True:
        seen = look()
        if seen.is_ready and not was_ready:
            manager.notify(READY=1)
            was_ready = True
        if seen.words != said:
            manager.notify(STATUS=seen.words)
            said = seen.words
        if manager.watchdog and seen.is_well:
            manager.notify(WATCHDOG=1)
        await asyncio.sleep(pause)
