"""Reading from sockets."""

import socket

SIZE = 65_536
"""Bytes that are read at a time. `recv` makes room for all of them first; for more, it would ask the system for it."""


def receive(sock: socket.socket) -> bytes:
    """What has come; nothing if the other end is gone, whatever its last words. BlockingIOError if nothing is there."""
    try:
        return sock.recv(SIZE)
    except (BlockingIOError, InterruptedError):
        raise
    except OSError:
        return b""
