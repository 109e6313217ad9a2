"""The service manager: what systemd is told of a node, if it has started it.

systemd hands down a socket, `NOTIFY_SOCKET`, and if it watches, how often it wants a sign of life, `WATCHDOG_USEC`. It
is told when the node is ready, what it does, that it stops, and again and again that it is well. Being well means that
its loops get on, not only that the process is there; so a node that hangs is killed and started again. A store that is
away is no reason: the node goes on asking for it.

Nobody waits for an answer, and a manager that does not listen changes nothing. Both variables are taken out of the
environment: they are not meant for the processes that the node starts.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, MutableMapping

import msgspec

LOOK = 0.5
"""Seconds between looks at how the node is."""


class Condition(msgspec.Struct, frozen=True):
    """How a node is at this moment."""

    is_ready: bool
    """Is it in the fleet? Workers that keep falling do not count: they would have the whole node killed."""

    is_well: bool
    """Do its loops get on?"""

    words: str
    """The same for people, in one line."""


class Manager:
    """Who has started this process."""

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        """`address`: where it listens; None: nobody does. `watchdog`: seconds within which it wants a sign of life."""
        self._address, self.watchdog = address, watchdog

    @property
    def listens(self) -> bool:
        """Is there anybody to be told?"""
        return self._address is not None

    def tell(self, **fields: object) -> None:
        """Say something; nothing happens if nobody listens."""
        if self._address is None:
            return
        text = "".join(f"{name}={value}\n" for name, value in fields.items())
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(text.encode(), name)


def from_environ(environ: MutableMapping[str, str], pid: int) -> Manager:
    """The manager that the environment names, which it does not any more after this."""
    address, wait = environ.pop("NOTIFY_SOCKET", None), environ.pop("WATCHDOG_USEC", "")
    is_watched = environ.pop("WATCHDOG_PID", str(pid)) == str(pid) and wait.isascii() and wait.isdigit()
    return Manager(address, int(wait) / 1e6 if is_watched and int(wait) else None)


async def keep_told(manager: Manager, look: Callable[[], Condition]) -> None:
    """Tell how the node is: that it is ready, once; what it does, when that changes; that it lives, often enough."""
    pause = min(LOOK, manager.watchdog / 3) if manager.watchdog else LOOK
    was_ready, said = False, ""
    while True:
        seen = look()
        if seen.is_ready and not was_ready:
            manager.tell(READY=1)
            was_ready = True
        if seen.words != said:
            manager.tell(STATUS=seen.words)
            said = seen.words
        if manager.watchdog and seen.is_well:
            manager.tell(WATCHDOG=1)
        await asyncio.sleep(pause)
