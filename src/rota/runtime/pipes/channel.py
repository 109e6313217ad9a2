"""Messages among agent, loader, workers, proxies and relay, on socket pairs.

Each message is a small record, packed, behind its length (`kit.frames`). `Channel` is for processes with an event loop
(the agent, host workers, the relay), `Pipe` for those without (the loader, workers of sync code). File descriptors
travel with the frame they belong to; a channel takes them only if it was made to. What the messages are is said in the
other modules of this package, and in the `pipe` modules of the kinds, one for each conversation; this module knows
none of them.

A channel's unsent bytes are bounded: a peer that does not read is not waited for; the channel closes, and the peer is
treated as lost. A sender that has more to send than a peer can read at once asks `has_room` first, and goes on when
`when_room` calls it: a burst of its own must not look like a peer that does not read.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Union

import msgspec

from rota.kit import frames
from rota.kit.decoding import UNREADABLE

log = logging.getLogger(__name__)

LIMIT = 32 * 1024 * 1024
"""Bytes that may wait for a peer, and bytes of one message."""

ROOM = LIMIT // 4
"""Bytes that wait for a peer when a sender that can wait sends no more."""


class UnknownMessage(msgspec.ValidationError):
    """A message came that this process does not know: nothing that it has imported declares it."""


class PipeMessage(msgspec.Struct, frozen=True, tag=True):
    """What is sent. A process understands the messages whose modules it has imported."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _decoder.cache_clear()


_encoder = msgspec.msgpack.Encoder()


@cache
def _decoder() -> msgspec.msgpack.Decoder[Any]:
    """Decodes every message that is declared; made anew when another one is."""
    return msgspec.msgpack.Decoder(Union[tuple(PipeMessage.__subclasses__())])  # noqa: UP007  # the members are a value


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def encode(message: PipeMessage) -> bytes:
    """The message as one frame."""
    return frames.encode(_encoder.encode(message), limit=LIMIT)


class Channel:
    """One end, in an event loop. `on_message` is called for each message, `on_end` once when the peer is gone."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[Any], None],
        on_end: Callable[[], None],
        *,
        takes_fds: bool = False,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._takes_fds = takes_fds
        self.fds: deque[int] = deque()
        """Descriptors that came along and were not taken yet."""

        self._on_message, self._on_end = on_message, on_end
        self._decoder = frames.FrameDecoder(limit=LIMIT)
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()
        self._waiting = 0
        self._on_room: set[Callable[[], None]] = set()
        self._on_empty: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self.is_open = True

    def send(self, message: PipeMessage, fds: list[int] | None = None) -> None:
        """Send, or keep until the peer reads; nothing if the peer is gone. Sent descriptors are closed here."""
        frame = memoryview(encode(message))
        if not self.is_open:
            _close(fds or [])
            return
        if self._waiting + len(frame) > LIMIT:
            _close(fds or [])
            self.close()
            self._on_end()
            return
        self._unsent.append((frame, fds or []))
        self._waiting += len(frame)
        if len(self._unsent) == 1:
            self._write()

    @property
    def has_room(self) -> bool:
        """May a sender that can wait send more now?"""
        return self.is_open and self._waiting < ROOM

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when the peer has read most of what waits for it; never if it ends before."""
        if self.is_open and callback not in self._on_room:
            self._on_room.add(callback)
            self._loop.call_soon(self._look_for_room)

    async def flush(self) -> None:
        """Wait until all was sent, or the peer is gone."""
        if self.is_open and self._unsent:
            self._on_empty = self._on_empty or self._loop.create_future()
            await asyncio.shield(self._on_empty)

    def close(self) -> None:
        """Let go of the socket; nothing is called any more."""
        if not self.is_open:
            return
        self.is_open = False
        self._on_room.clear()
        self._is_empty()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        for _, fds in self._unsent:
            _close(fds)
        self._unsent.clear()
        _close(list(self.fds))
        self.fds.clear()
        self._sock.close()

    def drain(self) -> None:
        """Take in all that the peer, which has ended, had sent before."""
        while self.is_open and self._take_in():
            pass

    def _read(self) -> None:
        if self._take_in() is False:
            self._lost()

    def _take_in(self) -> bool | None:
        """One piece of what has come; False if the peer is gone or talks nonsense, None if nothing is there."""
        try:
            data = self._receive()
            messages = _decoded(self._decoder, data)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return False
        except (frames.FrameTooLong, *UNREADABLE) as error:
            log.error(
                "a process of this node says what cannot be understood; its channel is closed", extra={"why": error}
            )
            return False
        for message in messages:
            if self.is_open:
                self._on_message(message)
        return bool(data)

    def _receive(self) -> bytes:
        if not self._takes_fds:
            return self._sock.recv(262_144)  # the kernel closes what came along
        data, fds = receive_fds(self._sock)
        self.fds += fds
        return data

    def _write(self) -> None:
        while self._unsent:
            frame, fds = self._unsent[0]
            try:
                sent = socket.send_fds(self._sock, [frame], fds) if fds else self._sock.send(frame)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._sock, self._write)
                self._look_for_room()
                return
            except OSError:
                self._lost()
                return
            _close(fds)
            self._waiting -= sent
            if sent == len(frame):
                self._unsent.popleft()
            else:
                self._unsent[0] = (frame[sent:], [])
        self._loop.remove_writer(self._sock)
        self._look_for_room()
        self._is_empty()

    def _look_for_room(self) -> None:
        if self._waiting <= ROOM // 2:
            for callback in self._on_room:
                self._loop.call_soon(callback)
            self._on_room.clear()

    def _is_empty(self) -> None:
        if self._on_empty is not None:
            self._on_empty.set_result(None)
            self._on_empty = None

    def _lost(self) -> None:
        self.close()
        self._on_end()


class Pipe:
    """One end, without a loop: `receive` waits, `send` may be called from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self.sock = sock
        self.fds: deque[int] = deque()
        """Descriptors that came along and were not taken yet."""

        self._decoder = frames.FrameDecoder(limit=LIMIT)
        self._ready: deque[Any] = deque()
        self._lock = threading.Lock()

    def send(self, message: PipeMessage) -> None:
        """Send; nothing if the peer is gone."""
        with self._lock, contextlib.suppress(OSError):
            self.sock.sendall(encode(message))

    def receive(self) -> Any | None:
        """The next message; None when the peer is gone."""
        while not self._ready:
            if not self.read():
                return None
        return self._ready.popleft()

    def read(self) -> bool:
        """Take in what has come, waiting if nothing has; False when the peer is gone, or a descriptor was lost."""
        try:
            data, fds = receive_fds(self.sock)
        except OSError:
            return False
        self.fds += fds
        self._ready += _decoded(self._decoder, data)
        return bool(data)

    def ready(self) -> Iterator[Any]:
        """What was taken in and not yet given out."""
        while self._ready:
            yield self._ready.popleft()

    def close(self) -> None:
        """Close the socket, and descriptors that were not taken."""
        self.sock.close()
        _close(list(self.fds))
        self.fds.clear()


def receive_fds(sock: socket.socket) -> tuple[bytes, list[int]]:
    """What has come, with its descriptors; OSError if one was lost: going on, we would take the next one for it."""
    data, fds, flags, _ = socket.recv_fds(sock, 262_144, 64)
    if flags & socket.MSG_CTRUNC:
        _close(fds)
        raise OSError("a descriptor was lost on its way")
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds


def _decoded(decoder: frames.FrameDecoder, data: bytes) -> list[Any]:
    return [decode(frame) for frame in decoder.feed(data)]


def decode(data: bytes) -> Any:
    """The message that lies in a frame."""
    try:
        return _decoder().decode(data)
    except msgspec.ValidationError as error:
        name = msgspec.msgpack.decode(data, type=_Tagged).type
        if name in {each.__struct_config__.tag for each in PipeMessage.__subclasses__()}:
            raise
        raise UnknownMessage(f"message {name}: no module that this process has imported declares it") from error


class _Tagged(msgspec.Struct):
    """A message, as far as all have it in common."""

    type: str


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
