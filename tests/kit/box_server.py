"""A small server that speaks Box over TCP and UDP, honest or not, as the cmd of each request asks."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from rota.services.core.codes import Ret
from rota.services.core.frames import BOX, Layout, wire
from tests.kit.listening import settled, stop_listening
from tests.kit.servers import free_port

LIMIT = 1 << 24


class Cmd(IntEnum):
    """What the server does with a request."""

    ECHO = 1
    HOLD = 2
    """Answer when `release` is called."""
    SILENCE = 3
    HANG_UP = 4
    """Close the connection without a word."""
    GARBAGE = 5
    TWICE = 6
    PIECES = 7
    """Answer byte by byte."""
    STRANGER = 8
    """Answer with a number that nobody asked for, then with the right one."""
    QUEUE_FULL = 9
    OWN_CODE = 10
    LONG = 11
    """Announce an answer of two gigabytes."""
    STOP_READING = 12
    TORN = 13
    """Answer half of a frame, and close."""


@dataclass
class Visit:
    """A request, and the way back."""

    cmd: int
    frame: bytes
    write: Callable[[bytes], None]
    transport: Any


class BoxServer:
    """Listens on `port` inside; `stop` and `start` may be called in between."""

    def __init__(self, layout: Layout = BOX) -> None:
        self.port = free_port()
        self.wire = wire(layout)
        self.bodies: list[bytes] = []
        """What was asked, in order."""
        self.visitors: set[Any] = set()
        """Connections that are open."""
        self.accepted = 0
        self._held: list[Visit] = []
        self._tcp: asyncio.Server | None = None
        self._udp: asyncio.DatagramTransport | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tcp = await loop.create_server(lambda: _Visitor(self), "127.0.0.1", self.port)
        self._udp, _ = await loop.create_datagram_endpoint(
            lambda: _Letterbox(self), local_addr=("127.0.0.1", self.port)
        )

    async def stop(self) -> None:
        """Close the listeners and every connection."""
        if self._tcp is None or self._udp is None:
            return
        self._udp.abort()
        await stop_listening(self._tcp)
        self.hang_up()
        await self._tcp.wait_closed()
        self._tcp = self._udp = None
        await settled()

    def hang_up(self) -> None:
        """Close every connection."""
        for visitor in list(self.visitors):
            visitor.abort()

    def release(self) -> int:
        """Answer what was held, last first; how many that were."""
        held, self._held = self._held[::-1], []
        for visit in held:
            visit.write(self.echo(visit))
        return len(held)

    @property
    def holds(self) -> int:
        return len(self._held)

    def echo(self, visit: Visit) -> bytes:
        return self.wire.reply(visit.frame, 0, self.wire.body(visit.frame))

    def serve(self, visit: Visit) -> None:
        """Do with a request what its cmd says."""
        self.bodies.append(self.wire.body(visit.frame))
        match visit.cmd:
            case Cmd.HOLD:
                self._held.append(visit)
            case Cmd.SILENCE:
                pass
            case Cmd.HANG_UP:
                visit.transport.close()
            case Cmd.STOP_READING:
                visit.transport.pause_reading()
            case Cmd.PIECES:
                for byte in self.echo(visit):
                    visit.write(bytes([byte]))
            case Cmd.TORN:
                visit.write(self.echo(visit)[:-3])
                visit.transport.close()
            case _:
                visit.write(self._answer(visit))

    def _answer(self, visit: Visit) -> bytes:
        frame, echo = visit.frame, self.echo(visit)
        match visit.cmd:
            case Cmd.GARBAGE:
                return b"HTTP/1.1 400 Bad Request\r\n\r\n"
            case Cmd.TWICE:
                return 2 * echo
            case Cmd.STRANGER:
                number = self.wire.read(frame)["sn"]
                return self.wire.reply(frame, 0, b"not yours", {"sn": number + 1000}) + echo
            case Cmd.QUEUE_FULL | Cmd.OWN_CODE:
                return self.wire.reply(frame, Ret.QUEUE_FULL if visit.cmd == Cmd.QUEUE_FULL else 7)
            case Cmd.LONG:
                return echo[:8] + (2**31 - 1).to_bytes(4, "big") + bytes(12)
            case _:
                return echo


class _Visitor(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: BoxServer) -> None:
        self._server, self._rest = server, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._server.visitors.add(transport)
        self._server.accepted += 1

    def connection_lost(self, error: Exception | None) -> None:
        self._server.visitors.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        frames, used = self._server.wire.split(self._rest + data, LIMIT)
        self._rest = (self._rest + data)[used:]
        for cmd, frame in frames:
            self._server.serve(Visit(cmd, frame, self._transport.write, self._transport))


class _Letterbox(asyncio.DatagramProtocol):
    """Where datagrams come in."""

    def __init__(self, server: BoxServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        def write(answer: bytes) -> None:
            self._transport.sendto(answer, address)

        for cmd, frame in self._server.wire.split(data, LIMIT)[0]:
            self._server.serve(Visit(cmd, frame, write, self._transport))
