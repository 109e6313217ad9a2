"""Sockets to a service."""

import os
import socket

from rota.client.exchange import Peer

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


def reason(error: Exception) -> str:
    """What went wrong, in the system's words rather than asyncio's."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
