"""Clients of a service: connections over TCP, senders of datagrams over UDP.

What a client can cost is bounded: the bytes of a frame that is not whole, the answers it does not read, the time it
says nothing. A client whose answers pile up is not read from until it has taken them. Every connection that we end is
counted, with the reason.

A client that has sent its last request may close its side of the connection (`shutdown(SHUT_WR)`, `nc -N`): the
connection stays until its requests are answered. One that closed both sides looks the same until an answer is sent.
"""

import contextlib
import socket
from typing import TYPE_CHECKING

from rota.services.core.dispatch.requests import Caller
from rota.services.core.frames import BadFrame
from rota.services.core.parcels import ADDRESS, UDP
from rota.services.proxy.intake import receive
from rota.services.proxy.loop import NOTHING, READ, WRITE

if TYPE_CHECKING:
    from rota.services.proxy.doors import UdpDoor
    from rota.services.proxy.front import Front

UNREAD = 8 * 1024 * 1024
"""Bytes of answers that may wait for a client to read them, not counting those of one turn."""


def packed(where: tuple[str, int], family: int, over_udp: bool) -> bytes:
    """A client's address, as it is sent to workers."""
    is_new = family == socket.AF_INET6
    host = socket.inet_pton(socket.AF_INET6 if is_new else socket.AF_INET, where[0].partition("%")[0])
    return ADDRESS.pack((6 if is_new else 4) + (UDP if over_udp else 0), where[1], host)


class TcpClient(Caller):
    """One connection."""

    __slots__ = ("_begun", "_front", "_is_parting", "_need", "_unsent", "fd", "sock")

    def __init__(self, front: "Front", sock: socket.socket, where: tuple[str, int]) -> None:
        super().__init__(packed(where, sock.family, over_udp=False))
        self.sock, self.fd = sock, sock.fileno()
        self._front = front
        self._begun = bytearray()
        """A frame that is not whole yet."""

        self._need = 0
        self._unsent = bytearray()
        """Answers that the system did not take; until it has, the client is not read from."""

        self._is_parting = False

    @property
    def begun(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._begun)

    @property
    def unread(self) -> int:
        """Bytes of answers that it has not taken."""
        return len(self._unsent)

    def ready(self, event: int) -> None:
        """The socket is ready: send what waits, read what has come."""
        if event & WRITE:
            self._send_rest()
            if event == WRITE or not self.is_open:
                return
        front = self._front
        if self.is_leaving:
            if event & ~(READ | WRITE):  # it has closed the other direction, too, or is gone
                front.hang_up(self)
            return
        try:
            data = receive(self.sock)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            self._leave()
            return
        if self._begun:
            self._begun += data
            front.buffered += len(data)
            if len(self._begun) < self._need:
                front.make_room()
                return
            data = bytes(self._begun)
            front.buffered -= len(data)
            self._begun.clear()
        try:
            frames, used = front.wire.split(data, front.table.max_frame)
        except BadFrame:
            front.hang_up(self, "no frame")
            return
        if frames:
            front.heard(self)
            arrive, now = front.dispatch.arrive, front.now
            for cmd, frame in frames:
                arrive(self, cmd, frame, now)
        if used < len(data):
            self._begun += data[used:] if used else data
            self._need = front.wire.needed(bytes(self._begun[: front.wire.size]))
            front.buffered += len(self._begun)
            front.make_room()

    def _leave(self) -> None:
        """The client sends nothing more: answer its requests, then close the connection."""
        front = self._front
        self.is_leaving = True
        front.unaware.discard(self)
        if self._begun:
            front.drops["part of a frame"] += 1
            front.buffered -= len(self._begun)
            self._begun.clear()
        front.loop.change(self.fd, WRITE if self._unsent else NOTHING)
        self._hang_up_if_done()

    def _hang_up_if_done(self) -> None:
        if self.is_leaving and self.is_open and not (self.unanswered or self.outbox or self._unsent):
            self._front.hang_up(self)

    def flush(self) -> None:
        """Send the contents of the outbox, as far as the socket takes them."""
        if self.outbox:
            self._send_outbox()
        if self.is_leaving:
            self._hang_up_if_done()

    def _send_outbox(self) -> None:
        outbox = self.outbox
        data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        outbox.clear()
        if self._unsent:  # the loop reports when the socket takes more
            self._keep(data)
            return
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._front.hang_up(self)
            return
        if sent < len(data):
            self._front.loop.change(self.fd, WRITE)
            self._keep(memoryview(data)[sent:])

    def _keep(self, data: bytes | memoryview) -> None:
        """Keep what the socket did not take, unless that is too much for this client or for all of them together."""
        is_first = not self._unsent
        self._unsent += data
        self._front.unread += len(data)
        if len(self._unsent) > UNREAD and not is_first:
            self._front.hang_up(self, "answers not read")
        else:
            self._front.make_room_for_answers()

    def _send_rest(self) -> None:
        """The socket takes more: send what waits."""
        try:
            sent = self.sock.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._front.hang_up(self)
            return
        del self._unsent[:sent]
        self._front.unread -= sent
        if not self._unsent:
            self._front.loop.change(self.fd, NOTHING if self.is_leaving else READ)
            self._hang_up_if_done()

    def part(self) -> None:
        """Send what is left, then close the sending side; close the connection when the client has closed its side too.

        What it still sends is read and dropped, or closing would destroy answers on their way.
        """
        if self._unsent:
            self._send_rest()
        if self.is_open and not self._unsent and not self._is_parting:
            self._is_parting = True
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        try:
            data = receive(self.sock)
        except (BlockingIOError, InterruptedError):
            return
        if data:
            self._front.drops["sent after the end"] += 1
        elif not self._unsent:
            self._front.hang_up(self)

    def let_go(self) -> None:
        """Drop its buffers; the caller closes the socket."""
        self._front.buffered -= len(self._begun)
        self._front.unread -= len(self._unsent)
        self._begun.clear()
        self._unsent.clear()


class UdpClient(Caller):
    """A sender of datagrams: two of the same address are the same."""

    __slots__ = ("__weakref__", "_door", "where")

    def __init__(self, door: "UdpDoor", where: tuple[str, int]) -> None:
        super().__init__(packed(where, door.sock.family, over_udp=True))
        self._door, self.where = door, where

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UdpClient) and self.where == other.where and self._door is other._door

    def __hash__(self) -> int:
        return hash(self.where)

    def flush(self) -> None:
        """Send what lies in the outbox, a datagram each."""
        for answer in self.outbox:
            self._door.send(answer, self.where)
        self.outbox.clear()
