"""Listening sockets of services. The agent binds and keeps them; proxies are handed copies.

So nobody is refused while a proxy is started again: who connects meanwhile waits in the system.
"""

import errno
import socket
from dataclasses import dataclass, field

from rota.workloads.summary import ServiceSummary

BACKLOG = 1024
RECEIVE = 4 * 1024 * 1024
"""Bytes of datagrams that may wait to be read; the system may give less."""


class CannotListen(Exception):
    """A socket could not be bound; the message says why, and what to do."""


@dataclass(frozen=True)
class Wanted:
    """Where a service listens."""

    hosts: tuple[str, ...]
    port: int
    tcp: bool
    udp: bool

    @classmethod
    def of(cls, service: ServiceSummary) -> "Wanted":
        """As it declares."""
        return cls(service.hosts, service.port, service.tcp, service.udp)


@dataclass
class Listening:
    """The sockets of one service."""

    wanted: Wanted
    tcp: list[socket.socket] = field(default_factory=list)
    udp: list[socket.socket] = field(default_factory=list)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, as people write it."""
        return (*(f"tcp://{_shown(sock)}" for sock in self.tcp), *(f"udp://{_shown(sock)}" for sock in self.udp))

    def close(self) -> None:
        """Let go of them."""
        for sock in (*self.tcp, *self.udp):
            sock.close()


def listen(name: str, wanted: Wanted) -> Listening:
    """The sockets, all or none of them; port 0 is the same free one for TCP and UDP on all hosts."""
    listening = Listening(wanted)
    port = wanted.port
    try:
        for host in wanted.hosts:
            if wanted.tcp:
                listening.tcp.append(_bound(name, host, port, socket.SOCK_STREAM))
                port = port or listening.tcp[0].getsockname()[1]
            if wanted.udp:
                listening.udp.append(_bound(name, host, port, socket.SOCK_DGRAM))
                port = port or listening.udp[0].getsockname()[1]
    except CannotListen:
        listening.close()
        raise
    return listening


def _bound(name: str, host: str, port: int, sort: socket.SocketKind) -> socket.socket:
    where = f'service "{name}": address {host}:{port}'
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=sort, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise CannotListen(f"{where}: host {host} is not known here; correct host=") from None
    sock = socket.socket(family, sort)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if sort == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
        sock.bind(address)
        if sort == socket.SOCK_STREAM:
            sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"{where} is taken; stop what listens there, or choose another port=") from None
        raise CannotListen(f"{where}: {error.strerror}; choose another host= or port=") from None
    return sock


def _shown(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
