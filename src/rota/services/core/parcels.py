"""Parcels: what a proxy and its workers send each other. Pure.

A worker says once that it is ready; then the proxy hands over requests, and the worker returns answers. Each parcel is
a length, a number that names the request, and what belongs to it. Number 0 is for words about the line itself; the
others are so long that none comes twice.

Both ends run on one machine and are of one Rota, so nothing here has a version; they are still cut with a limit.
"""

import struct
from collections.abc import Iterator

from rota.services.core.frames import BadFrame

GIVEN = struct.Struct("!IQi")
"""Length of all, number, milliseconds left (-1: no limit); the client's address and the client's frame follow."""

RETURNED = struct.Struct("!IQB")
"""Length of all, number, flags; the answer's frame follows, if there is one."""

ANSWERED = 1
DONE = 2
ADDRESS = struct.Struct("!BH16s")
"""How the client asks (4: TCP over IPv4, 6: over IPv6; plus 16 for UDP), its port and its address."""

UDP = 16
NO_LIMIT = -1
LIMIT = 256 * 1024 * 1024
LARGEST_FRAME = LIMIT - GIVEN.size - ADDRESS.size
"""Bytes of a frame that a parcel can carry."""

READY = RETURNED.pack(RETURNED.size, 0, 0)
"""From a worker: requests may come."""

FINISH = GIVEN.pack(GIVEN.size, 0, NO_LIMIT)
"""To a worker: no request comes any more; end."""


def returned(number: int, flags: int, answer: bytes = b"") -> bytes:
    """A worker's parcel about a request."""
    return RETURNED.pack(RETURNED.size + len(answer), number, flags) + answer


class ParcelDecoder:
    """Cuts a stream into parcels."""

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._parts: list[bytes] = []
        """What has come of a parcel that is not whole."""

        self._there = self._need = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Number, flags or time left, and the rest of each whole parcel, in order."""
        if self._parts:
            self._parts.append(data)
            self._there += len(data)
            if self._there < self._need:  # joined once, however large it is
                return
            data = b"".join(self._parts)
            self._parts.clear()
        start, there, size = 0, len(data), self._head.size
        need, unpack = size, self._head.unpack_from
        while there - start >= size:
            length, number, word = unpack(data, start)
            if not size <= length <= LIMIT:
                raise BadFrame(f"a parcel of {length} bytes")
            end = start + length
            if end > there:
                need = length
                break
            yield number, word, data[start + size : end]
            start = end
        if start < there:
            self._parts.append(data[start:])
            self._there, self._need = there - start, need
