"""Frames: messages on a byte stream, each behind its length.

`encode` puts four bytes of length (big-endian) before a payload. `FrameDecoder.feed` takes bytes as they come and
returns the payloads that became whole. No socket, no loop: pipes and sockets alike are wrapped around it.

A length beyond `limit` raises `FrameTooLong` before a byte of that frame is buffered, so a hostile or torn stream
cannot make the reader hold memory; the stream is then out of step and must be closed.
"""

import struct

LENGTH = struct.Struct("!I")
DEFAULT_LIMIT = 16 * 1024 * 1024


class FrameTooLong(ValueError):
    """A frame announced more bytes than the reader accepts."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"frame of {length} bytes; at most {limit} are accepted")
        self.length, self.limit = length, limit


def encode(payload: bytes, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """`payload` as one frame."""
    if len(payload) > limit:
        raise FrameTooLong(len(payload), limit)
    return LENGTH.pack(len(payload)) + payload


class FrameDecoder:
    """Bytes in, whole payloads out."""

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        """Bytes of a payload at most, from the next `feed` on."""

        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet; not zero at the end of a stream means it was torn."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The payloads that `data` completed, in order."""
        buffer = self._buffer
        buffer += data
        whole: list[bytes] = []
        start = 0
        while len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            if length > self.limit:
                del buffer[start:]
                raise FrameTooLong(length, self.limit)
            end = start + LENGTH.size + length
            if end > len(buffer):
                break
            whole.append(bytes(memoryview(buffer)[start + LENGTH.size : end]))
            start = end
        if start:
            del buffer[:start]
        return whole
