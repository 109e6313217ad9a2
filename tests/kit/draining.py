"""A RabbitMQ queue that refuses messages while it is full, and a consumer that drains it meanwhile.

The server then mixes nacks and acks of several messages, which a sink must keep apart. `drain` publishes through such a
queue and returns what was reported and what came out.
"""

import asyncio
import threading
from typing import NamedTuple
from uuid import uuid4

from rota.sinks import Message, Sink, open_sink
from tests.kit import rabbit
from tests.kit.sinks import Told, messages
from tests.kit.waiting import eventually

BATCH = 50
"""Messages of one call of `publish`."""

IDLE = 0.005
"""Seconds between looks at an empty queue."""


class Drained(NamedTuple):
    """What became of messages, each list in the order it was seen."""

    confirmed: list[Message]
    arrived: list[Message]
    """What the consumer took, repeats and all."""

    rejected: list[tuple[Message, str]]


async def drain(port: int, count: int, *, room: int = 20, window: int = 200, within: float = 120.0) -> Drained:
    """Publish `count` messages through a queue for `room` of them; the consumer begins once the queue was full."""
    exchange, told = f"draining-{uuid4().hex}", Told()
    queue = rabbit.make_queue(port, exchange, **{"x-max-length": room, "x-overflow": "reject-publish"})
    url = f"amqp://127.0.0.1:{port}?exchange={exchange}&window={window}"
    arrived: list[Message] = []
    is_over = threading.Event()
    try:
        async with asyncio.timeout(within), open_sink(url, told) as sink, asyncio.TaskGroup() as parts:
            publishing = parts.create_task(_publish(sink, count))
            await eventually(lambda: "full or failing" in (sink.trouble or ""))
            parts.create_task(asyncio.to_thread(_consume, port, queue, arrived, is_over))
            try:
                await publishing
                await sink.flush()
            finally:
                is_over.set()
    finally:
        rabbit.delete_queue(port, queue)
    return Drained(told.confirmed_ones, arrived, told.rejected_ones)


async def _publish(sink: Sink, count: int) -> None:
    for first in range(0, count, BATCH):
        await sink.publish(messages(min(BATCH, count - first), first=first))


def _consume(port: int, queue: str, arrived: list[Message], is_over: threading.Event) -> None:
    """Take messages out of the queue until it is empty after `is_over`."""
    with rabbit.channel(port) as ours:
        while True:
            was_over = is_over.is_set()
            method, properties, payload = ours.basic_get(queue, auto_ack=True)
            if method is not None:
                arrived.append(rabbit.message_of(properties, payload))
            elif was_over:
                return
            else:
                is_over.wait(IDLE)
