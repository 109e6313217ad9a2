"""One end of a gRPC stream: items in and out, with signs of life from both sides.

HTTP/2 pings show that a process is there; they are answered by gRPC's own threads, though, even when the event loop
behind them stands still. A sign of life is a message of its own, written by the loop, so a peer whose loop is stuck
falls silent, too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import grpc

from rota.model.errors import RotaError, Unavailable

Out = TypeVar("Out")
In = TypeVar("In")
Request = TypeVar("Request")
Response = TypeVar("Response")


class Stream(Generic[Out, In, Request, Response]):
    """Items of a hand-over or a log, on the messages of a call."""

    def __init__(
        self,
        *,
        peer: str,
        silence: float,
        write: Callable[[Request], Awaitable[object]],
        read: Callable[[], Awaitable[object]],
        encode: Callable[[Out], Request],
        decode: Callable[[Response], In | None],
        beat: Request,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._peer, self._silence = peer, silence
        self._write, self._read, self._end = write, read, end
        self._encode, self._decode, self._beat = encode, decode, beat
        self._writing = asyncio.Lock()  # gRPC takes one write at a time
        self._has_ended = False

    async def send(self, item: Out) -> None:
        async with self._writing:
            await self._write(self._encode(item))

    async def receive(self) -> In | None:
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    message = await self._read()
            except TimeoutError:
                raise Unavailable(f"node link {self._peer}: not a word for {self._silence:g} s") from None
            if message is grpc.aio.EOF:
                return None
            if (item := self._decode(message)) is not None:  # type: ignore[arg-type]  # what it is not EOF, is one
                return item

    async def end(self) -> None:
        async with self._writing:
            self._has_ended = True
            await self._end()

    async def live(self) -> None:
        """Give signs of life until the stream ends; to be run beside it."""
        with suppress(RotaError):  # whoever reads or writes next is told
            while not self._has_ended:
                await asyncio.sleep(self._silence / 3)
                async with self._writing:
                    if not self._has_ended:
                        await self._write(self._beat)
