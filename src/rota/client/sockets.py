"""Sockets to a service."""

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Iterable
from typing import Any

from rota.client.exchange import ServiceAddress

READ = 65_536

LINGER = 1.0
"""Seconds that closing a connection waits at most for the service to close its end, too."""

UNANSWERED_MS = 10_000
"""Milliseconds without a sign of the other machine after which a connection with bytes on their way is given up."""


def connect(peer: ServiceAddress, within: float) -> socket.socket:
    """A socket to a service; OSError if connecting fails or takes longer than `within` seconds."""
    if not peer.is_udp:
        sock = socket.create_connection((peer.host, peer.port), within)
        tune(sock)
        return sock
    family, kind, protocol, _, where = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_DGRAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.connect(where)
    except OSError:
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """Send small frames at once, and detect a machine that has gone silent: a call's time-out does not end its
    connection."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)


def close_gently(sockets: Iterable[socket.socket]) -> None:
    """Close connections, and lose nothing that was written to them.

    An answer that arrives at a closed connection resets it, and the service discards what it has not read yet. So close
    the sending side first, and read until the service closes its end, which it does when it has read everything. All
    connections together get `LINGER` seconds for that.
    """
    ends = time.monotonic() + LINGER
    with contextlib.ExitStack() as closing:
        waiting = [closing.enter_context(each) for each in sockets]
        selector = closing.enter_context(selectors.DefaultSelector())
        for each in waiting:
            with contextlib.suppress(OSError):  # it was reset
                each.shutdown(socket.SHUT_WR)
                each.settimeout(0)
                selector.register(each, selectors.EVENT_READ)
        while selector.get_map() and (left := ends - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if not _is_open(key.fileobj):
                    selector.unregister(key.fileobj)


def _is_open(sock: Any) -> bool:
    """Drop what can be read; returns whether the other side has not closed its end."""
    try:
        return bool(sock.recv(READ))
    except BlockingIOError:
        return True
    except OSError:
        return False


def reason(error: Exception) -> str:
    """What went wrong, in the operating system's words rather than asyncio's."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
