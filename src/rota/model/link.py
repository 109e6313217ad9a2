"""What nodes say to each other over the node link.

Plain records: an adapter of the link turns them into its own messages at the edge. Every time in them is a wall clock's
and every duration a `timedelta`: an `Instant` means nothing on another machine.
"""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from rota.model.ids import NodeId, Revision, SessionId, TermNumber


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a node is, and what it has left."""

    score: float
    """0 idle … 100 busy."""

    slots: int
    slots_used: int
    executors: int
    executors_used: int


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers a peer check, and how it is."""

    node: NodeId
    session: SessionId
    wall: datetime
    load: Load
    relay_map: int = 0
    """The version of the relay map that it goes by; 0 for none."""


class Whom(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a link is meant for; without a session, any life of that node."""

    node: NodeId
    session: SessionId | None = None

    def is_met_by(self, presence: Presence) -> bool:
        """Is this the one?"""
        return self.node == presence.node and self.session in (None, presence.session)

    def __str__(self) -> str:
        return f"node {self.node}" + (f", session {self.session}" if self.session else "")


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """A task came into a phase."""

    task: str
    epoch: Revision
    phase: str
    at: datetime
    why: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a node tells the leader: how it is, what changed since the last report, and a digest of all it runs."""

    node: NodeId
    session: SessionId
    sequence: int
    """1, 2, 3 … within a session; a report that comes after a later one is dropped."""

    load: Load
    changes: tuple[TaskChange, ...] = ()
    digest: bytes = b""
    """Of the whole running set; where it differs from the leader's, the leader asks for a resync."""

    resync: str = ""
    """The nonce this report answers: then `changes` is the whole running set."""


class NotLeader(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver of a report does not lead; what it knows of who does."""

    term: TermNumber | None = None
    leader: NodeId | None = None


class AttemptId(msgspec.Struct, frozen=True):
    """One try of a run."""

    run: str
    number: int

    def __str__(self) -> str:
        return f"run {self.run}, attempt {self.number}"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start an attempt under its epoch."""

    attempt: AttemptId
    epoch: Revision
    job: str
    payload: bytes = b""
    timeout: timedelta | None = None
    """How long the attempt may run; None for as long as it takes."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt has an executor, under the name of `reservation`."""

    reservation: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The node does not take the attempt, and why."""

    why: str


class Verb(StrEnum):
    """What can be asked of a task or an attempt."""

    STOP = "stop"
    RESTART = "restart"
    INTERRUPT = "interrupt"


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """Do something to a task, named by its id, or to an attempt, under its epoch."""

    verb: Verb
    what: str | AttemptId
    epoch: Revision
    why: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One emitted message on its way to the relay of its resource."""

    id: bytes
    """The hash by which copies are recognised."""

    resource: str
    epoch: Revision
    payload: bytes
    to: str = ""
    """The routing key, where the sink knows one."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that are handed over and acked together."""

    sequence: int
    """Grows from batch to batch of one hand-over."""

    messages: tuple[Message, ...]


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a log, and where it begins."""

    offset: int
    data: bytes
