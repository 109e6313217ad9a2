"""Every room of a live platform, heard by two tasks on two nodes; what they hear is in RabbitMQ once."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

import rota

PLATFORM = os.environ.get("LIVE_PLATFORM", "ws://127.0.0.1:9905/rooms")
SINK = os.environ.get("LIVE_SINK", "amqp://127.0.0.1?exchange=live")

app = rota.App("live")


# A connection that was forgotten looks like a quiet room. Rota starts a task elsewhere that hears nothing for so long.
@app.resource(replicas=2, start_within="20s", silent_after="10s", sink=SINK)
async def room(task: rota.Task) -> None:
    while True:
        with suppress(WebSocketException, OSError):  # it was cut, or nobody is there: again
            async with connect(f"{PLATFORM}/{task.resource}", compression=None) as connection:
                async for text in connection:
                    await task.emit(text, key=json.loads(text)["number"])  # one message, whichever task heard it
        await asyncio.sleep(0.2)


@room.source(every="30s")
async def rooms() -> AsyncIterator[rota.Resource]:
    async with connect(PLATFORM) as connection:
        for name in json.loads(await connection.recv()):
            yield room(name)
