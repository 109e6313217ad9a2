"""Agent and worker, whatever the worker does: it can work, it lives, it should end."""

from rota.node.pipes.channel import Message


class Registered(Message, frozen=True):
    """From a worker: it can work."""


class StartFailed(Message, frozen=True):
    """From a worker: it cannot work, and this is why."""

    why: str


class Beat(Message, frozen=True):
    """From a worker: its loop turns."""

    done: int = 0
    """Pieces of work finished since it started."""


class Finish(Message, frozen=True):
    """To a worker: take nothing new, finish, end."""
