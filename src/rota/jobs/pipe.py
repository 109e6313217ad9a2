"""Agent and the executor that asks a source what resources there are."""

from rota.runtime.pipes.channel import PipeMessage


class Listed(PipeMessage, frozen=True):
    """From an executor: what a source listed, as JSON, or why it did not."""

    attempt: int
    error: str = ""
    result: bytes = b""
