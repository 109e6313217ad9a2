"""A client of services for asyncio: many calls at a time on each connection, matched with their answers by number.

A lane is one connection and the way to the next one. A call takes the lane with the fewest calls; if its connection is
gone, the first of its calls connects and the others wait for that.

A request that was written to a connection may have been sent. So when the connection is lost its calls are `Unknown`,
even if the bytes were still in this process. While a service does not read, calls wait before they are written, and are
`Unavailable` when their time is up.
"""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

from rota.client.answer import Answer, TimedOut
from rota.client.exchange import MAX_FRAME, Body, Exchange, unreachable
from rota.client.redial import Redial
from rota.client.sockets import LINGER, reason, tune
from rota.kit.time import durations
from rota.model.errors import Invalid, Unavailable, Unknown
from rota.model.spec.checks import Duration
from rota.services.core.frames import BOX, BadFrame, Layout


class AsyncServiceClient:
    """Calls a service; for the tasks of one event loop."""

    def __init__(
        self,
        address: str,
        *,
        timeout: Duration = "5s",
        size: int = 1,
        frame: Layout = BOX,
        numbered_by: str = "sn",
        max_frame: int = MAX_FRAME,
    ) -> None:
        """`address` is `host:port`, `tcp://host:port` or `udp://host:port`; `size` counts connections."""
        self._exchange = Exchange(address, timeout, frame, numbered_by, max_frame)
        size = self._exchange.check.count("size", size)
        self._lanes = [_Lane(self._exchange) for _ in range(size)]

    async def call(
        self,
        cmd: int,
        body: Body = b"",
        *,
        json: object = None,
        timeout: Duration | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer to a request; `fields` sets more of its header."""
        number = self._exchange.number()
        frame = self._exchange.request(number, cmd, body, json, fields)
        return await self._lane().call(cmd, number, frame, self._exchange.within(timeout))

    async def send(
        self,
        cmd: int,
        body: Body = b"",
        *,
        json: object = None,
        timeout: Duration | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> int:
        """Send a request without waiting; returns its number. An answer, if there is one, is dropped."""
        number = self._exchange.number()
        frame = self._exchange.request(number, cmd, body, json, fields)
        await self._lane().send(frame, self._exchange.within(timeout))
        return number

    async def aclose(self) -> None:
        """Close all connections; calls under way end with Unknown."""
        await asyncio.gather(*(lane.close() for lane in self._lanes))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _lane(self) -> "_Lane":
        return min(self._lanes, key=lambda lane: lane.calls)


class _Lane:
    """One connection at a time, and the calls that use it."""

    def __init__(self, exchange: Exchange) -> None:
        self.calls = 0
        """The number of calls here, including those that wait for a connection."""

        self._exchange, self._peer = exchange, exchange.peer
        self._redial = Redial(random.random)
        self._connecting = asyncio.Lock()
        self._line: _Line | None = None
        self._is_closed = False

    async def call(self, cmd: int, number: int, frame: bytes, within: timedelta) -> Answer:
        """The answer to the request of this number."""
        line: _Line | None = None
        self.calls += 1
        try:
            async with asyncio.timeout(within.total_seconds()):
                line = await self._ready(within)
                outcome = await line.ask(number, frame)
        except TimeoutError:
            if line is None:
                raise self._not_ready(within) from None
            raise TimedOut(
                f"{self._peer}: cmd {cmd} had no answer within {durations.render(within)}; it may have run: check "
                "before you retry"
            ) from None
        finally:
            self.calls -= 1
        if isinstance(outcome, Answer):
            return outcome
        raise Unknown(
            f"{self._peer}: the connection was lost with cmd {cmd} sent ({outcome}); it may have run: check before "
            "you retry"
        )

    async def send(self, frame: bytes, within: timedelta) -> None:
        """Hand a request over."""
        self.calls += 1
        try:
            async with asyncio.timeout(within.total_seconds()):
                (await self._ready(within)).write(frame)
        except TimeoutError:
            raise self._not_ready(within) from None
        finally:
            self.calls -= 1

    async def close(self) -> None:
        """Close the connection, and allow no new one."""
        self._is_closed = True
        if self._line is not None:
            await self._line.close()

    async def _ready(self, within: timedelta) -> "_Line":
        """A connection that takes requests."""
        deadline = asyncio.get_running_loop().time() + within.total_seconds()
        while True:
            async with self._connecting:
                if self._line is None or self._line.is_lost:
                    self._line = await self._connected(deadline)
                line = self._line
            await line.until_writable()
            self._check_open()  # it may have been closed meanwhile
            if not line.is_lost:
                return line

    async def _connected(self, deadline: float) -> "_Line":
        """A new connection; raises TimeoutError as soon as none can be made before the deadline."""
        clock = asyncio.get_running_loop().time
        while True:
            self._check_open()
            pause = self._redial.pause(clock())
            if clock() + pause >= deadline:
                raise TimeoutError
            await asyncio.sleep(pause)
            try:
                line = await self._connect()
            except OSError as error:
                self._redial.failed(clock(), reason(error))
                continue
            self._redial.succeeded()
            if self._is_closed:
                await line.close()
            self._check_open()
            return line

    async def _connect(self) -> "_Line":
        loop, where = asyncio.get_running_loop(), (self._peer.host, self._peer.port)
        if self._peer.is_udp:
            _, line = await loop.create_datagram_endpoint(lambda: _Line(self._exchange), remote_addr=where)
        else:
            transport, line = await loop.create_connection(lambda: _Line(self._exchange), *where)
            tune(transport.get_extra_info("socket"))
        return line

    def _not_ready(self, within: timedelta) -> Unavailable:
        if self._line is None or self._line.is_lost:
            return unreachable(self._peer, within, self._redial.why)
        return Unavailable(
            f"{self._peer}: the service took no request within {durations.render(within)}; nothing happened: retry "
            "later"
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Invalid(f"the client of {self._peer} is closed; make another one")


class _Line(asyncio.Protocol, asyncio.DatagramProtocol):
    """One connection, and the calls that wait for answers on it; by UDP one socket."""

    def __init__(self, exchange: Exchange) -> None:
        self.is_lost = False
        self._is_closing = False
        self._exchange = exchange
        self._intake = exchange.intake()
        self._waiting: dict[int, asyncio.Future[Answer | str]] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._transport: Any = None  # asyncio's two kinds have no type in common that can be written to

    async def ask(self, number: int, frame: bytes) -> Answer | str:
        """The outcome of a request: its answer, or why the connection was lost."""
        if number in self._waiting:
            raise Unavailable(f"{self._exchange.peer}: all request numbers are in use; retry later")
        outcome: asyncio.Future[Answer | str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = outcome
        try:
            self.write(frame)
            return await outcome
        finally:
            self._waiting.pop(number, None)

    def write(self, frame: bytes) -> None:
        """Hand a frame over."""
        if self._exchange.peer.is_udp:
            self._transport.sendto(frame)
        else:
            self._transport.write(frame)

    async def until_writable(self) -> None:
        """Wait while the other side does not read."""
        await self._writable.wait()

    async def close(self) -> None:
        """Send what was handed over, and end when the service has; `close_gently` of `sockets` says why."""
        self._is_closing = True
        self._settle_all("the client was closed")
        try:
            with suppress(TimeoutError, OSError):  # it was reset, and asyncio has not reported that yet
                async with asyncio.timeout(LINGER):
                    self._say_goodbye()
                    await self._lost.wait()
        finally:
            self._transport.abort()
        await self._lost.wait()

    def _say_goodbye(self) -> None:
        """Send nothing more; the transport closes when the other end does."""
        if self._exchange.peer.is_udp:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._settle_all(reason(error) if error else "closed by the service")
        self._writable.set()
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        try:
            answers = self._intake.feed(data)
        except BadFrame as error:
            self._settle_all(f"what came is no answer: {error}")
            self._transport.abort()
            self.is_lost = True
            return
        for answer in answers:
            self._settle(answer)

    def datagram_received(self, data: bytes, address: object) -> None:
        with suppress(BadFrame):
            for answer in self._exchange.intake().feed(data):
                self._settle(answer)

    def error_received(self, error: Exception) -> None:
        self._settle_all(reason(error))  # by UDP the system does not say which request it was about

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _settle(self, answer: Answer) -> None:
        waiter = self._waiting.get(answer.sn)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _settle_all(self, why: str) -> None:
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_result(why)
