"""How far a stream task has come, and what it has to do next. Pure.

A task reads records into the open sequence. When the group has agreed where that ends, the task reads up to there and
closes the sequence, opens the next one if there is one, and publishes the closed ones in order while it reads on.
The shell (`run.py`) reports what was heard and what happened, and asks `next`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from rota.model.ids import Revision
from rota.outputs.verdict import PublishVerdict, Turn
from rota.streams.core.chain import next_offsets
from rota.streams.core.manifest import Offsets, Range
from rota.streams.core.records import Group, Phase, TaskState

GROUP_GONE = "its group is gone: published by others, or given up"


class Next(StrEnum):
    """What a task has to do."""

    WAIT = "wait"
    """Nothing, until the group's record changes: it stands by, or is paused."""

    READ = "read"
    FINISH = "finish"
    """Nothing more is to be read: publish what is left, and end."""

    END = "end"
    """It is over: everything is published, it failed, or it was dismissed."""


class ClosedSequence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence that is read and not published yet."""

    number: int
    ranges: tuple[Range, ...]


@dataclass(kw_only=True)
class TaskProgress:
    """One task of a group."""

    slot: int
    epoch: Revision
    group: Group
    number: int = 0
    """The open sequence."""

    starts: dict[int, int] = field(default_factory=dict)
    """Where the open sequence starts; empty until it has begun."""

    offsets: dict[int, int] = field(default_factory=dict)
    """The next record of each partition."""

    closed: list[ClosedSequence] = field(default_factory=list)
    """Closed sequences to be published, in this order."""

    moves: int = 0
    """Records read and sequences published: it grows as long as there is progress."""

    error: str = ""
    """Why it failed, or was dismissed."""

    # What is heard

    def heard(self, group: Group | None) -> None:
        """The group's record changed; None: there is no such group any more."""
        if group is None:
            self.error = self.error or GROUP_GONE
            return
        self.group = group
        dismissal = group.dismissed.get(self.slot)
        if dismissal is not None and self.epoch <= dismissal.epoch:
            self.error = self.error or dismissal.why
        if self.starts:
            self._close_what_is_agreed()

    def begin(self, committed: Offsets) -> None:
        """The group has said where it starts: go on behind what is published of it already."""
        self.number, self.starts = next_offsets(self.group, committed)
        self.offsets = dict(self.starts)
        self._close_what_is_agreed()

    def read(self, partition: int, upto: int, records: int) -> None:
        """Records of a partition were taken, and the next one is `upto`."""
        self.offsets[partition] = upto
        self.moves += records
        self._close_what_is_agreed()

    def told(self, sequence: ClosedSequence, verdict: PublishVerdict) -> None:
        """Note the verdict of a publish. A sequence whose turn has not come is retried."""
        if verdict.turn is Turn.BEHIND:
            self.fail(verdict.why)
        elif verdict.turn in (Turn.PUBLISHED, Turn.THERE):
            self.closed.remove(sequence)
            self.moves += 1

    def fail(self, why: str) -> None:
        """Note that the task cannot go on; the first reason counts."""
        self.error = self.error or why

    # What is to be done

    @property
    def next(self) -> Next:
        """The next action."""
        if self.error or (self._is_read_to_the_end and not self.closed):
            return Next.END
        if self._is_read_to_the_end:
            return Next.FINISH
        if not self.starts or (self.group.phase is Phase.PAUSING and self.number == len(self.group.sequences)):
            return Next.WAIT
        return Next.READ

    @property
    def state(self) -> TaskState:
        """The state that its status reports."""
        if self.error:
            return TaskState.FAILED
        match self.next:
            case Next.END:
                return TaskState.DONE
            case Next.FINISH:
                return TaskState.PUBLISHING
            case Next.WAIT if self.starts:
                return TaskState.PAUSED
            case Next.WAIT:
                return TaskState.STANDBY if self.group.phase is Phase.STANDBY else TaskState.STARTING
            case _:
                is_behind = self.group.phase is Phase.PUBLISHING
                return TaskState.PUBLISHING if is_behind else TaskState.READING

    @property
    def ends(self) -> Mapping[int, int] | None:
        """Where the open sequence ends, once that is agreed."""
        sequences = self.group.sequences
        return sequences[self.number] if self.number < len(sequences) else None

    def limit(self, partition: int) -> int | None:
        """Where a partition is not read on for now: the open sequence ends there, or the stream does."""
        return self.group.upto.get(partition) if self.ends is None else self.ends[partition]

    @property
    def _is_read_to_the_end(self) -> bool:
        return bool(self.starts) and self.group.phase is Phase.PUBLISHING and self.number >= len(self.group.sequences)

    def _close_what_is_agreed(self) -> None:
        """Close every sequence whose end is reached; one that has gone past it has failed."""
        while (ends := self.ends) is not None:
            past = [partition for partition, end in ends.items() if self.offsets[partition] > end]
            if past:
                at, end = self.offsets[past[0]], ends[past[0]]
                self.fail(f"partition {past[0]}: it has read up to {at}, and {end} was agreed without it")
                return
            if any(self.offsets[partition] < end for partition, end in ends.items()):
                return
            ranges = tuple(Range(partition=each, start=self.starts[each], end=ends[each]) for each in sorted(ends))
            self.closed.append(ClosedSequence(number=self.number, ranges=ranges))
            self.number, self.starts = self.number + 1, dict(ends)
