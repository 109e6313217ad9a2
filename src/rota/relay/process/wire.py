"""The records sent on a line between relays or from a worker, and the socket that carries them.

Lines lead from workers to their node's relay (socket pairs that the agent makes) and from relay to relay (TCP). Both
use the same protocol: the sender of messages opens the line and sends batches, the other end sends acks. A relay sends
nothing more before the first ack: until it is accepted, the other end takes only small records. Each record is a packed
array behind its length (`kit.frames`); a record of a later release may be longer.

`FrameConnection` is one end, in an event loop. It can stop reading, which in the end makes the sender wait. What waits
to be sent is not bounded here: senders look at `unsent`, and acks are small.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from rota.kit import frames
from rota.kit.decoding import UNREADABLE
from rota.relay.core.dedup import Excerpt
from rota.relay.core.held import Emission, RefusedMessage

PROTOCOL = 1
"""The version of the protocol between relays; other versions are refused."""

LARGEST = 256 * 2**20
"""The largest record, in bytes: a shipped window may have millions of ids."""

LARGEST_OPENING = 4096
"""The largest record from a sender that has not identified itself, in bytes."""

SILENCE = 15.0
"""Seconds without a record after which a line counts as broken. Both ends send something at least each second."""

BATCH = 500
"""Messages of one batch."""

BATCH_BYTES = 2**20
"""Payloads of one batch; the one that reaches it still goes in."""

UNSENT = 4 * 2**20
"""Bytes that may wait to be sent before the owner sends no more batches."""


class RelayFrame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The records of the protocol."""


class OpeningFrame(RelayFrame, frozen=True, tag=1):
    """From a sender, first: who it is. A worker is known from the agent's message, so its record only has the age."""

    age: float | None
    """Seconds since the oldest message was emitted that it holds; None: it holds none."""

    protocol: int = PROTOCOL
    node: str = ""
    version: int = 0
    """The version of the relay map that it uses."""

    token: str = ""


class RefusalFrame(RelayFrame, frozen=True, tag=2):
    """To a sender: this line is not taken, and why."""

    why: str


class BatchFrame(RelayFrame, frozen=True, tag=3):
    """From a sender: messages."""

    sequence: int
    age: float | None
    emissions: tuple[Emission, ...] = ()


class AckFrame(RelayFrame, frozen=True, tag=4):
    """To a sender: all batches up to this one are done with. Also a sign of life."""

    sequence: int
    refused: tuple[RefusedMessage, ...] = ()
    """Their messages that can never be delivered, each reported once; all others are safe."""


class ShipFrame(RelayFrame, frozen=True, tag=5):
    """From a relay: what it knows of the resources that the other takes over (`relay.core.Shipment`)."""

    version: int
    excerpts: tuple[Excerpt, ...]
    floors: tuple[tuple[str, str, int], ...]
    age: float


class ShippedFrame(RelayFrame, frozen=True, tag=6):
    """To a relay: its shipment for this version of the map was taken."""

    version: int


Any_ = OpeningFrame | RefusalFrame | BatchFrame | AckFrame | ShipFrame | ShippedFrame

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any_] = msgspec.msgpack.Decoder(Any_)


def encode(record: RelayFrame) -> bytes:
    """The record as one frame."""
    return frames.encode(_encoder.encode(record), limit=LARGEST)


class Socket(Protocol):
    """What a line runs over: a socket that does not block, or a secured one."""

    def fileno(self) -> int: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: memoryview, /) -> int: ...
    def close(self) -> None: ...


class FrameConnection:
    """One end of a line. `heard` is called for each record, `ended` once when the other end is gone."""

    def __init__(
        self, sock: Socket, heard: Callable[[Any_], None], ended: Callable[[], None], *, largest: int = LARGEST
    ) -> None:
        sock.setblocking(False)
        self._sock, self._heard, self._ended = sock, heard, ended
        self._decoder = frames.FrameDecoder(limit=largest)
        self._waiting: deque[memoryview] = deque()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self.is_open, self.is_reading = True, True
        self.unsent = 0
        """Bytes that the other end has no room for yet."""

        self.last_heard = self._loop.time()
        self.on_room: Callable[[], None] = lambda: None
        """Called when everything is sent that had to wait."""

    def trust(self) -> None:
        """The other end is authenticated: it may send records of any size up to `LARGEST`."""
        self._decoder.limit = LARGEST

    def send(self, record: RelayFrame) -> None:
        """Send, or keep until there is room; does nothing if the other end is gone."""
        if not self.is_open:
            return
        frame = memoryview(encode(record))
        if not self._waiting:
            frame = frame[self._try(frame) :]
        if frame and self.is_open:
            if not self._waiting:
                self._loop.add_writer(self._sock, self._write)
            self._waiting.append(frame)
            self.unsent += len(frame)

    def read(self, wanted: bool) -> None:
        """Read on, or stop reading."""
        if wanted != self.is_reading and self.is_open:
            self.is_reading = wanted
            if wanted:
                self.last_heard = self._loop.time()
                self._loop.add_reader(self._sock, self._read)
            else:
                self._loop.remove_reader(self._sock)

    @property
    def is_silent(self) -> bool:
        """Has the other end sent nothing for `SILENCE` seconds, although this end was reading?"""
        return self.is_reading and self._loop.time() - self.last_heard > SILENCE

    def close(self) -> None:
        """Let go of the socket; nothing is called any more."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._waiting.clear()
            self._sock.close()

    def lose(self) -> None:
        """Treat the other end as gone."""
        if self.is_open:
            self.close()
            self._ended()

    def _read(self) -> None:
        try:
            data = self._sock.recv(262_144)
            records = [_decoder.decode(frame) for frame in self._decoder.feed(data)]
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, frames.FrameTooLong, *UNREADABLE):
            self.lose()
            return
        self.last_heard = self._loop.time()
        for record in records:
            if self.is_open:
                self._heard(record)
        if not data:
            self.lose()

    def _try(self, frame: memoryview) -> int:
        """Bytes that could be sent at once."""
        try:
            return self._sock.send(frame)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # Not from within a call of the owner, whose line would be gone in the middle of its work.
            self._loop.call_soon(self.lose)
            return len(frame)

    def _write(self) -> None:
        while self._waiting:
            sent = self._try(self._waiting[0])
            if not sent:
                return
            self.unsent -= sent
            if sent == len(self._waiting[0]):
                self._waiting.popleft()
            else:
                self._waiting[0] = self._waiting[0][sent:]
        self._loop.remove_writer(self._sock)
        self.on_room()
