"""What nodes say to each other over the node link.

Plain records: an adapter of the link turns them into its own messages at the edge. Every time in them is a wall clock's
and every duration a `timedelta`: an `Instant` means nothing on another machine.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from rota.model.ids import NodeId, Revision, SessionId, TermNumber


@dataclass(frozen=True, kw_only=True)
class Load:
    """How busy a node is, and what it has left."""

    score: float
    """0 idle … 100 busy."""

    slots: int
    slots_used: int
    executors: int
    executors_used: int


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Who answers a peer check, and how it is."""

    node: NodeId
    session: SessionId
    wall: datetime
    load: Load
    relay_map: int = 0
    """The version of the relay map that it goes by; 0 for none."""


@dataclass(frozen=True, kw_only=True)
class Whom:
    """Whom a link is meant for; without a session, any life of that node."""

    node: NodeId
    session: SessionId | None = None

    def is_met_by(self, presence: Presence) -> bool:
        """Is this the one?"""
        return self.node == presence.node and self.session in (None, presence.session)

    def __str__(self) -> str:
        return f"node {self.node}" + (f", session {self.session}" if self.session else "")


@dataclass(frozen=True, kw_only=True)
class TaskChange:
    """A task came into a phase."""

    task: str
    epoch: Revision
    phase: str
    at: datetime
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
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


@dataclass(frozen=True, kw_only=True)
class NotLeader:
    """The receiver of a report does not lead; what it knows of who does."""

    term: TermNumber | None = None
    leader: NodeId | None = None


@dataclass(frozen=True)
class AttemptId:
    """One try of a run."""

    run: str
    number: int

    def __str__(self) -> str:
        return f"run {self.run}, attempt {self.number}"


@dataclass(frozen=True, kw_only=True)
class Start:
    """Start an attempt under its epoch."""

    attempt: AttemptId
    epoch: Revision
    job: str
    payload: bytes = b""
    timeout: timedelta | None = None
    """How long the attempt may run; None for as long as it takes."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The attempt has an executor, under the name of `reservation`."""

    reservation: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The node does not take the attempt, and why."""

    why: str


class Verb(StrEnum):
    """What can be asked of a task or an attempt."""

    STOP = "stop"
    RESTART = "restart"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, kw_only=True)
class Control:
    """Do something to a task, named by its id, or to an attempt, under its epoch."""

    verb: Verb
    what: str | AttemptId
    epoch: Revision
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One emitted message on its way to the relay of its resource."""

    id: bytes
    """The hash by which copies are recognised."""

    resource: str
    epoch: Revision
    payload: bytes
    to: str = ""
    """The routing key, where the sink knows one."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Messages that are handed over and acked together."""

    sequence: int
    """Grows from batch to batch of one hand-over."""

    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Chunk:
    """A piece of a log, and where it begins."""

    offset: int
    data: bytes
