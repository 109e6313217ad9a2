"""Agent and worker, whatever the worker does: it can work, it lives, it should end."""

from rota.runtime.pipes.channel import PipeMessage


class Registered(PipeMessage, frozen=True):
    """From a worker: it can work."""


class StartFailed(PipeMessage, frozen=True):
    """From a worker: it cannot work, and this is why."""

    why: str


class Beat(PipeMessage, frozen=True):
    """From a worker: its loop turns."""

    done: int = 0
    """Pieces of work finished since it started."""


class Finish(PipeMessage, frozen=True):
    """To a worker: take nothing new, finish, end."""
