"""Listening sockets: bound by address, with an error that says what to do.

A node binds its sockets before anything else and keeps them while servers are replaced, so a client that connects
meanwhile is not refused: the kernel queues it.
"""

import errno
import socket

from rota.model.config import split_address
from rota.model.errors import Conflict, Denied, Invalid

BACKLOG = 128
"""Connections that the kernel queues until they are accepted."""


def bind(address: str, option: str = "--http") -> socket.socket:
    """A listening socket; `option` is what the user would change.

    `:7700` is loopback; 0.0.0.0 is every network. Port 0 takes a free one (see `address_of`).
    """
    host, port = split_address(address)
    family, where = _looked_up(address, host, port, option)
    # With its protocol named, or asyncio does not set TCP_NODELAY and every answer waits 40 ms for an acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Not for binding a port twice: without it, a port that was in use a moment ago stays unavailable for a minute.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _translated(error, address, option) from error
    return sock


def address_of(sock: socket.socket) -> str:
    """Where a socket listens, as it would be written."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _looked_up(address: str, host: str, port: int, option: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"address {address}: host {host} is not known here; correct {option}") from error
    family, *_, where = found[0]
    return family, (str(where[0]), port)


def _translated(error: OSError, address: str, option: str) -> Exception:
    """The error of the operating system as one of Rota's."""
    match error.errno:
        case errno.EADDRINUSE:
            return Conflict(f"address {address} is taken; stop what listens there, or choose another with {option}")
        case errno.EACCES | errno.EPERM:
            return Denied(f"address {address}: {error.strerror}; choose a port from 1024 with {option}")
        case _:
            return Invalid(f"address {address}: {error.strerror}; choose an address of this machine with {option}")
