"""Streams as the store keeps them: task groups, and the statuses of their tasks.

A group is some partitions, read by several stream tasks at the same time. What the leader decides about it is in its
record, written before anything acts on it. What a task knows is in its status, under its node's lease. There is no
other state: a new leader continues from these two, wherever the previous one stopped.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from rota.model.codec import stored
from rota.model.ids import BACKFILL, NodeId, Revision, origin

KIND = "stream:"
"""Prefix of the resource kinds that stand for streams: each group is a resource of its stream's kind."""


def kind_of(stream: str) -> str:
    """The kind whose resources are the groups of a stream, and of those that fill its gaps."""
    return KIND + origin(stream)


def backfill_of(stream: str, at: datetime) -> str:
    """The name of the backfill stream for a reset requested at that time."""
    return f"{stream}{BACKFILL}{at.astimezone(UTC):%Y%m%dT%H%M%S}"


@stored()
class StreamRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, as an app declares it."""

    name: str
    app: str
    digest: str
    """Digest of its source and its output: a group made for another one is ended."""

    spec: dict[str, Any]
    """The declaration (`streams.core.spec`)."""


@stored()
class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as an app declared it at some time."""

    record: StreamRecord
    node: NodeId
    """The node whose app declared it first."""

    at: datetime


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's request to set a stream's offsets: to leave records out, or to read them again."""

    to: str = ""
    """Where partitions go on that are not named: `earliest`, `latest` or a time; empty: they stay where they are."""

    partitions: dict[int, str] = msgspec.field(default_factory=dict)
    """Partition → where it goes on: an offset, `earliest`, `latest` or a time."""

    is_backfilled: bool = False
    """Is what it leaves out to be read by another stream, into the same output?"""

    move: str = ""
    """The id of its moves, once the leader has begun to make them; from then on the request cannot be changed."""

    source: str | None = None
    """The identity of the source at that time."""

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
    """What operators asked of a stream beyond its declaration."""

    is_suspended: bool = False
    """What reads ends and publishes, and nothing new begins."""

    is_terminated: bool = False
    """The same for good, even if an app declares it."""

    tasks: int | None = None
    """Task groups, if not as it is declared."""

    hand_off: tuple[int, ...] = ()
    """Numbers of groups that are to end now; the leader takes out those that do."""

    reset: Reset | None = None
    """Offsets that are to be set; the leader takes it out when they are."""

    by: str = ""
    at: datetime | None = None
    """Who asked for a change last, and when."""


class StreamState(StrEnum):
    """How a stream is."""

    PENDING = "pending"
    """The leader has not checked all of it yet."""

    RUNNING = "running"
    IDLE = "idle"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    COMPLETED = "completed"
    """It has published everything up to where it was to end."""

    UNHEALTHY_SUPERVISOR = "unhealthy supervisor"
    """The leader repeatedly fails to reach its source or its output."""

    UNHEALTHY_TASKS = "unhealthy tasks"
    """Its tasks fail repeatedly."""


class StreamError(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong with a stream."""

    at: datetime
    """When it happened."""

    why: str
    """What went wrong."""


@stored()
class StreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a stream, as the leader sees it. Every commit of its groups expects and writes this record."""

    stream: str
    state: StreamState = StreamState.PENDING
    detail: str = ""
    """What is special about the state, in words."""

    waits: str = ""
    """What waits until an operator says where to go on, if anything does; the stream is not healthy then."""

    since: datetime
    generation: int = 0
    """The highest generation any of its groups ever had."""

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
    """Task groups it has because of its lag; 0: the declared number."""

    upto: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → where the stream ends, if it was declared to end somewhere."""

    upto_as: str = ""
    """How that end was declared."""

    errors: tuple[StreamError, ...] = ()
    """The last few errors, the newest last."""


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
    """Its id: a repeated request with the same id sets nothing and returns what was set."""

    stream: str
    """The name of the stream."""

    before: dict[int, int]
    """Partition → the offset before."""

    after: dict[int, int]
    """Partition → the offset that was set."""

    by: str
    """Who requested it; empty: the stream's declaration did."""

    why: str
    """Why they were set."""

    at: datetime
    """When they were set."""

    backfill: str = ""
    """The stream that reads what was left out; empty: none does."""


class Phase(StrEnum):
    """Where a group is."""

    STANDBY = "standby"
    """Its tasks may start and connect; where they read from is said when the groups before it have ended."""

    READING = "reading"
    PAUSING = "pausing"
    """Its tasks are to stop reading and report their offsets."""

    PUBLISHING = "publishing"
    """Where it ends is agreed: its tasks read up to there and publish."""


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is to end, and why. It applies to this epoch and earlier ones."""

    epoch: Revision
    why: str


@stored()
class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Some partitions of a stream, from agreed offsets to agreed offsets."""

    stream: str
    id: str
    """The hash of what it reads and how; it is part of the names of its tasks, so that they are unique."""

    number: int
    """Its number among the stream's task groups; partitions are assigned by it."""

    generation: int
    """One more than that of the stream's group made before it."""

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
    """While it is pausing: is its last sequence ending?"""

    since: datetime
    """When it came into this phase."""

    created: datetime
    earliest: datetime | None = None
    latest: datetime | None = None
    """Records with a time outside of these are dropped."""

    early: timedelta | None = None
    """A record newer than `latest` is still taken unless its time is more than this ahead of the moment of reading."""

    progress: int = 0
    progressed: datetime | None = None
    """While it publishes: how far its tasks have come, and when one of them last came further."""

    reached: dict[str, int] = msgspec.field(default_factory=dict)
    """The progress of each incarnation of each task (`StreamTaskStatus.incarnation`) at that time."""

    dismissed: dict[int, Dismissal] = msgspec.field(default_factory=dict)
    """Slot → which task of it is to end."""

    failures: int = 0
    """Tasks that were dismissed since something was last agreed on."""

    upto: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → offset from which on nothing is read, ever; empty: all is read."""

    spec: str = ""
    """Digest of the declaration it was made for."""

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
    """The process that reported this: a worker restarted by its node keeps the same epoch."""

    started: datetime | None = None
    """When it began to read."""

    sequence: int = 0
    """The number of the sequence it reads; those before it are closed."""

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
        """Identifies this process of this task."""
        return f"{self.slot}@{self.epoch}/{self.life}"
