"""Agent and a stream worker: the store that is lent to it."""

import msgspec

from rota.runtime.pipes.brief import Order
from rota.runtime.pipes.channel import PipeMessage
from rota.streams.core.records import KIND


class AskStore(PipeMessage, frozen=True):
    """From a worker that the store is lent to: a question (`streams.node.lent`)."""

    frame: bytes


class StoreSaid(PipeMessage, frozen=True):
    """To such a worker: an answer."""

    frame: bytes


def stream_of(order: Order) -> str:
    """The stream whose group a task is of."""
    return str(msgspec.json.decode(order.spec).get("stream") or order.kind.removeprefix(KIND))
