"""Frames of AMQP 0-9-1: bytes in, frames out, and the few types of field that a publisher meets.

A frame is a type, a channel and a payload, closed by one fixed byte. `AmqpDecoder.feed` takes bytes as they come and
returns the frames that became whole. No socket, no loop: `connection` is wrapped around it.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
PREFIX = struct.Struct("!BHI")
OVERHEAD = PREFIX.size + len(END)
"""What a frame has beside its payload."""

PROTOCOL = b"AMQP\x00\x00\x09\x01"
"""What a client says first."""

MOST_SHORT = 255
"""How many bytes a short text may have: names, routing keys, ids."""

Value: TypeAlias = "bool | str | Mapping[str, Value]"


class Garbled(ValueError):
    """The received bytes are not AMQP; the connection must be closed."""


class Frame(NamedTuple):
    """One frame."""

    type: int
    channel: int
    payload: bytes


class AmqpDecoder:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self.limit = 1 << 17
        """The largest payload that is accepted."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completed, in order."""
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        start, size = 0, len(buffer)
        while size - start >= OVERHEAD:
            kind, channel, length = PREFIX.unpack_from(buffer, start)
            self._check(kind, length, buffer)
            end = start + PREFIX.size + length
            if end >= size:
                break
            if buffer[end] != END[0]:
                raise Garbled("a frame has no end; this is not AMQP 0-9-1")
            frames.append(Frame(kind, channel, bytes(buffer[start + PREFIX.size : end])))
            start = end + 1
        del buffer[:start]
        return frames

    def _check(self, kind: int, length: int, buffer: bytearray) -> None:
        if buffer.startswith(b"AMQP"):
            raise Garbled("the server speaks another version of AMQP than 0-9-1")
        if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
            raise Garbled(f"a frame has type {kind}; this is not AMQP 0-9-1")
        if length > self.limit:
            raise Garbled(f"a frame of {length} bytes; at most {self.limit} were agreed on")


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame as bytes."""
    return PREFIX.pack(kind, channel, len(payload)) + payload + END


BEAT = frame(HEARTBEAT, 0, b"")


def short(text: str) -> bytes:
    """A short text: its length in one byte, then the text; ValueError if it is too long."""
    data = text.encode()
    if len(data) > MOST_SHORT:
        raise ValueError(f'"{text[:40]}…" has {len(data)} bytes; at most {MOST_SHORT} fit')
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """Bytes behind their length in four bytes."""
    return struct.pack("!I", len(data)) + data


def field(name: str, value: Value) -> bytes:
    """One field of a table."""
    if isinstance(value, bool):
        return short(name) + (b"t\x01" if value else b"t\x00")
    if isinstance(value, str):
        return short(name) + b"S" + long(value.encode())
    return short(name) + b"F" + table(value)


def table(fields: Mapping[str, Value]) -> bytes:
    """A table of fields."""
    return long(b"".join(field(name, value) for name, value in fields.items()))


class FieldReader:
    """Reads fields one after the other; Garbled if there are not enough bytes."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self._data, self._at = data, start

    def number(self, size: int) -> int:
        """An unsigned number of `size` bytes."""
        return int.from_bytes(self._take(size))

    def short(self) -> str:
        """A short text."""
        return self._take(self.number(1)).decode(errors="replace")

    def long(self) -> bytes:
        """Bytes after their length: a long text, or a table that need not be decoded."""
        return self._take(self.number(4))

    def _take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise Garbled("a frame ends in the middle of a field")
        self._at += size
        return data
