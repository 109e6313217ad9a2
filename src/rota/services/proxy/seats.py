"""Lines to workers: parcels out, parcels in."""

import socket
from typing import TYPE_CHECKING

from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.frames import BadFrame
from rota.services.core.parcels import RETURNED, ParcelDecoder
from rota.services.proxy.intake import receive
from rota.services.proxy.loop import READ, WRITE

if TYPE_CHECKING:
    from rota.services.proxy.front import Front


class WorkerConnection(WorkerSeat):
    """A worker's seat, and the socket to it. It takes its seat when the worker says that it is ready."""

    __slots__ = ("_front", "_inbox", "_unsent", "fd", "is_seated", "sock")

    def __init__(
        self, front: "Front", sock: socket.socket, worker: int, group: int, generation: int, capacity: int, grace: float
    ) -> None:
        super().__init__(worker, group, generation, capacity, grace)
        self.sock, self.fd = sock, sock.fileno()
        sock.setblocking(False)
        self.is_seated = False
        self._front = front
        self._inbox = ParcelDecoder(RETURNED)
        self._unsent = b""

    def ready(self, event: int) -> None:
        """The socket is ready."""
        if event & WRITE:
            self.flush()
        if event & ~WRITE:
            self._read()

    def take_all(self) -> None:
        """Read all that the worker has sent, its end included."""
        while self._read():
            pass

    def _read(self) -> bool:
        """Take in a piece of what it has said; False if there was nothing, or its end."""
        front = self._front
        try:
            data = receive(self.sock)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            front.lost(self)
            return False
        dispatch, now = front.dispatch, front.now
        try:
            for number, flags, answer in self._inbox.feed(data):
                if number:
                    dispatch.returned(self, number, flags, answer, now)
                elif not self.is_seated:
                    self.is_seated = True
                    dispatch.seat_joined(self, now)
        except BadFrame:
            front.lost(self)
            return False
        return True

    def flush(self) -> None:
        """Send the contents of the outbox, as far as the socket takes them."""
        outbox = self.outbox
        data = outbox[0] if len(outbox) == 1 and not self._unsent else self._unsent + b"".join(outbox)
        outbox.clear()
        was_stuck = bool(self._unsent)
        try:
            sent = self.sock.send(data) if data else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # its end will be read
            return
        self._unsent = data[sent:]
        if bool(self._unsent) != was_stuck:
            self._front.loop.change(self.fd, READ | WRITE if self._unsent else READ)
