"""What a stream task is given: which task it is, and how much it may have in hand; and what keeps it from its work."""

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from rota.model.ids import NodeId, Revision

PATIENCE = timedelta(milliseconds=50), timedelta(seconds=2)
"""Shortest and longest wait before something is tried again that could not be done."""


class SequenceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a sequence a task has in its hands before it asks for a checkpoint, and how long it is silent."""

    rows: int = 5_000_000
    bytes: int = 256 * 1024 * 1024
    letters: int = 16 * 1024 * 1024
    """Bytes of dead letters, which are in memory until they are published."""

    time: timedelta | None = None
    batch: int = 2000
    """Records that are read at a time."""

    tell: timedelta = timedelta(seconds=1)
    """The time between statuses, while nothing changes but figures."""

    repeat: timedelta = timedelta(seconds=10)
    """The time between statuses that are all alike: one may have gone with a lease, and its age shows that it lives."""


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """Which task it is."""

    stream: str
    group: str
    slot: int
    epoch: Revision
    node: NodeId
    life: str = ""
    """Which process it is, of those that have this epoch one after the other."""

    def __str__(self) -> str:
        return f"{self.stream}/{self.group}#{self.slot} epoch {self.epoch} on {self.node}"


@dataclass
class Troubles:
    """What keeps a task from its work, each empty if nothing does."""

    group: str = ""
    """Why what the group is now is not understood; the task goes on by what the group was before."""

    output: str = ""
    """Why nothing can be opened or published."""

    source: str = ""
    """Why nothing can be read."""

    @property
    def gravest(self) -> str:
        """What to report of them."""
        return self.group or self.output or self.source
