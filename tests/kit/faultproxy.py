"""A loopback TCP proxy that behaves as networks do on bad days.

Put it before a server and open the store on its port. Bytes that a fault holds back pass once it is healed, as
TCP sends again what was lost: a fault delays or ends a connection, it never garbles one.
"""

import asyncio
import socket
import struct
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.kit.listening import settled, stop_listening
from tests.kit.servers import free_port

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Gate:
    """Lets bytes of one direction pass, or holds them."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        """Hold bytes from now on."""
        self._open.clear()

    def open(self) -> None:
        """Let them pass."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until bytes may pass."""
        await self._open.wait()


class FaultProxy:
    """A listener on `port` that hands every connection on to `target` on `host`, unless told otherwise."""

    def __init__(self, target: int, host: str = "127.0.0.1", port: int | None = None) -> None:
        self.port = port or free_port()
        self.latency = 0.0
        """Seconds that bytes take, each way."""
        self._target, self._host = target, host
        self._upward, self._downward = Gate(), Gate()
        self._listener: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        await settled()  # every link has begun: one that is cancelled before would close nothing
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        await settled()

    def cut(self) -> None:
        """Reset every connection; new ones are welcome."""
        for end in self._ends:
            with suppress(OSError):  # it has ended by itself
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            end.transport.abort()

    async def refuse(self) -> None:
        """Reset every connection and refuse new ones."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            await stop_listening(listener)
        self.cut()

    def freeze(self) -> None:
        """Nothing passes either way; connections stay open."""
        self.hold_requests()
        self.hold_answers()

    def hold_requests(self) -> None:
        """Nothing passes to the server."""
        self._upward.shut()

    def hold_answers(self) -> None:
        """Nothing passes from the server."""
        self._downward.shut()

    def strand(self) -> None:
        """The connections there are fall silent for good, without a word to either end; new ones are fine."""
        self.freeze()
        self._upward, self._downward = Gate(), Gate()

    async def heal(self) -> None:
        """All is well again."""
        self.latency = 0.0
        self._upward.open()
        self._downward.open()
        if self._listener is None:
            await self._listen()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._welcome, "127.0.0.1", self.port)

    def _welcome(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._carry(client, to_client))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with self._end(to_client), suppress(OSError):
            server, to_server = await asyncio.open_connection(self._host, self._target)
            with self._end(to_server):
                await first_of(
                    self._pump(client, to_server, self._upward), self._pump(server, to_client, self._downward)
                )

    @contextmanager
    def _end(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._ends.add(writer)
        try:
            yield
        finally:
            self._ends.discard(writer)
            writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: Gate) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await asyncio.sleep(self.latency)
                await gate.passed()
                sink.write(data)
                await sink.drain()
        await gate.passed()  # the end of a connection does not pass a shut gate either


async def first_of(*works: Coroutine[None, None, None]) -> None:
    """Run all until one has ended, then end the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
