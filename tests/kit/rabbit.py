"""What a test sees of a RabbitMQ beside the sink: queues that it makes, and what arrived in them. Pika does that."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pika
from pika.adapters.blocking_connection import BlockingChannel

from rota.model.ids import NodeId
from rota.sinks import Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@contextmanager
def channel(port: int, vhost: str = "/") -> Iterator[BlockingChannel]:
    """A channel of our own."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost, heartbeat=0))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def make_queue(port: int, exchange: str, *, key: str = "#", **arguments: object) -> str:
    """A durable queue that gets what the exchange routes by `key`; named for the exchange, which is made too."""
    with channel(port) as ours:
        ours.exchange_declare(exchange, "topic", durable=True)
        ours.queue_declare(exchange, durable=True, arguments=arguments)
        ours.queue_bind(exchange, exchange, key)
    return exchange


def take(port: int, queue: str, most: int | None = None) -> list[tuple[Message, str]]:
    """What is in the queue, taken out of it: each message as the sink was given it, and its routing key."""
    taken: list[tuple[Message, str]] = []
    with channel(port) as ours:
        while most is None or len(taken) < most:
            method, properties, payload = ours.basic_get(queue, auto_ack=True)
            if method is None:
                break
            taken.append((message_of(properties, payload), method.routing_key))
    return taken


def count(port: int, queue: str) -> int:
    """How many messages are in the queue."""
    with channel(port) as ours:
        return int(ours.queue_declare(queue, passive=True).method.message_count)


def delete_queue(port: int, exchange: str) -> None:
    """Delete what `make_queue` made."""
    with channel(port) as ours:
        ours.queue_delete(exchange)
        ours.exchange_delete(exchange)


def message_of(properties: pika.BasicProperties, payload: bytes) -> Message:
    """A message as the sink was given it."""
    headers = dict(properties.headers)
    assert properties.delivery_mode == 2, "not persistent"
    milliseconds = headers.pop("rota-time-ms")
    assert properties.timestamp == milliseconds // 1000
    return Message(
        id=bytes.fromhex(properties.message_id),
        kind=headers.pop("rota-kind"),
        resource=headers.pop("rota-resource"),
        node=NodeId(headers.pop("rota-node")),
        time=EPOCH + timedelta(milliseconds=milliseconds),
        key=headers.pop("rota-key", ""),
        payload=payload,
        headers=headers,
    )
