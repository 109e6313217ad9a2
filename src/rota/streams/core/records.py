"""Streams as the store keeps them: task groups, and what their tasks say of themselves.

A group is some partitions, read by several stream tasks at the same time. What the leader decides about it is in its
record, written before anybody acts on it. What a task knows is in its status, under its node's lease. The two together
are all there is: a new leader goes on from them, wherever the one before it stopped.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from rota.model.codec import stored
from rota.model.ids import BACKFILL, NodeId, Revision, origin

KIND = "stream:"
"""How the kinds of resources begin that stand for streams: each group is a resource of its stream's kind."""


def kind_of(stream: str) -> str:
    """The kind whose resources are the groups of a stream, and of those that fill its gaps."""
    return KIND + origin(stream)


def backfill_of(stream: str, at: datetime) -> str:
    """What the stream is called that fills the gap which was asked for at that time."""
    return f"{stream}{BACKFILL}{at.astimezone(UTC):%Y%m%dT%H%M%S}"


@stored()
class StreamRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, as an app declares it."""

    name: str
    app: str
    digest: str
    """Of where it reads and where it goes: a group that goes by another is ended."""

    spec: dict[str, Any]
    """The declaration (`streams.core.spec`)."""


@stored()
class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as an app declared it at some time."""

    record: StreamRecord
    node: NodeId
    """Whose app said so first."""

    at: datetime


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants a stream to go on elsewhere: to leave records out, or to read them again."""

    to: str = ""
    """Where partitions go on that are not named: `earliest`, `latest` or a time; empty: they stay where they are."""

    partitions: dict[int, str] = msgspec.field(default_factory=dict)
    """Partition → where it goes on: an offset, `earliest`, `latest` or a time."""

    is_backfilled: bool = False
    """Is what it leaves out to be read by another stream, into the same output?"""

    move: str = ""
    """The id of its moves, once the leader has begun to make them: nobody changes the wish any more."""

    source: str | None = None
    """Which source there was then."""

    by: str
    """Who wants it; empty: the stream's declaration does, because the source was made anew."""

    at: datetime
    """When it was asked for."""

    @property
    def why(self) -> str:
        """The reason that is put on record."""
        return "a user requested it" if self.by else "the source was made anew"


@stored()
class StreamWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What people want of a stream beyond its declaration."""

    is_suspended: bool = False
    """What reads ends and publishes, and nothing new begins."""

    is_terminated: bool = False
    """The same for good, whoever declares it."""

    tasks: int | None = None
    """Task groups, if not as it is declared."""

    hand_off: tuple[int, ...] = ()
    """Numbers of groups that are to end now; the leader takes out those that do."""

    reset: Reset | None = None
    """Offsets that are to be set; the leader takes it out when they are."""

    by: str = ""
    at: datetime | None = None
    """Who wished for something last, and when."""


class StreamState(StrEnum):
    """How a stream is."""

    PENDING = "pending"
    """It has not been looked at as a whole yet."""

    RUNNING = "running"
    IDLE = "idle"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    COMPLETED = "completed"
    """It has published everything up to where it was to end."""

    UNHEALTHY_SUPERVISOR = "unhealthy supervisor"
    """The leader cannot reach its source or its output, again and again."""

    UNHEALTHY_TASKS = "unhealthy tasks"
    """Its tasks fail, again and again."""


class StreamError(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong with a stream."""

    at: datetime
    """When it happened."""

    why: str
    """What went wrong."""


@stored()
class StreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is, as the leader sees it. Every commit of its groups expects and writes this."""

    stream: str
    state: StreamState = StreamState.PENDING
    detail: str = ""
    """What is special about it now, in words."""

    waits: str = ""
    """What waits until an operator says where to go on, if anything does; the stream is not healthy then."""

    since: datetime
    generation: int = 0
    """The highest that any of its groups ever had."""

    identity: str | None = None
    """Which source it reads, so that one made anew is noticed."""

    phases: dict[str, int] = msgspec.field(default_factory=dict)
    """Phase → how many groups are in it."""

    committed: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → up to where it is in the output."""

    latest: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → where the source ends."""

    lag: int = 0
    """Records that are in the source and not in the output."""

    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Records of groups that are published which made no rows, by reason; as their last tasks counted them."""

    tasks: int = 0
    """Task groups that it has because of its lag; 0: as many as are declared."""

    upto: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → where the stream ends, if it was declared to end somewhere."""

    upto_as: str = ""
    """How that was declared."""

    errors: tuple[StreamError, ...] = ()
    """The last few, the newest last."""


@stored()
class SkipRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stream went on at `offset`, and left records of a partition out that its source has no more."""

    stream: str
    """The name of the stream."""

    partition: int
    """The partition."""

    first: int
    """The first offset that was left out."""

    last: int
    """The last offset that was left out."""

    offset: int
    """Where it went on."""

    policy: str
    """The rule of its declaration that allowed it."""

    why: str
    """Why the records were gone."""

    at: datetime
    """When it happened."""


@stored()
class MoveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a stream were set, other than by publishing: records were left out, or are read again."""

    id: str = ""
    """What it is known by: who asks for a move of the same id again is told what was set, and nothing is set."""

    stream: str
    """The name of the stream."""

    before: dict[int, int]
    """Partition → the offset before."""

    after: dict[int, int]
    """Partition → the offset that was set."""

    by: str
    """Who wanted it; empty: the stream's declaration did."""

    why: str
    """Why they were set."""

    at: datetime
    """When they were set."""

    backfill: str = ""
    """The stream that reads what was left out; empty: nobody does."""


class Phase(StrEnum):
    """Where a group is."""

    STANDBY = "standby"
    """Its tasks may start and connect; where they read from is said when the groups before it have ended."""

    READING = "reading"
    PAUSING = "pausing"
    """Its tasks are to stop where they are, and say where that is."""

    PUBLISHING = "publishing"
    """Where it ends is agreed: its tasks read up to there and publish."""


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is to end, and why. It counts for this epoch and those before it."""

    epoch: Revision
    why: str


@stored()
class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Some partitions of a stream, from agreed offsets to agreed offsets."""

    stream: str
    id: str
    """The hash of what it reads and how: in the names of its tasks, so that nobody takes them for others'."""

    number: int
    """Which of the stream's task groups it is; partitions go by it."""

    generation: int
    """Grows with every group of the stream."""

    partitions: tuple[int, ...]
    """The partitions it reads."""

    after: tuple[str, ...] = ()
    """Groups whose ends are its starts, while it stands by."""

    starts: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → offset; empty while it stands by."""

    sequences: tuple[dict[int, int], ...] = ()
    """Agreed checkpoints in order: where each of its sequences ends."""

    phase: Phase = Phase.READING
    """Where it is."""

    is_final: bool = False
    """While it is pausing: is it for the last time?"""

    since: datetime
    """When it came into this phase."""

    created: datetime
    earliest: datetime | None = None
    latest: datetime | None = None
    """Records of other times are not taken."""

    early: timedelta | None = None
    """A record newer than `latest` is taken all the same unless it is newer than this after the moment of reading."""

    progress: int = 0
    progressed: datetime | None = None
    """While it publishes: how far its tasks have come, and when one of them last came further."""

    reached: dict[str, int] = msgspec.field(default_factory=dict)
    """Which life of which task (`StreamTaskStatus.incarnation`) has come how far, as of then."""

    dismissed: dict[int, Dismissal] = msgspec.field(default_factory=dict)
    """Slot → which task of it is to end."""

    failures: int = 0
    """Tasks that were dismissed since something was last agreed on."""

    upto: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → offset from which on nothing is read, ever; empty: all is read."""

    spec: str = ""
    """Digest of the declaration it goes by."""

    identity: str | None = None
    """The source that its offsets are about; None: the source has no identity, or an older Rota made the group."""

    why: str = ""
    """Why it is in this phase."""

    @property
    def ends(self) -> dict[int, int]:
        """Where it ends as far as is agreed."""
        return self.sequences[-1] if self.sequences else self.starts


class TaskState(StrEnum):
    """What a stream task is doing."""

    STARTING = "starting"
    STANDBY = "standby"
    READING = "reading"
    PAUSED = "paused"
    PUBLISHING = "publishing"
    DONE = "done"
    FAILED = "failed"


@stored()
class StreamTaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream task says of itself."""

    stream: str
    group: str
    slot: int
    """Which of the tasks of its group it is, from 0."""

    node: NodeId
    """The node that runs it."""

    epoch: Revision
    """The epoch of its assignment."""

    state: TaskState
    """What it is doing."""

    life: str = ""
    """Which process says it: a worker that its node starts again has the same epoch."""

    started: datetime | None = None
    """When it began to read."""

    sequence: int = 0
    """Which of the group's sequences it is in; those before it are closed."""

    offsets: dict[int, int] = msgspec.field(default_factory=dict)
    """The next record of each partition."""

    progress: int = 0
    """Grows whenever something was read or published."""

    wants_checkpoint: str = ""
    """Why its sequence should end, if it should: rows, bytes or time."""

    rows: int = 0
    """Rows that it made."""

    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Records that made none, by reason."""

    latest: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → where the source ended when the task last looked: what is between is its lag."""

    trouble: str = ""
    """Why nothing can be read or published at the moment, if so."""

    error: str = ""
    """Why it failed; empty if it did not."""

    at: datetime
    """When it reported this."""

    @property
    def incarnation(self) -> str:
        """This life of this task, and no other."""
        return f"{self.slot}@{self.epoch}/{self.life}"
