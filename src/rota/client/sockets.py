"""Sockets to a service."""

import contextlib
import fcntl
import os
import socket
import sys
import termios
import time

from rota.client.exchange import Peer

READ = 65_536

LINGER = 1.0
"""Seconds that closing a connection waits for the other machine to acknowledge what was written."""

UNANSWERED_MS = 10_000
"""After so long without a sign of the other machine, a connection with bytes on their way is given up."""


def connect(peer: Peer, within: float) -> socket.socket:
    """A socket to a service; OSError if there is none within so many seconds."""
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
    """Send small frames at once, and do not trust a machine that fell silent: a call's time-out does not end its
    connection, so something else must.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)


QUIET = 0.1
"""Seconds without an answer after which a service is taken to be reading and not answering."""


def close_gently(sock: socket.socket) -> None:
    """Close a connection, and lose nothing that was written to it.

    Closing with answers unread resets the connection, and what the other machine has not acknowledged is discarded. So
    say first that nothing more comes, and read what comes until all is acknowledged and nothing has come for `QUIET`,
    `LINGER` at most: a service whose answers are not read does not read either.
    """
    ends = time.monotonic() + LINGER
    last = time.monotonic()
    with contextlib.suppress(OSError), sock:
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(0)
        while time.monotonic() < ends:
            try:
                if not sock.recv(READ):
                    return
                last = time.monotonic()
            except BlockingIOError:
                # What is acknowledged may still lie unread on the other machine, whose service is about to answer.
                if not unacknowledged(sock) and time.monotonic() - last > QUIET:
                    return
                time.sleep(0.001)


def unacknowledged(sock: socket.socket) -> int:
    """Bytes that the other machine has not acknowledged; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    waiting = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(waiting, sys.byteorder)


def reason(error: Exception) -> str:
    """What went wrong, in the system's words rather than asyncio's."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
