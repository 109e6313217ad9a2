"""Agent and a worker whose tasks may emit: the line to the relay."""

from rota.runtime.pipes.channel import PipeMessage


class EmitTo(PipeMessage, frozen=True):
    """To a worker: the line to the relay comes along; one that it had before is over."""


class LineLost(PipeMessage, frozen=True):
    """From a worker: its line to the relay broke."""


class Unsent(PipeMessage, frozen=True):
    """From a worker that ends: `count` messages have no ack."""

    count: int
