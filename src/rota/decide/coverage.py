"""Coverage: what one resource still needs, and what it has too much of.

`cover` looks at one resource and the tasks it has; placement (`decide.placement`) then finds nodes for what is missing,
for many resources at once. Planning again after carrying a plan out gives nothing.

Pure: the leader's supervisor reads, asks and commits.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rota.model.assignment import Assignment
from rota.model.ids import NodeId, Revision
from rota.model.resource import KindRecord, ResourceRecord


@dataclass(frozen=True)
class Hold:
    """A task of a resource on a node, as its assignment says."""

    task: str
    node: NodeId
    epoch: Revision
    assignment: Assignment


@dataclass(frozen=True)
class End:
    """A task to be taken from its node."""

    hold: Hold
    why: str
    must_confirm: bool = False
    """Must the node say that it has stopped before another may begin?"""


@dataclass(frozen=True)
class Coverage:
    """What to do about one resource."""

    keep: tuple[Hold, ...]
    """Tasks that stay, also those that are about to stop and have not said so yet."""

    end: tuple[End, ...]
    renew: tuple[Hold, ...]
    """Tasks that stay where they are but were told something else than the resource says now."""

    wanted: int
    missing: int
    """How many tasks have to be placed."""


def cover(
    record: ResourceRecord | None,
    kind: KindRecord | None,
    holds: Sequence[Hold],
    present: Collection[NodeId],
    evicted: Collection[str] = (),
) -> Coverage:
    """What a resource needs, given who is there; `record` is None if it was removed, `kind` if nobody declares it."""
    lost = [End(hold, "its node is gone") for hold in holds if hold.node not in present]
    there = sorted((hold for hold in holds if hold.node in present), key=lambda hold: hold.assignment.slot)
    if record is None:
        return Coverage((), (*lost, *(End(hold, "the resource was removed") for hold in there)), (), 0, 0)
    wanted = record.replicas or (kind.replicas if kind else len(there))
    keep: list[Hold] = []
    ends: list[End] = []
    room = wanted
    for hold in there:
        if hold.assignment.stopping:
            keep.append(hold)  # it counts until its node has confirmed
            room -= 1
        elif why := _unfit(hold, record, evicted):
            ends.append(End(hold, why, hold.assignment.exclusive))
            if hold.assignment.exclusive:
                room -= 1
        elif room <= 0:
            ends.append(End(hold, "one task too many"))
        else:
            keep.append(hold)
            room -= 1
    is_exclusive = kind.exclusive if kind else False
    renew = tuple(hold for hold in keep if not hold.assignment.stopping and _is_outdated(hold, record, is_exclusive))
    missing = max(0, room) if kind else 0
    return Coverage(tuple(keep), (*lost, *ends), renew, wanted, missing)


def free_slot(taken: Collection[int]) -> int:
    """The lowest number that no task of the resource has."""
    slot = 0
    while slot in taken:
        slot += 1
    return slot


def _unfit(hold: Hold, record: ResourceRecord, evicted: Collection[str]) -> str:
    if record.pin is not None and hold.node != record.pin:
        return f"it is pinned to {record.pin}"
    return "its node has fewer slots than tasks" if hold.task in evicted else ""


def _is_outdated(hold: Hold, record: ResourceRecord, is_exclusive: bool) -> bool:
    told = hold.assignment
    return (told.spec, told.cost, told.exclusive) != (record.spec, record.cost, is_exclusive)
