"""Agent and loader: the app is imported, workers are forked and reaped."""

from rota.runtime.pipes.brief import Brief
from rota.runtime.pipes.channel import PipeMessage
from rota.sdk.summary import AppSummary


class Fork(PipeMessage, frozen=True):
    """To the loader: fork a worker; its channel, lifeline and stack file come along, and what else it needs."""

    brief: Brief
    extras: int = 0
    """How many descriptors come after those."""


class Leave(PipeMessage, frozen=True):
    """To the loader: end."""


class Loaded(PipeMessage, frozen=True):
    """From the loader: the app is imported."""

    app: AppSummary
    code: str
    """Digest of the app's source files."""

    warnings: tuple[str, ...] = ()
    version: str = ""
    """As the app's module says, if it does."""


class AskSources(PipeMessage, frozen=True):
    """To a loader: what did it import?"""

    number: int


class SourcesAre(PipeMessage, frozen=True):
    """From a loader: the app's modules as it imported them (`runtime.loader.kept`); empty if they are too large."""

    number: int
    data: bytes


class LoadFailed(PipeMessage, frozen=True):
    """From the loader: the app could not be imported, and this is why."""

    why: str
    details: str = ""


class Forked(PipeMessage, frozen=True):
    """From the loader: the worker is there."""

    worker: int
    pid: int


class ForkRefused(PipeMessage, frozen=True):
    """From the loader: it cannot fork, and this is why."""

    worker: int
    why: str


class Reaped(PipeMessage, frozen=True):
    """From the loader: one of its workers ended, and what it had used."""

    pid: int
    status: int
    cpu_seconds: float = 0.0
    peak_memory: int = 0
