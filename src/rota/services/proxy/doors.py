"""Listening sockets of a service. They belong to the agent, which bound them and keeps them when this process dies."""

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from rota.services.core.codes import Ret
from rota.services.core.frames import BadFrame
from rota.services.proxy.clients import TcpClient, UdpClient
from rota.services.proxy.loop import READ, WRITE

if TYPE_CHECKING:
    from rota.services.proxy.front import Front

AT_ONCE = 64
"""Connections or datagrams taken per turn."""

AT_CLOSE = 5000
"""Connections or datagrams taken before a door closes; more than these can hardly wait."""

BACKLOG = 1000
"""Answers in datagrams that may wait for the operating system to take them."""

LARGEST = 65_507
"""Bytes of the largest datagram."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds of silence until the first probe, seconds between probes, and how many may stay unanswered: a machine that is
gone is noticed within two minutes."""


def keep_alive(sock: socket.socket) -> None:
    """Let the system notice when the other end's machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class TcpDoor:
    """Takes connections."""

    def __init__(self, front: "Front", sock: socket.socket) -> None:
        self._front, self.sock = front, sock
        sock.setblocking(False)
        self.open()

    def open(self) -> None:
        """Take connections from now on."""
        self._front.loop.add(self.sock.fileno(), self.ready)

    def ready(self, event: int) -> None:
        """A connection waits to be accepted."""
        for _ in range(AT_ONCE):
            if not self._accept():
                return

    def close(self) -> None:
        """Accept no more connections, after those that have arrived: their clients would lose what they have sent."""
        for _ in range(AT_CLOSE):
            if not self._accept():
                break
        self._front.loop.remove(self.sock.fileno())
        if self in self._front.paused:
            self._front.paused.remove(self)
        self.sock.close()

    def _accept(self) -> bool:
        """Take a connection; False if there is none, or no room."""
        front = self._front
        try:
            sock, where = self.sock.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._pause()
                return False
            return error.errno == errno.ECONNABORTED
        if sock.fileno() >= front.loop.room:
            sock.close()
            self._pause()
            return False
        self._admit(sock, where)
        return True

    def _admit(self, sock: socket.socket, where: tuple[str, int]) -> None:
        front = self._front
        if len(front.clients) >= front.table.max_clients and not front.make_room_for_client():
            front.drops["too many clients"] += 1
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock)
        except OSError:  # it has gone again
            sock.close()
            return
        front.welcome(TcpClient(front, sock, where))

    def _pause(self) -> None:
        """Accept no connections until there is room; new ones wait in the operating system."""
        self._front.drops["no descriptor for a connection"] += 1
        self._front.loop.remove(self.sock.fileno())
        if self not in self._front.paused:
            self._front.paused.append(self)


class UdpDoor:
    """Takes and sends datagrams. One may hold several whole frames; an incomplete rest is dropped and counted."""

    def __init__(self, front: "Front", sock: socket.socket) -> None:
        self._front, self.sock = front, sock
        self._backlog: deque[tuple[bytes, Any]] = deque()
        self._clients: WeakValueDictionary[Any, UdpClient] = WeakValueDictionary()
        """Senders that have requests here: what waits is counted for all datagrams of one together."""

        self._is_closed = False
        sock.setblocking(False)
        front.loop.add(sock.fileno(), self.ready)

    def __del__(self) -> None:
        self.sock.close()

    def ready(self, event: int) -> None:
        """A datagram has come, or one can be sent."""
        if event & WRITE and not self._is_closed:
            self._send_backlog()
        if event & ~WRITE and not self._is_closed:
            for _ in range(AT_ONCE):
                if not self._read():
                    return

    def send(self, answer: bytes, where: Any) -> None:
        """Send an answer, or keep it until the operating system takes it; an error answer replaces one too large for a
        datagram."""
        if len(answer) > LARGEST:
            self._front.drops["answer too large for a datagram"] += 1
            if not self._front.table.answers_failures:
                return
            answer = self._front.wire.reply(answer, Ret.HANDLER_ERROR)
        if self._backlog or not self._sent(answer, where):
            if len(self._backlog) >= BACKLOG or self._is_closed:
                self._front.drops["no room for a datagram"] += 1
                return
            self._backlog.append((answer, where))
            if len(self._backlog) == 1:
                self._front.loop.change(self.sock.fileno(), READ | WRITE)

    def close(self) -> None:
        """Take no more datagrams, after those that have come. The socket closes after the last answer that is sent by
        it."""
        if self._is_closed:
            return
        for _ in range(AT_CLOSE):
            if not self._read():
                break
        while self._backlog and self._sent(*self._backlog[0]):
            self._backlog.popleft()
        self._front.drops["no room for a datagram"] += len(self._backlog)
        self._backlog.clear()
        self._is_closed = True
        self._front.loop.remove(self.sock.fileno())

    def _read(self) -> bool:
        """Take a datagram; False if there is none."""
        front = self._front
        try:
            data, where = self.sock.recvfrom(65_536)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # the system reports that an earlier answer could not be delivered; its client is gone
            return True
        try:
            frames, used = front.wire.split(data, front.table.max_frame)
        except BadFrame:
            front.drops["no frame"] += 1
            return True
        if used < len(data):
            front.drops["part of a frame"] += 1
        client = self._clients.get(where)
        if client is None:
            client = self._clients[where] = UdpClient(self, where)
        for cmd, frame in frames:
            front.dispatch.arrive(client, cmd, frame, front.now)
        return True

    def _send_backlog(self) -> None:
        while self._backlog and self._sent(*self._backlog[0]):
            self._backlog.popleft()
        if not self._backlog:
            self._front.loop.change(self.sock.fileno(), READ)

    def _sent(self, answer: bytes, where: Any) -> bool:
        """Did the operating system take the datagram? One that it can never take is counted and skipped."""
        try:
            self.sock.sendto(answer, where)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._front.drops["datagram not sent"] += 1
        return True
