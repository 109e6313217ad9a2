"""What becomes of a connection to something that is not the RabbitMQ we hoped for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import cast

import pika
import pytest
from pika import spec

from rota.model.errors import Invalid, RotaError, Unavailable
from rota.sinks import open_sink
from rota.sinks import url as urls
from rota.sinks.amqp import settings
from rota.sinks.amqp.connection import AmqpConnection
from tests.kit.sinks import Told

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[str]:
    """Something that listens, and the URL of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(8)
            await talk(reader, writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield f"amqp://127.0.0.1:{listener.sockets[0].getsockname()[1]}?timeout=30s"


async def opening(talk: Talk) -> RotaError:
    async with server(talk) as url:
        with pytest.raises(RotaError) as error:
            async with open_sink(url, Told()):
                pass
    return error.value


def says(*methods: object, channel: int = 0) -> bytes:
    return b"".join(pika.frame.Method(channel, method).marshal() for method in methods)


class Deaf:
    """A transport, a listener and an owner who take note of nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


async def connected() -> AmqpConnection:
    """A connection that hears what the test feeds it."""
    connection = AmqpConnection(settings.read(urls.parse("amqp://127.0.0.1?timeout=30s")), Deaf())
    connection.connection_made(cast(asyncio.Transport, Deaf()))
    return connection


async def answered(connection: AmqpConnection, asking: Coroutine[None, None, None], *answers: bytes) -> None:
    """Return when what was asked has these answers."""
    asked = asyncio.create_task(asking)
    for answer in answers:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.data_received(answer)
    await asyncio.wait_for(asked, 30)


OPENED = [
    says(method, channel=1) for method in (spec.Channel.OpenOk(), spec.Exchange.DeclareOk(), spec.Confirm.SelectOk())
]
CLOSED = spec.Channel.Close(404, "NOT_FOUND - no exchange", 0, 0)


async def test_a_web_server_is_no_rabbitmq() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    error = await opening(talk)
    assert isinstance(error, Unavailable)
    assert "this is not AMQP 0-9-1" in str(error)


async def test_a_server_that_hangs_up_is_unavailable() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    error = await opening(talk)
    assert isinstance(error, Unavailable)
    assert "the server hung up" in str(error)


async def test_a_server_without_passwords_is_invalid() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says(spec.Connection.Start(mechanisms=b"EXTERNAL", locales=b"en_US")))
        await reader.read()

    error = await opening(talk)
    assert isinstance(error, Invalid)
    assert "enable its mechanism PLAIN" in str(error)


@pytest.mark.parametrize("answers_ours_too", [True, False])
async def test_a_channel_that_both_sides_close_at_once_takes_no_other_channel_along(answers_ours_too: bool) -> None:
    connection = await connected()
    await answered(connection, connection.open_channel(1, Deaf()), *OPENED)
    await answered(connection, connection.close_channel(1, "a message was not taken"), says(CLOSED, channel=1))
    if answers_ours_too:
        connection.data_received(says(spec.Channel.CloseOk(), channel=1))
    await answered(connection, connection.open_channel(1, Deaf()), *OPENED)
    await answered(connection, connection.close_channel(1, "once more"), says(spec.Channel.CloseOk(), channel=1))
    assert not connection.lost.done()


async def test_a_close_ok_that_nobody_asked_for_is_garbage() -> None:
    connection = await connected()
    connection.data_received(says(spec.Channel.CloseOk(), channel=1))
    assert "ChannelCloseOk, which answers nothing" in str(connection.lost.result())


async def test_a_server_with_too_few_channels_is_invalid() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says(spec.Connection.Start(mechanisms=b"PLAIN", locales=b"en_US")))
        await reader.read(1)
        writer.write(says(spec.Connection.Tune(1, 4096, 5)))
        await reader.read()

    error = await opening(talk)
    assert isinstance(error, Invalid)
    assert "channels=2; the server takes 1" in str(error)
