"""Listening sockets of services. The agent binds and keeps them; proxies are handed copies.

So no client is refused while a proxy restarts: connections made meanwhile wait in the operating system.
"""

import errno
import os
import socket
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from rota.services.core.spec import ServiceSpec

BACKLOG = 1024
RECEIVE = 4 * 1024 * 1024
"""Bytes of datagrams that may wait to be read; the system may give less."""


Bind: TypeAlias = Callable[[str, str, int, socket.SocketKind], socket.socket]
"""Makes a socket for a service, a host and a port; CannotListen says why not."""


class CannotListen(Exception):
    """A socket could not be bound; the message says why, and what to do."""


class Wanted(msgspec.Struct, frozen=True):
    """Where a service listens."""

    hosts: tuple[str, ...]
    port: int
    tcp: bool
    udp: bool

    @classmethod
    def of(cls, service: ServiceSpec) -> "Wanted":
        """Where a service listens, by its declaration."""
        return cls(service.hosts, service.port, service.tcp, service.udp)


class Listening(msgspec.Struct, frozen=True):
    """The sockets of one service, by host."""

    wanted: Wanted
    tcp: dict[str, socket.socket] = msgspec.field(default_factory=dict)
    udp: dict[str, socket.socket] = msgspec.field(default_factory=dict)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, as people write it."""
        tcp, udp = self.tcp.values(), self.udp.values()
        return (*(f"tcp://{_shown(sock)}" for sock in tcp), *(f"udp://{_shown(sock)}" for sock in udp))

    def copies(self) -> list[int]:
        """A descriptor of each, those of TCP first, for a proxy; OSError if there are too many open."""
        found: list[int] = []
        try:
            for sock in (*self.tcp.values(), *self.udp.values()):
                found.append(os.dup(sock.fileno()))
        except OSError:
            for fd in found:
                os.close(fd)
            raise
        return found

    def kept_for(self, wanted: Wanted) -> "Listening":
        """Those of its sockets whose address `wanted` also asks for."""
        if self.wanted.port != wanted.port:
            return Listening(self.wanted)
        tcp = {host: sock for host, sock in self.tcp.items() if wanted.tcp and host in wanted.hosts}
        udp = {host: sock for host, sock in self.udp.items() if wanted.udp and host in wanted.hosts}
        return Listening(self.wanted, tcp, udp)

    def close(self, but: "Listening | None" = None) -> None:
        """Close the sockets, except those that another `Listening` has taken over."""
        kept = {*but.tcp.values(), *but.udp.values()} if but else set()
        for sock in {*self.tcp.values(), *self.udp.values()} - kept:
            sock.close()


def listen(name: str, wanted: Wanted, old: Listening | None = None, bind: Bind | None = None) -> Listening:
    """The sockets, all or none of them; those that `old` has already are taken over, others come from `bind`.

    Port 0 is the same free one for TCP and UDP on all hosts.
    """
    bind = bind or bound
    kept = old.kept_for(wanted) if old is not None else Listening(wanted)
    listening = Listening(wanted)
    there = [*kept.tcp.values(), *kept.udp.values()]
    port = wanted.port or (there[0].getsockname()[1] if there else 0)
    try:
        for host in wanted.hosts:
            if wanted.tcp:
                listening.tcp[host] = kept.tcp.get(host) or bind(name, host, port, socket.SOCK_STREAM)
                port = port or listening.tcp[host].getsockname()[1]
            if wanted.udp:
                listening.udp[host] = kept.udp.get(host) or bind(name, host, port, socket.SOCK_DGRAM)
                port = port or listening.udp[host].getsockname()[1]
    except CannotListen:
        listening.close(but=kept)
        raise
    return listening


def bound(name: str, host: str, port: int, sort: socket.SocketKind) -> socket.socket:
    """A socket that is bound, and listens if it is of TCP; CannotListen says why not."""
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
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(f"{where} is taken; stop what listens there, or choose another port=") from None
        raise CannotListen(f"{where}: {error.strerror}; choose another host= or port=") from None
    return sock


def _shown(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
