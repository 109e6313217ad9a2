"""Listening sockets that the nodes of one `rota up` share.

`rota up` binds a service's fixed address once and lends the socket to each of its nodes over a channel of theirs. All
of them hold the same socket, not sockets of the same address: the system has one queue of connections, and one of
datagrams, and whichever node is free takes the next. So a node that is killed, or that stands still, loses what it has
taken and nothing that waits. (With SO_REUSEPORT each node would have a queue of its own, and lose it.)

A node sends all that it wants when that changes and when it tries again. `SocketLender` answers what it has not lent
yet, with a descriptor or the reason why not, and closes a socket when no node wants it any more. A port of 0 is
not asked for: there each node has its own.
"""

import os
import socket
from collections.abc import Callable, Collection, Iterable

from rota.runtime.pipes.channel import Channel, pair
from rota.services.node.listening import CannotListen, bound
from rota.services.node.pipe import Borrow, Lent, SharedAddress

SORTS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}

ENVIRON = "ROTA_SOCKETS"
"""The variable by which `rota up` tells a node the number of its channel's descriptor."""


class NotYet(CannotListen):
    """The socket was asked for; the answer is on its way."""


class SocketLender:
    """The side of `rota up`: binds sockets, lends them, and closes those that no node uses."""

    def __init__(self) -> None:
        self._sockets: dict[SharedAddress, socket.socket] = {}
        self._users: dict[Channel, set[SharedAddress]] = {}
        self._left: dict[str, set[SharedAddress]] = {}
        """The sockets that dead nodes had, by node name."""

    def connect(self, node: str) -> socket.socket:
        """A node's end of a new channel. What a dead node had is kept for the next channel of its name."""
        mine, theirs = pair()
        channel = Channel(mine, lambda message: self._heard(channel, node, message), lambda: self._ended(channel, node))
        self._users[channel] = set()
        return theirs

    def forget(self, node: str) -> None:
        """Drop what is kept for a node that has ended and does not come back."""
        self._left.pop(node, None)
        self._close_unused()

    def close(self) -> None:
        """Let go of everything."""
        for channel in list(self._users):
            channel.close()
        self._users.clear()
        self._left.clear()
        self._close_unused()

    @property
    def places(self) -> set[SharedAddress]:
        """The addresses that are bound."""
        return set(self._sockets)

    def _heard(self, channel: Channel, node: str, message: object) -> None:
        if not isinstance(message, Borrow) or channel not in self._users:
            return
        left = self._left.pop(node, set())
        lent = self._users[channel]
        lent &= set(message.places)
        self._close_unused(but=left & set(message.places))  # before the next is bound: it may be the one in the way
        for place in message.places:
            if place not in lent:
                self._lend(channel, lent, place, message.number)

    def _lend(self, channel: Channel, lent: set[SharedAddress], place: SharedAddress, number: int) -> None:
        try:
            if place not in self._sockets:
                self._sockets[place] = bound(place.service, place.host, place.port, SORTS[place.sort])
            copy = os.dup(self._sockets[place].fileno())
        except CannotListen as error:
            channel.send(Lent(number, place, str(error)))
        except OSError as error:
            channel.send(Lent(number, place, f'service "{place.service}": {error.strerror}'))
        else:
            lent.add(place)
            channel.send(Lent(number, place), [copy])

    def _ended(self, channel: Channel, node: str) -> None:
        had = self._users.pop(channel, set())
        self._left[node] = self._left.get(node, set()) | had
        self._close_unused()

    def _close_unused(self, but: Collection[SharedAddress] = ()) -> None:
        used = {place for places in (*self._users.values(), *self._left.values()) for place in places}
        for place in self._sockets.keys() - used - set(but):
            self._sockets.pop(place).close()


class SocketBorrower:
    """A node's side: asks for sockets, and keeps what it was lent."""

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lent: dict[SharedAddress, socket.socket] = {}
        self._refused: dict[SharedAddress, str] = {}
        self._wanted: dict[SharedAddress, int] = {}
        """The wanted sockets, and the number of the first message that asked for each: an older answer is void."""

        self._number = 0
        self._channel = Channel(socket.socket(fileno=descriptor), self._heard, wake, takes_fds=True)

    def bind(self, service: str, host: str, port: int, sort: socket.SocketKind) -> socket.socket:
        """A descriptor of the node's own for the shared socket; raises CannotListen with the reason, or NotYet while no
        answer has come."""
        place = SharedAddress(service, host, port, next(name for name, each in SORTS.items() if each == sort))
        if place in self._lent:
            return _copy(self._lent[place])
        if why := self._refused.pop(place, None):
            raise CannotListen(why)
        self.want({*self._wanted, place}, again=True)
        raise NotYet(f'service "{service}": address {host}:{port} is asked for from rota up; it has not answered yet')

    def want(self, places: Iterable[SharedAddress], *, again: bool = False) -> None:
        """Give back all sockets but these; with `again`, also ask once more for those that were refused."""
        wanted = set(places)
        if self._number and wanted == self._wanted.keys() and not again:
            return  # the first message is sent in any case: it ends what an earlier life of this node has left
        self._number += 1
        self._wanted = {place: self._wanted.get(place, self._number) for place in sorted(wanted)}
        for place in self._lent.keys() - wanted:
            self._lent.pop(place).close()
        self._channel.send(Borrow(self._number, tuple(self._wanted)))

    def close(self) -> None:
        """Give everything back."""
        self.want(())
        self._channel.close()
        for sock in self._lent.values():
            sock.close()
        self._lent.clear()

    def _heard(self, message: object) -> None:
        if not isinstance(message, Lent):
            return
        sock = None if message.why else socket.socket(fileno=self._channel.fds.popleft())
        place = message.place
        is_void = place in self._lent or message.number < self._wanted.get(place, message.number + 1)
        if sock is None:
            if not is_void:
                self._refused[place] = message.why
        elif is_void:
            sock.close()
        else:
            self._lent[place] = sock
        self._wake()


def _copy(sock: socket.socket) -> socket.socket:
    """Another descriptor of a socket. Not `sock.dup()`: it sets anew whether calls wait, and that is one thing for all
    who share the socket, so that the others would stand still in their next `accept`.
    """
    copy = socket.socket(fileno=os.dup(sock.fileno()))
    copy.setblocking(False)
    return copy
