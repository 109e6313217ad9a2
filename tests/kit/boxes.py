"""A client of Box frames that owes nothing to Rota's own code, and may misbehave."""

import itertools
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

MAGIC = 0x7978AECF
HEADER = struct.Struct("!ihhiiii")


@dataclass(frozen=True)
class Box:
    """An answer."""

    cmd: int
    ret: int
    sn: int
    body: bytes


def box(cmd: int, body: bytes = b"", sn: int = 0) -> bytes:
    """A request, as bytes."""
    return HEADER.pack(MAGIC, 0, 0, HEADER.size + len(body), cmd, 0, sn) + body


def boxes(data: bytes | bytearray) -> Iterator[tuple[Box, int]]:
    """The whole frames in `data`, and where each ends."""
    start = 0
    while len(data) - start >= HEADER.size:
        magic, _, _, length, cmd, ret, sn = HEADER.unpack_from(data, start)
        assert magic == MAGIC, data[start : start + HEADER.size]
        if len(data) - start < length:
            return
        yield Box(cmd, ret, sn, bytes(data[start + HEADER.size : start + length])), start + length
        start += length


class Asker:
    """One client: a connection over TCP, or a socket for datagrams; a context manager."""

    def __init__(self, port: int, *, udp: bool = False, host: str = "127.0.0.1", within: float = 60.0) -> None:
        self._numbers = itertools.count(1)
        self._buffer = bytearray()
        self._is_udp = udp
        self.sock = socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        self.sock.settimeout(within)
        try:
            self.sock.connect((host, port))
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, cmd: int, body: bytes = b"") -> int:
        """Ask; the number of the request."""
        number = next(self._numbers)
        self.sock.sendall(box(cmd, body, number))
        return number

    def receive(self) -> Box:
        """The next answer; EOFError if the connection has ended, TimeoutError if nothing comes."""
        while True:
            for found, end in boxes(self._buffer):
                del self._buffer[:end]
                return found
            data = self.sock.recv(1 << 20)
            if not data and not self._is_udp:
                raise EOFError(f"closed with {len(self._buffer)} bytes of a frame")
            self._buffer += data

    def ask(self, cmd: int, body: bytes = b"") -> Box:
        """Ask, and the answer, which must be to this request: every other answer would be one too many."""
        number = self.send(cmd, body)
        answer = self.receive()
        assert (answer.cmd, answer.sn) == (cmd, number), answer
        return answer

    def is_hung_up(self) -> bool:
        """Has the other end closed the connection? Waits for that, or for an answer."""
        try:
            self.receive()
        except (EOFError, ConnectionError):
            return True
        return False


def can_connect(port: int) -> bool:
    """Does somebody listen there?"""
    try:
        with Asker(port):
            return True
    except ConnectionRefusedError:
        return False
