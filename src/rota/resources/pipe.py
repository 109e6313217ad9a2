"""Agent and a worker of resource tasks: start and stop a task, how it ended, what it saved.

Stream tasks are resource tasks too, and report their start and end with the same messages.
"""

from rota.runtime.pipes.brief import Order
from rota.runtime.pipes.channel import PipeMessage


class StartTask(PipeMessage, frozen=True):
    """To a host worker."""

    order: Order


class StopTask(PipeMessage, frozen=True):
    """To a host worker."""

    task: str
    epoch: int


class TaskStarted(PipeMessage, frozen=True):
    """From a worker: the task's function runs."""

    task: str
    epoch: int


class TaskEnded(PipeMessage, frozen=True):
    """From a worker: the task's function ended; `error` is empty when it was asked to or returned."""

    task: str
    epoch: int
    was_asked: bool
    error: str = ""


class TaskSilent(PipeMessage, frozen=True):
    """From a worker: the task gave no sign of life for too long."""

    task: str
    epoch: int
    why: str


class Save(PipeMessage, frozen=True):
    """From a worker: what the task wants to be kept for the one after it, as JSON."""

    task: str
    epoch: int
    state: bytes
