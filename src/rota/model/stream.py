"""Streams as the store keeps them: task groups, and what their tasks say of themselves.

A group is some partitions, read by several stream tasks at the same time. What the leader decides about it is in its
record, written before anybody acts on it. What a task knows is in its status, under its node's lease. The two together
are all there is: a new leader goes on from them, wherever the one before it stopped.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from rota.model.ids import NodeId, Revision


class Phase(StrEnum):
    """Where a group is."""

    STANDBY = "standby"
    """Its tasks may start and connect; where they read from is said when the groups before it have ended."""

    READING = "reading"
    PAUSING = "pausing"
    """Its tasks are to stop where they are, and say where that is."""

    PUBLISHING = "publishing"
    """Where it ends is agreed: its tasks read up to there and publish."""


@dataclass(frozen=True, kw_only=True)
class Dismissal:
    """A task that is to end, and why. It counts for this epoch and those before it."""

    epoch: Revision
    why: str


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some partitions of a stream, from agreed offsets to agreed offsets."""

    stream: str
    id: str
    """The hash of what it reads and how: in the names of its tasks, so that nobody takes them for others'."""

    number: int
    """Which of the stream's task groups it is; partitions go by it."""

    generation: int
    """Grows with every group of the stream."""

    partitions: tuple[int, ...]
    after: tuple[str, ...] = ()
    """Groups whose ends are its starts, while it stands by."""

    starts: dict[int, int] = field(default_factory=dict)
    """Partition → offset; empty while it stands by."""

    sequences: tuple[dict[int, int], ...] = ()
    """Agreed checkpoints in order: where each of its sequences ends."""

    phase: Phase = Phase.READING
    is_final: bool = False
    """While it is pausing: is it for the last time?"""

    since: datetime
    """When it came into this phase."""

    created: datetime
    earliest: datetime | None = None
    latest: datetime | None = None
    """Records of other times are not taken."""

    progress: int = 0
    progressed: datetime | None = None
    """While it publishes: how far its tasks have come, all together, and when that last changed."""

    dismissed: dict[int, Dismissal] = field(default_factory=dict)
    """Slot → which task of it is to end."""

    spec: str = ""
    """Digest of the declaration it goes by."""

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


@dataclass(frozen=True, kw_only=True)
class StreamTaskStatus:
    """What a stream task says of itself."""

    stream: str
    group: str
    slot: int
    node: NodeId
    epoch: Revision
    state: TaskState
    started: datetime | None = None
    """When it began to read."""

    sequence: int = 0
    """Which of the group's sequences it is in; those before it are closed."""

    offsets: dict[int, int] = field(default_factory=dict)
    """The next record of each partition."""

    progress: int = 0
    """Grows whenever something was read or published."""

    wants_checkpoint: str = ""
    """Why its sequence should end, if it should: rows, bytes or time."""

    rows: int = 0
    """Rows that it made."""

    dropped: dict[str, int] = field(default_factory=dict)
    """Records that made none, by reason."""

    latest: dict[int, int] = field(default_factory=dict)
    """Partition → where the source ended when the task last looked: what is between is its lag."""

    trouble: str = ""
    """Why nothing can be read or published at the moment, if so."""

    error: str = ""
    at: datetime
