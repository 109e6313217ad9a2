"""Coverage: what one resource still needs, and what it has too much of.

`cover` looks at one resource and the tasks it has; placement (`placement.core`) then finds nodes for what is missing,
for many resources at once. Planning again after carrying a plan out gives nothing.

A task that is to leave its node is *relieved*: another of the same slot is started elsewhere, and the first one ends
when the other's node has reported that it runs. Until then the two count as one. Each resource moves one task at a
time. One that is exclusive cannot be relieved: it stops, its node confirms, then another starts. That holds also when
its resource was removed: it may be added again before the node has stopped the task.

Pure: the leader's supervisor reads, asks and commits.
"""

from collections.abc import Collection, Sequence

import msgspec

from rota.kit.record import replace
from rota.model import keys
from rota.model.ids import Key, NodeId, Revision
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import KindRecord, ResourceRecord


class AssignedTask(msgspec.Struct, frozen=True):
    """A task of a resource on a node, as its assignment says."""

    task: str
    node: NodeId
    epoch: Revision
    assignment: Assignment
    is_running: bool = False
    """Has its node reported that it runs? Only tasks that relieve another are reported."""

    @property
    def key(self) -> Key:
        """The key of its assignment."""
        return keys.assignment(self.node, self.task)

    @property
    def resource(self) -> str:
        """Kind and id."""
        return f"{self.assignment.kind}/{self.assignment.resource}"


class End(msgspec.Struct, frozen=True):
    """A task to be taken from its node."""

    hold: AssignedTask
    why: str
    must_confirm: bool = False
    """Must the node confirm that it has stopped before another may begin?"""


class Coverage(msgspec.Struct, frozen=True):
    """What to do about one resource."""

    keep: tuple[AssignedTask, ...]
    """Tasks that stay, also those that are about to stop and have not said so yet."""

    end: tuple[End, ...]
    renew: tuple[AssignedTask, ...]
    """Tasks that stay where they are but whose assignment differs from the resource now."""

    wanted: int
    missing: int
    """How many tasks have to be placed."""

    relieved: tuple[AssignedTask, ...] = ()
    """Those of `keep` that stay only until another runs in their place."""

    leaving: AssignedTask | None = None
    """The one of `keep` that should move to another node next, if any."""

    @property
    def is_moving(self) -> bool:
        """Is one of its tasks moving or stopping?"""
        return bool(self.relieved) or any(hold.assignment.stopping for hold in self.keep)


def cover(
    record: ResourceRecord | None,
    kind: KindRecord | None,
    holds: Sequence[AssignedTask],
    present: Collection[NodeId],
    evicted: Collection[Key] = (),
    drained: Collection[NodeId] = (),
    overdue: Collection[NodeId] = (),
) -> Coverage:
    """What a resource needs, given its tasks; `record` is None if it was removed, `kind` if no app declares it.

    Tasks move away from nodes that are `drained`; where that has taken too long (`overdue`), they end.
    """
    lost = [End(hold, "its node is gone") for hold in holds if hold.node not in present]
    there = sorted((hold for hold in holds if hold.node in present), key=_live_ones_first)
    if record is None:
        return _uncovered(lost, there)
    wanted = record.replicas or (kind.replicas if kind else len(there) - len(being_relieved(there)))
    unfit = {hold.key: why for hold in there if (why := _unfit(hold, record, evicted, overdue))}
    reliefs = being_relieved([hold for hold in there if hold.key not in unfit])
    keep: list[AssignedTask] = []
    ends: list[End] = []
    room = wanted
    for hold in there:
        if hold.assignment.stopping:
            keep.append(hold)  # it counts until its node has confirmed
            room -= 1
        elif hold.key in unfit:
            ends.append(_end(hold, unfit[hold.key]))
            if hold.assignment.exclusive:
                room -= 1
        elif successor := reliefs.get(hold.key):
            if successor.is_running:
                ends.append(_end(hold, f"node {successor.node} runs it now"))
            else:
                keep.append(hold)  # it does not count: its successor does
        elif room <= 0:
            ends.append(_end(hold, "one task too many"))
        else:
            keep.append(hold)
            room -= 1
    renew = tuple(hold for hold in keep if not hold.assignment.stopping and _is_outdated(hold, record, kind))
    missing = max(0, room) if kind else 0
    relieved = tuple(hold for hold in keep if hold.key in reliefs)
    covered = Coverage(tuple(keep), (*lost, *ends), renew, wanted, missing, relieved)
    if covered.is_moving or covered.end:
        return covered
    return replace(covered, leaving=next((hold for hold in keep if hold.node in drained), None))


def _uncovered(lost: Sequence[End], there: Sequence[AssignedTask]) -> Coverage:
    """All tasks of a removed resource end; exclusive ones stay until their nodes confirm, for it may be added again."""
    keep = tuple(hold for hold in there if hold.assignment.stopping)
    ends = (_end(hold, "the resource was removed") for hold in there if not hold.assignment.stopping)
    return Coverage(keep, (*lost, *ends), (), 0, 0)


def _end(hold: AssignedTask, why: str) -> End:
    """The end of a task whose node is alive; an exclusive task must be confirmed stopped before another begins."""
    return End(hold, why, must_confirm=hold.assignment.exclusive)


def _live_ones_first(hold: AssignedTask) -> tuple[bool, int]:
    """The order in which tasks are counted: one that stops must not take the place of one that runs."""
    return hold.assignment.stopping, hold.assignment.slot


def being_relieved(holds: Sequence[AssignedTask]) -> dict[Key, AssignedTask]:
    """By the assignment of each task that another is to take the place of: that other, later one of its slot."""
    later = [hold for hold in holds if hold.assignment.relieves is not None and not hold.assignment.stopping]
    return {
        hold.key: successor
        for successor in later
        for hold in holds
        if hold.node == successor.assignment.relieves
        and hold.assignment.slot == successor.assignment.slot
        and hold.epoch < successor.epoch
    }


def free_slot(taken: Collection[int]) -> int:
    """The lowest number that no task of the resource has."""
    slot = 0
    while slot in taken:
        slot += 1
    return slot


def _unfit(hold: AssignedTask, record: ResourceRecord, evicted: Collection[Key], overdue: Collection[NodeId]) -> str:
    if hold.assignment.stopping:
        return ""
    if record.pin is not None and hold.node != record.pin:
        return f"it is pinned to {record.pin}"
    if hold.node in overdue:
        return "its node's drain has taken too long"
    return "its node has fewer slots than tasks" if hold.key in evicted else ""


def _is_outdated(hold: AssignedTask, record: ResourceRecord, kind: KindRecord | None) -> bool:
    assignment = hold.assignment
    return (assignment.spec, assignment.cost, assignment.exclusive) != (
        record.spec,
        record.cost,
        is_exclusive(assignment, kind),
    )


def is_exclusive(assignment: Assignment, kind: KindRecord | None) -> bool:
    """Is a task exclusive? As its kind says; if no node declares the kind, as its assignment says."""
    return kind.exclusive if kind else assignment.exclusive
