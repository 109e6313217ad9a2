"""Agent and a stream worker: the store that is lent to it."""

import msgspec

from rota.model.stream import KIND
from rota.node.pipes.brief import Order
from rota.node.pipes.channel import PipeMessage


class AskStore(PipeMessage, frozen=True):
    """From a worker that the store is lent to: a question (`store.lent`)."""

    frame: bytes


class StoreSaid(PipeMessage, frozen=True):
    """To such a worker: an answer."""

    frame: bytes


def stream_of(order: Order) -> str:
    """The stream whose group a task is of."""
    return str(msgspec.json.decode(order.spec).get("stream") or order.kind.removeprefix(KIND))
