"""What a worker is for: the brief that it is forked with, and the task or the attempt in it."""

from datetime import datetime

import msgspec

from rota.runtime.pipes.channel import PipeMessage

OUTPUT, PAGE, ORDERS, LIFELINE = 0, 1, 2, 2
"""The descriptors that a worker of runs gets: where to write, the page with the deadline, and where orders come from if
it is an executor; if it is there for one attempt, the lifeline that all of these share."""

MARK = 16
"""Bytes of a mark."""


class Order(msgspec.Struct, frozen=True):
    """A resource task that a worker should run."""

    task: str
    epoch: int
    kind: str
    """Name of the resource's declaration in the app."""

    resource: str
    slot: int
    spec: bytes = b"{}"
    """Its fields, as JSON."""

    saved: bytes = b"{}"
    """What the task before it saved, as JSON."""

    is_exclusive: bool = False


class Emitting(msgspec.Struct, frozen=True):
    """How a worker hands messages over to the relay."""

    sink: str = ""
    """Where messages of kinds without a sink of their own go; empty: nowhere."""

    messages: int = 10_000
    bytes: int = 16 * 2**20
    """How much its outbox holds."""

    flush: float = 2.0
    """Seconds that a worker which is to end waits for acks."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One try of a run, or of asking a source."""

    run: str
    attempt: int
    job: str
    due: datetime | None = None
    token: int = 0
    payload: bytes = b""
    source: str = ""
    """The kind whose source is to be asked; then there is no job."""

    argv: tuple[str, ...] = ()
    """The program of a command; empty for a function."""

    env: dict[str, str] = {}
    cwd: str | None = None
    is_from_api: bool = False
    """Was its command added over the API? Then it runs as `[commands]` says."""


class Deadline(PipeMessage, frozen=True):
    """To a worker with exclusive work: until when work that must not be done twice may go on."""

    stop_at: float
    dead_by: float


class Brief(msgspec.Struct, frozen=True):
    """What a worker is for."""

    worker: int
    role: str
    pool: str
    slot: int
    generation: int
    node: str
    beat: float = 1.0
    """Seconds between signs of life."""

    service: str = ""
    group: str = ""
    has_line: bool = False
    """Does a line to a proxy come along?"""

    order: Order | None = None
    attempt: Attempt | None = None
    """Of a worker that is there for one attempt."""

    mark: bytes = b""
    """What sets an answer apart from output, in what a worker of runs writes (`jobs.node.output`)."""

    deadline: Deadline | None = None
    """Until when exclusive work may go on, if nothing later is said."""

    emitting: Emitting = Emitting()
    letters: str = ""
    """The folder for records that streams could not read."""

    letters_at: int | None = None
    """The same folder, opened by the loader for a user that cannot get there by its path."""

    printed: str = ""
    """The folder for lines that workers print; empty: they are not kept."""

    printed_at: int | None = None
    """The same folder, opened by the loader likewise."""
