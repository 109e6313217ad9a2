"""One group's way: reading, pausing, agreeing, publishing. Pure.

`advance` looks at a group and at what its tasks say, and returns the group as it should be. To agree on the end of a
sequence, all tasks stop where they are; the furthest of them, partition by partition, is where it ends; who is behind
reads up to there. A task that does not answer is dismissed and replaced; what it reported before is part of the
agreement.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision
from rota.streams.core.group_phases import GroupEvent, step
from rota.streams.core.records import Dismissal, Group, Phase, StreamTaskStatus, TaskState

NO_STATUS = "failed to return status, killing task"
NO_START_TIME = "failed to return start time, killing task"
NO_PAUSE = "failed to pause within pause_timeout, killing task"
STOPPED_EARLY = "ended while its group is still reading, killing task"


FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=1), timedelta(seconds=30)
DOUBLINGS = 10
"""Dismissals after which the delay grows no further."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The timeouts of a stream's groups and tasks."""

    duration: timedelta = timedelta(hours=1)
    """How long a group reads."""

    completion_timeout: timedelta = timedelta(minutes=30)
    """How long it may publish without progress."""

    status_timeout: timedelta = timedelta(seconds=30)
    """How long a task that was placed may take until it says how it is, and until it reads."""

    pause_timeout: timedelta = timedelta(seconds=10)
    """How long a task may take to stop reading when it is asked."""


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A stream task that is placed somewhere."""

    slot: int
    epoch: Revision
    node: NodeId
    placed: datetime
    """When the leader first saw it, or this life of it: its node may have started its worker again."""

    status: StreamTaskStatus | None = None
    """The status it reported; None if it has reported none under this epoch."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Why a group should end its sequence, and whether for good."""

    why: str
    is_final: bool


def advance(
    group: Group, members: Sequence[GroupMember], tuning: Tuning, now: datetime, *, wish: Wish | None = None
) -> Group:
    """The group as it should be now. `wish`: why it should end if it is reading, if it should."""
    group, present = _without_the_silent(group, members, tuning, now)
    match group.phase:
        case Phase.READING:
            wish = wish or _checkpoint(group, present)
            return _pausing(group, present, wish, now) if wish else group
        case Phase.PAUSING:
            return _agreed(group, present, tuning, now)
        case Phase.PUBLISHING:
            return _progressed(group, present, now)
        case _:
            return group


def begin(group: Group, starts: Mapping[int, int], now: datetime) -> Group:
    """A group that stood by reads from here."""
    return step(group, GroupEvent.BEGUN, now, starts=dict(starts), after=(), why="")


def hesitation(group: Group) -> timedelta:
    """How long a failed task waits before another may take its place.

    What failed one task usually fails the next one too, and each replacement costs a process and several commits.
    """
    if not group.failures:
        return timedelta()
    return min(LONGEST_WAIT, FIRST_WAIT * (1 << min(group.failures - 1, DOUBLINGS)))


def oldest_start(members: Sequence[GroupMember]) -> datetime | None:
    """When the first of a group's tasks began to read."""
    begun = [member.status.started for member in members if member.status and member.status.started]
    return min(begun, default=None)


def reading_since(group: Group, members: Sequence[GroupMember], now: datetime) -> datetime | None:
    """When a group's tasks began to read, so far as that can be.

    The tasks report it by their own clocks, so it is limited to the time from the group's creation to now by the
    leader's clock. Otherwise a leader whose clock is ahead would end every group as soon as it has begun.
    """
    started = oldest_start(members)
    if started is None:
        return None
    return group.created if started > now else max(started, group.created)


def is_overdue(group: Group, patience: timedelta, now: datetime) -> bool:
    """Has it been publishing for too long without progress?"""
    return group.phase is Phase.PUBLISHING and now - (group.progressed or group.since) > patience


# Reading


def _checkpoint(group: Group, present: Sequence[GroupMember]) -> Wish | None:
    for status in _readers(group, present):
        if status.wants_checkpoint:
            return Wish(why=status.wants_checkpoint, is_final=False)
    return None


def _pausing(group: Group, present: Sequence[GroupMember], wish: Wish, now: datetime) -> Group:
    pausing = step(group, GroupEvent.END_WANTED, now, is_final=wish.is_final, why=wish.why)
    # Where no task has read on since the last agreement, that one stands.
    return pausing if _readers(group, present) else _closed(pausing, (), now)


def _readers(group: Group, present: Sequence[GroupMember]) -> list[StreamTaskStatus]:
    """The tasks in the open sequence; a task that starts, or reads an agreed sequence again, is not one of them."""
    return [
        member.status
        for member in present
        if member.status
        and member.status.state in (TaskState.READING, TaskState.PAUSED)
        and member.status.sequence == len(group.sequences)
    ]


# Agreeing


def _agreed(group: Group, present: Sequence[GroupMember], tuning: Tuning, now: datetime) -> Group:
    """The group with its agreement once every live task has answered; without the silent tasks once the time is up."""
    readers = _readers(group, present)
    answers = [status for status in readers if status.state is TaskState.PAUSED]
    missing = [status for status in readers if status.state is not TaskState.PAUSED]
    if missing and now - group.since <= tuning.pause_timeout:
        return group
    group = _dismissing(group, [(status.slot, Dismissal(epoch=status.epoch, why=NO_PAUSE)) for status in missing])
    # Its last report counts: the task that replaces it reads up to there, so a group always makes progress.
    return _closed(group, [*answers, *missing], now)


def _closed(group: Group, answers: Sequence[StreamTaskStatus], now: datetime) -> Group:
    before = group.ends
    reached = [before, *(answer.offsets for answer in answers)]
    ends = {each: max(offsets.get(each, 0) for offsets in reached) for each in group.partitions}
    sequences = group.sequences if ends == before and group.sequences else (*group.sequences, ends)
    if answers and ends != before:
        group = replace(group, failures=0)
    if group.is_final:
        return step(
            group,
            GroupEvent.END_AGREED,
            now,
            sequences=sequences,
            is_final=False,
            progressed=now,
            progress=0,
            reached={},
        )
    if ends == before:  # nothing was read since the last one
        return step(group, GroupEvent.CHECKPOINT_AGREED, now, why="")
    return step(group, GroupEvent.CHECKPOINT_AGREED, now, sequences=sequences, why="")


# Publishing


def _progressed(group: Group, present: Sequence[GroupMember], now: datetime) -> Group:
    """The group, with its deadline extended if a task made progress; a replacement is compared with its own earlier
    reports."""
    said = [member.status for member in present if member.status]
    if not any(status.progress > group.reached.get(status.incarnation, 0) for status in said):
        return group
    reached = {status.incarnation: status.progress for status in said}
    return replace(group, progress=max((group.progress, *reached.values())), reached=reached, progressed=now)


# Tasks that say nothing


def _without_the_silent(
    group: Group, members: Sequence[GroupMember], tuning: Tuning, now: datetime
) -> tuple[Group, list[GroupMember]]:
    """The group with the tasks dismissed that do not answer in time, and the members that are left."""
    here = [member for member in members if not _is_dismissed(group, member)]
    silent = {member.slot: why for member in here if (why := _why_dismissed(group, member, tuning, now))}
    dismissals = [
        (each.slot, Dismissal(epoch=each.epoch, why=silent[each.slot])) for each in here if each.slot in silent
    ]
    return _dismissing(group, dismissals), [member for member in here if member.slot not in silent]


def _why_dismissed(group: Group, member: GroupMember, tuning: Tuning, now: datetime) -> str:
    status = member.status
    is_late = now - max(member.placed, group.created) > tuning.status_timeout
    if status is None:
        return NO_STATUS if is_late else ""
    if status.state is TaskState.FAILED:
        return status.error or "it failed, and did not say why"
    if group.phase is Phase.STANDBY:
        return ""
    if status.state is TaskState.DONE and group.phase is not Phase.PUBLISHING:
        return STOPPED_EARLY
    if status.started is not None or status.state not in (TaskState.STARTING, TaskState.STANDBY):
        return ""
    was_ready = group.phase is Phase.READING or status.state is TaskState.STANDBY  # and had no offsets to begin from
    since = max(member.placed, group.since) if was_ready else member.placed
    return NO_START_TIME if now - since > tuning.status_timeout else ""


def _dismissing(group: Group, dismissals: Sequence[tuple[int, Dismissal]]) -> Group:
    if not dismissals:
        return group
    return replace(group, dismissed={**group.dismissed, **dict(dismissals)}, failures=group.failures + len(dismissals))


def _is_dismissed(group: Group, member: GroupMember) -> bool:
    dismissal = group.dismissed.get(member.slot)
    return dismissal is not None and member.epoch <= dismissal.epoch
