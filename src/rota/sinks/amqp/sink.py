"""The sink on RabbitMQ: shards of resources, each on a channel of its own, on one connection that is made again.

Messages are encoded when they can be sent, many at a time and once per turn of the event loop. What is not confirmed
stays in its shard's window (`sinks.window`). When a channel breaks, because the server nacked something or ended it,
that shard alone opens another one and sends its window again; when the connection breaks, all do.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle

from rota.model.errors import RotaError, Unavailable
from rota.sinks.amqp import settings as read_settings
from rota.sinks.amqp.connection import AmqpConnection, connect
from rota.sinks.amqp.errors import NOT_FOUND, translate
from rota.sinks.amqp.publishing import Encoder
from rota.sinks.amqp.settings import AmqpSettings
from rota.sinks.intake import Intake
from rota.sinks.patience import RetryBackoff
from rota.sinks.port import Message, Outcomes
from rota.sinks.url import SinkUrl
from rota.sinks.window import ShardWindow

WRITE = 256 * 1024
"""About how many bytes of payload are encoded in one go."""

CONNECTION, BLOCKED = 0, -1
"""Where troubles of the whole connection are noted; those of a shard under its number."""

TOO_LARGE = re.compile(r"larger than.* max size (\d+)")
"""What RabbitMQ says, ending the channel, of a message beyond its own limit."""


async def open(url: SinkUrl, outcomes: Outcomes) -> "AmqpSink":
    """A sink that has logged in to its server."""
    sink = AmqpSink(read_settings.read(url), outcomes)
    await sink.start()
    return sink


class Shard:
    """Resources that share a channel; it listens to what the server says there."""

    def __init__(self, number: int, sink: "AmqpSink") -> None:
        self.number = number
        self.window = ShardWindow()
        self.patience = RetryBackoff()
        self.is_open = False
        """Does the channel take messages?"""
        self.is_ours_to_close = False
        """Did the channel break without the server ending it?"""
        self.broken = asyncio.Event()
        self.answered = asyncio.Event()
        """Of a broken channel: has the server said of everything whether it took it?"""
        self._sink = sink

    def opened(self) -> None:
        """The channel takes messages from now on."""
        self.is_open, self.is_ours_to_close = True, False
        self.broken.clear()
        if not len(self.window):
            self._sink.note(self.number, None)  # else the first confirmation will show that all is well

    def restart(self) -> None:
        """Everything is to be sent again."""
        self.is_open = False
        self.window.restart()

    def acked(self, number: int, is_multiple: bool) -> None:
        self._sink.confirm(self.window.confirm(number, is_multiple=is_multiple))
        if self.is_open:
            self.patience.has_worked()
            self._sink.note(self.number, None)
        elif self.window.is_answered:
            self.answered.set()

    def nacked(self, number: int, is_multiple: bool) -> None:
        self.window.refuse(number, is_multiple=is_multiple)
        if self.is_open:
            self.is_ours_to_close = True
            self.answered.clear()
            self._break(Unavailable(f"sink {self._sink.shown}: a queue is full or failing, and did not take a message"))
        if self.window.is_answered:
            self.answered.set()

    def returned(self, message_id: bytes, why: str) -> None:
        number = self.window.find(message_id)
        if number is not None and (message := self.window.reject(number)):
            self._sink.reject(message, why)

    def closed(self, code: int, text: str) -> None:
        self.is_ours_to_close = False
        self.answered.set()  # there will be no more
        if limit := TOO_LARGE.search(text):
            self._reject_larger(int(limit[1]))
            self._break(None)
        elif code == NOT_FOUND:
            self._break(Unavailable(f"sink {self._sink.shown}: {text}; trying to make it"))
        else:
            self._break(translate(self._sink.shown, code, text))

    def _reject_larger(self, most: int) -> None:
        for message in self.window.restart(lambda message: len(message.payload) > most):
            why = f"it has {len(message.payload)} bytes; RabbitMQ's max_message_size is {most}"
            self._sink.reject(message, why)

    def _break(self, error: RotaError | None) -> None:
        self.is_open = False
        self._sink.note(self.number, error)
        self.broken.set()


class AmqpSink:
    """RabbitMQ."""

    def __init__(self, settings: AmqpSettings, outcomes: Outcomes) -> None:
        self.shown = settings.shown
        self._settings = settings
        self._intake = Intake(settings.shown, settings.window, outcomes)
        self._encoder = Encoder(
            exchange=settings.exchange,
            routing_key=settings.routing_key,
            is_mandatory=settings.is_mandatory,
            channels=settings.channels,
            largest_payload=settings.largest,
        )
        self._shards = [Shard(number, self) for number in range(1, settings.channels + 1)]
        self._addresses = cycle(settings.addresses)
        self._patience = RetryBackoff()
        self._troubles: dict[int, RotaError] = {}
        self._confirmed: list[Message] = []
        """Confirmations that have not been reported yet."""
        self._will_send = False
        self._connection: AmqpConnection | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> str | None:
        return self._intake.trouble

    async def start(self) -> None:
        """Connect for the first time, to any of the hosts; the last one's error if there is none."""
        for _ in self._settings.addresses[1:]:
            with suppress(Unavailable):
                await self._enter()
                break
        else:
            await self._enter()
        self._keeper = asyncio.create_task(self._keep(), name=f"sink {self.shown}")

    async def publish(self, messages: Sequence[Message]) -> None:
        await self._intake.admit(len(messages))
        has_rejected = False
        for message in messages:
            try:
                route = self._encoder.check(message)
            except ValueError as error:
                self._intake.rejected(message, str(error))
                has_rejected = True
            else:
                self._shards[route.channel - 1].window.add(message)
        if has_rejected:
            self._recount()
        self._send_soon()

    async def flush(self) -> None:
        await self._intake.emptied()

    async def close(self) -> None:
        self._intake.close()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._connection is not None:
            await self._connection.close()

    # Reports of shards and the connection

    def confirm(self, messages: list[Message]) -> None:
        """These are confirmed; reported when there is nothing more to read."""
        self._confirmed += messages

    def reject(self, message: Message, why: str) -> None:
        """This message can never be delivered."""
        self._intake.rejected(message, why)

    def note(self, where: int, error: RotaError | None) -> None:
        """Note that a shard or the connection has trouble, or has recovered."""
        if self._troubles.get(where) is error:
            return
        if error is None:
            del self._troubles[where]
        else:
            self._troubles[where] = error
        self._intake.troubled(next(iter(self._troubles.values()), None))

    def end_of_news(self) -> None:
        if self._confirmed:
            confirmed, self._confirmed = self._confirmed, []
            self._patience.has_worked()
            self._intake.confirmed(confirmed)
        self._recount()

    def may_send_changed(self) -> None:
        why = self._connection.blocked if self._connection else None
        blocked = Unavailable(f"sink {self.shown}: the server takes no messages ({why})") if why else None
        self.note(BLOCKED, blocked)
        self._send_soon()

    # Sending

    def _send_soon(self) -> None:
        """Send at the end of this turn of the loop, together with what else is published in it."""
        if not self._will_send:
            self._will_send = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._will_send = False
        connection = self._connection
        if connection is None:
            return
        for shard in self._shards:
            while shard.is_open and connection.may_send and shard.window.has_unsent:
                connection.send(self._encoder.encode(shard.window.send(WRITE), connection.largest_frame))

    def _recount(self) -> None:
        self._intake.remain(sum(len(shard.window) for shard in self._shards))

    # Staying connected

    async def _keep(self) -> None:
        while True:
            await self._serve()
            while self._connection is None:
                await asyncio.sleep(self._patience.next())
                try:
                    await self._enter()
                except RotaError as error:
                    self.note(CONNECTION, error)

    async def _enter(self) -> None:
        """Connect to the next host and open every channel, or say why not."""
        connection = await connect(self._settings, next(self._addresses), self)
        try:
            for shard in self._shards:
                await connection.open_channel(shard.number, shard)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self.note(CONNECTION, None)
        for shard in self._shards:
            shard.opened()
        self.may_send_changed()

    async def _serve(self) -> None:
        """Keep the channels open until the connection is lost."""
        connection = self._connection
        assert connection is not None
        keepers = [asyncio.create_task(self._keep_channel(connection, shard)) for shard in self._shards]
        try:
            await asyncio.wait([connection.lost])  # to await it would be to cancel it when we are
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.wait(keepers)
        self._connection = None
        self.note(CONNECTION, connection.lost.result())
        self.note(BLOCKED, None)
        for shard in self._shards:
            shard.restart()
        self._recount()

    async def _keep_channel(self, connection: AmqpConnection, shard: Shard) -> None:
        """Whenever the channel breaks, wait, open it again, and send what was not confirmed."""
        while True:
            await shard.broken.wait()
            try:
                await self._reopen(connection, shard)
            except RotaError as error:
                self.note(shard.number, error)

    async def _reopen(self, connection: AmqpConnection, shard: Shard) -> None:
        if shard.is_ours_to_close:
            await self._close_channel(connection, shard)
        shard.restart()
        self._recount()
        await asyncio.sleep(shard.patience.next())
        await connection.open_channel(shard.number, shard)
        shard.opened()
        self._send_soon()

    async def _close_channel(self, connection: AmqpConnection, shard: Shard) -> None:
        """End a channel on which something was not taken.

        First the server says what it took of the rest: if the channel ended before, all of it would go again, and be
        taken twice.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.timeout.total_seconds()):
                await shard.answered.wait()
        if shard.is_ours_to_close:  # the server has not ended it meanwhile
            await connection.close_channel(shard.number, "a message was not taken")
