"""Agent and the proxy of its services: tables, sockets, workers, figures."""

from rota.runtime.pipes.channel import PipeMessage
from rota.services.core.figures import ProxyFigures
from rota.services.core.table import Table


class Serve(PipeMessage, frozen=True):
    """To a proxy: serve this service by this table from now on."""

    table: Table


class Listen(PipeMessage, frozen=True):
    """To a proxy: these are the service's sockets, and no others; they come along, those of TCP first."""

    service: str
    tcp: int
    udp: int


class Withdraw(PipeMessage, frozen=True):
    """To a proxy: take nothing new for this service; its workers work off what is there."""

    service: str


class Unserve(PipeMessage, frozen=True):
    """To a proxy: this service is not ours any more; answer what is left, and hang up."""

    service: str


class TakeSeat(PipeMessage, frozen=True):
    """To a proxy: a worker is being started; the line to it comes along."""

    worker: int
    service: str
    group: int
    generation: int
    capacity: int = 1
    grace: float = 0.0
    """Seconds that the worker's own watch over a request's time may come after the proxy's."""


class Dismiss(PipeMessage, frozen=True):
    """To a proxy: give this worker nothing more, and ask it to end when it has done what it holds."""

    worker: int
    patience: float
    """Seconds until it is reported that the worker still has work."""


class Gone(PipeMessage, frozen=True):
    """To a proxy: this worker has ended."""

    worker: int


class Close(PipeMessage, frozen=True):
    """To a proxy: take no new connections and no new requests; report when the present ones are done."""


class Ask(PipeMessage, frozen=True):
    """To a proxy: what are the figures of a service?"""

    number: int
    service: str


class Clear(PipeMessage, frozen=True):
    """To a proxy: drop what waits in these groups, or in all."""

    number: int
    service: str
    groups: tuple[int, ...] | None


class Told(PipeMessage, frozen=True):
    """From a proxy: the answer to the question of this number."""

    number: int
    figures: ProxyFigures | None = None
    dropped: dict[int, int] | None = None
    """Group → how many requests were dropped."""


class Unseated(PipeMessage, frozen=True):
    """From a proxy: the worker to dismiss is not here, or has answered all it had and was asked to end."""

    worker: int


class Overdue(PipeMessage, frozen=True):
    """From a proxy: this worker did not end a request in time; does it hold others?"""

    worker: int
    holds_others: bool


class HeldUp(PipeMessage, frozen=True):
    """From a proxy: this worker should have ended, and still has requests; about the oldest of them."""

    worker: int
    cmd: int
    seconds: float
    requests: int


class Idle(PipeMessage, frozen=True):
    """From a proxy that is closing: no request is left."""
