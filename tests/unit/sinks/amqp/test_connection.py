"""What becomes of a connection to something that is not the RabbitMQ we hoped for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pika
import pytest
from pika import spec

from rota.model.errors import Invalid, RotaError, Unavailable
from rota.sinks import open_sink
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


def says(*methods: object) -> bytes:
    return b"".join(pika.frame.Method(0, method).marshal() for method in methods)


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


async def test_a_server_with_too_few_channels_is_invalid() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says(spec.Connection.Start(mechanisms=b"PLAIN", locales=b"en_US")))
        await reader.read(1)
        writer.write(says(spec.Connection.Tune(1, 4096, 5)))
        await reader.read()

    error = await opening(talk)
    assert isinstance(error, Invalid)
    assert "channels=2; the server takes 1" in str(error)
