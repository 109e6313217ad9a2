"""One connection to a RabbitMQ: login, channels, heartbeats; everything else goes to listeners.

A connection is used once: when it breaks, `lost` says why, and `sink` makes another. The server's messages on a channel
go to that channel's `ChannelListener` at once, and `end_of_news` is called when there is nothing more to read for the
moment, so that many confirmations can be reported together.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar, cast

from rota.model.errors import Invalid, RotaError, Unavailable
from rota.sinks.amqp import methods
from rota.sinks.amqp.errors import translate
from rota.sinks.amqp.frames import BEAT, BODY, HEADER, METHOD, PROTOCOL, AmqpDecoder, Frame, Garbled, Value
from rota.sinks.amqp.methods import Ack, Nack, Return, Told, Tune
from rota.sinks.amqp.publishing import returned_id
from rota.sinks.amqp.settings import AmqpSettings

LARGEST_FRAME = 131_072
WRITE_BUFFER = 256 * 1024
"""Bytes that may wait for the network before we stop sending."""

GOODBYE = 1.0
"""Seconds that the server has to close in order."""

US: Mapping[str, Value] = {
    "product": "rota",
    "capabilities": {
        "publisher_confirms": True,
        "basic.nack": True,
        "connection.blocked": True,
        "authentication_failure_close": True,
    },
}

T = TypeVar("T", bound=Told)


class ChannelListener(Protocol):
    """The callbacks of a channel's owner."""

    def acked(self, number: int, is_multiple: bool) -> None:
        """The server has the message of that number, or all up to it."""

    def nacked(self, number: int, is_multiple: bool) -> None:
        """The server could not take the message of that number, or all up to it."""

    def returned(self, message_id: bytes, why: str) -> None:
        """No queue wants this message."""

    def closed(self, code: int, text: str) -> None:
        """The server ended the channel."""


class ConnectionListener(Protocol):
    """The callbacks of a connection's owner."""

    def end_of_news(self) -> None:
        """Nothing more to read for the moment."""

    def may_send_changed(self) -> None:
        """`may_send` or `blocked` is another."""


class AmqpConnection(asyncio.Protocol):
    """A connection, from the first byte to the last."""

    def __init__(self, settings: AmqpSettings, news: ConnectionListener) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[RotaError] = loop.create_future()
        """Why it ended, once it has."""
        self.blocked: str | None = None
        """Why the server takes no messages."""
        self.largest_frame = LARGEST_FRAME
        self._settings, self._news, self._loop = settings, news, loop
        self._gone = asyncio.Event()
        self._decoder = AmqpDecoder()
        self._listeners: dict[int, ChannelListener] = {}
        self._answers: dict[int, asyncio.Future[Told]] = {}
        self._returning: dict[int, Return] = {}
        self._closing: set[int] = set()
        """Channels that we are closing."""
        self._crossed: set[int] = set()
        """Channels that both sides closed at once: the server may still answer our close."""
        self._is_paused = False
        self._has_heard = self._has_said = True
        self._silent_ticks = 0
        self._ticker: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def may_send(self) -> bool:
        """Is there anything against sending messages?"""
        return not (self._is_paused or self.blocked is not None or self.lost.done())

    def send(self, data: bytes) -> None:
        """Hand bytes to the network."""
        assert self._transport is not None
        self._has_said = True
        self._transport.write(data)

    async def log_in(self) -> None:
        """Negotiate the connection and open the vhost; the error has the server's reason."""
        settings = self._settings
        start = await self._ask(0, PROTOCOL, methods.Start)
        if "PLAIN" not in start.mechanisms:
            raise Invalid(f"sink {settings.shown}: the server takes no passwords; enable its mechanism PLAIN")
        secret = f"\0{settings.user}\0{settings.password()}".encode()
        tune = await self._ask(0, methods.start_ok(US, "PLAIN", secret), Tune)
        agreed = self._agree(tune)
        self.send(methods.tune_ok(agreed))
        self._tick(agreed.heartbeat / 2)
        await self._ask(0, methods.open_vhost(settings.vhost), methods.Opened)

    async def open_channel(self, number: int, listener: ChannelListener) -> None:
        """Open a channel that confirms, and see to the exchange."""
        await self._ask(number, methods.open_channel(number), methods.ChannelOpened)
        self._crossed.discard(number)
        settings = self._settings
        if settings.exchange:
            is_passive = not settings.is_declared or settings.exchange.startswith("amq.")
            kind = settings.exchange_type
            declare = methods.declare_exchange(number, settings.exchange, kind, is_passive=is_passive)
            await self._ask(number, declare, methods.Declared)
        await self._ask(number, methods.confirm_select(number), methods.Selected)
        self._listeners[number] = listener

    async def close_channel(self, number: int, why: str) -> None:
        """End a channel; what the server had to say on it has been said when this returns."""
        self._closing.add(number)
        try:
            await self._ask(number, methods.close_channel(number, why), methods.ChannelCloseOk)
        finally:
            self._closing.discard(number)
        self._forget(number)

    async def close(self) -> None:
        """Close in order, waiting only briefly."""
        with suppress(RotaError, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await self._ask(0, methods.close("goodbye"), methods.CloseOk)
        self._end(Unavailable(f"sink {self._settings.shown} was closed"))
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE * 2):
                await self._gone.wait()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return  # the listener counts from the beginning again
        self._has_heard = True
        try:
            for frame in self._decoder.feed(data):
                self._take(frame)
        except ValueError as error:
            self._break(str(error))
        self._news.end_of_news()

    def eof_received(self) -> None:
        self._break("the server hung up")

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        self._break(f"the connection broke: {error}" if error else "the connection was closed")

    def pause_writing(self) -> None:
        self._is_paused = True
        self._news.may_send_changed()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._news.may_send_changed()

    # What the server says

    def _take(self, frame: Frame) -> None:
        if frame.type == METHOD:
            method = methods.parse(frame.payload)
            if frame.channel in self._listeners:
                self._on_channel(frame.channel, self._listeners[frame.channel], method)
            else:
                self._off_channel(frame.channel, method)
        elif frame.type == HEADER and frame.channel in self._returning:
            back = self._returning.pop(frame.channel)
            listener = self._listeners[frame.channel]
            listener.returned(returned_id(frame.payload), f"{back.text} for routing key {back.routing_key}")
        elif frame.type == HEADER or (frame.type == BODY and frame.channel not in self._listeners):
            raise Garbled("the server sent content that was not requested")

    def _on_channel(self, number: int, listener: ChannelListener, method: Told) -> None:
        match method:
            case Ack():
                listener.acked(method.number, method.is_multiple)
            case Nack():
                listener.nacked(method.number, method.is_multiple)
            case Return():
                self._returning[number] = method
            case methods.ChannelClosed():
                self.send(methods.channel_close_ok(number))
                self._forget(number)
                if number in self._closing:
                    self._crossed.add(number)
                    self._answer(number, methods.ChannelCloseOk())
                else:
                    self._refuse_answer(number, translate(self._settings.shown, method.code, method.text))
                listener.closed(method.code, method.text)
            case _:
                self._off_channel(number, method)

    def _off_channel(self, number: int, method: Told) -> None:
        match method:
            case methods.Closed():
                self.send(methods.close_ok())
                self._end(translate(self._settings.shown, method.code, method.text))
            case methods.ChannelClosed():
                self.send(methods.channel_close_ok(number))
                self._refuse_answer(number, translate(self._settings.shown, method.code, method.text))
            case methods.Blocked():
                self.blocked = method.why or "no reason given"
                self._news.may_send_changed()
            case methods.Unblocked():
                self.blocked = None
                self._news.may_send_changed()
            case Ack() | Nack() | Return():
                raise Garbled(f"the server said {type(method).__name__} on channel {number}, which is not open")
            case methods.ChannelCloseOk() if number in self._crossed:
                self._crossed.discard(number)
            case _:
                self._answer(number, method)

    def _answer(self, number: int, method: Told) -> None:
        answer = self._answers.get(number)
        if answer is None or answer.done():
            raise Garbled(f"the server said {type(method).__name__}, which answers nothing")
        answer.set_result(method)

    def _refuse_answer(self, number: int, error: RotaError) -> None:
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _forget(self, number: int) -> None:
        self._listeners.pop(number, None)
        self._returning.pop(number, None)

    # What we say

    async def _ask(self, channel: int, data: bytes, kind: type[T]) -> T:
        """Say something and return the answer; Unavailable if none comes in time."""
        if self.lost.done():
            raise self.lost.result()
        answer: asyncio.Future[Told] = self._loop.create_future()
        self._answers[channel] = answer
        self.send(data)
        try:
            async with asyncio.timeout(self._settings.timeout.total_seconds()):
                method = await answer
        except TimeoutError:
            self._break(f"no answer within {self._settings.timeout}")  # a late one would be taken for another's
            raise self.lost.result() from None
        finally:
            del self._answers[channel]
        if not isinstance(method, kind):
            raise Unavailable(f"sink {self._settings.shown}: {type(method).__name__} is no answer to what we asked")
        return method

    def _agree(self, tune: Tune) -> Tune:
        """The smaller of both sides' limits."""
        settings = self._settings
        if tune.most_channels and tune.most_channels < settings.channels:
            raise Invalid(f"sink {settings.shown}: channels={settings.channels}; the server takes {tune.most_channels}")
        self.largest_frame = min(LARGEST_FRAME, tune.largest_frame or LARGEST_FRAME)
        ours = int(settings.heartbeat.total_seconds())
        return Tune(tune.most_channels, self.largest_frame, min(ours, tune.heartbeat or ours))

    def _tick(self, period: float) -> None:
        """Give a sign of life where there was none for half a heartbeat, and miss the other side's after two."""
        if self.lost.done():
            return
        self._silent_ticks = 0 if self._has_heard else self._silent_ticks + 1
        if self._silent_ticks >= 4:
            self._break(f"the server has been silent for {period * 4:g} s")
            return
        if not self._has_said:
            self.send(BEAT)
        self._has_heard = self._has_said = False
        self._ticker = self._loop.call_later(period, self._tick, period)

    # The end

    def _break(self, why: str) -> None:
        self._end(Unavailable(f"sink {self._settings.shown}: {why}"))

    def _end(self, error: RotaError) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self.lost.done():
            return
        self.lost.set_result(error)
        for number in list(self._answers):
            self._refuse_answer(number, error)
        if self._transport is not None:
            # What was sent just before should still reach the server; a peer that does not read is disconnected.
            self._transport.close()
            self._loop.call_later(GOODBYE, self._transport.abort)


async def connect(settings: AmqpSettings, address: tuple[str, int], news: ConnectionListener) -> AmqpConnection:
    """A connection that is logged in."""
    loop = asyncio.get_running_loop()
    host, port = address
    try:
        async with asyncio.timeout(settings.timeout.total_seconds()):
            _, connection = await loop.create_connection(
                partial(AmqpConnection, settings, news), host, port, ssl=settings.tls
            )
    except TimeoutError:
        raise Unavailable(f"sink {settings.shown}: no connection to {host}:{port} within {settings.timeout}") from None
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise Invalid(f"sink {settings.shown}: TLS with {host}:{port} failed ({why}); check ca, cert and key") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise Unavailable(f"sink {settings.shown}: cannot connect to {host}:{port} ({why}); is it running?") from None
    try:
        await connection.log_in()
    except BaseException:
        await connection.close()
        raise
    return connection
