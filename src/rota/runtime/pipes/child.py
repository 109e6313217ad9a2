"""Agent and a process of its own that serves it, a proxy or the relay: end."""

from rota.runtime.pipes.channel import PipeMessage


class GiveUp(PipeMessage, frozen=True):
    """To a proxy: answer what is left, hang up, end."""
