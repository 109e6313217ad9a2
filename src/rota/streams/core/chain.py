"""The chain of a stream's groups: each partition goes from its committed offset through group after group.

A group starts where those before it end, partition by partition. What is published of a stream moves along that chain.
A group that is not on it can never publish: it is given up, and so is every group that starts where it ends. Their
partitions are read again from the committed offsets. No record is lost or doubled: those groups had not published.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from rota.streams.core.manifest import Offsets
from rota.streams.core.records import Group, Phase


def in_order(groups: Iterable[Group]) -> list[Group]:
    """The oldest first."""
    return sorted(groups, key=lambda group: group.generation)


def followers(group: Group, groups: Iterable[Group]) -> list[Group]:
    """The later groups that start where this one ends, or where one of them does."""
    held, found = set(group.partitions), []
    for each in in_order(groups):
        if each.generation > group.generation and held.intersection(each.partitions):
            held.update(each.partitions)
            found.append(each)
    return found


def is_published(group: Group, committed: Offsets) -> bool:
    """Is everything the group read in the output?"""
    return group.phase is Phase.PUBLISHING and all(
        committed.get(partition, -1) >= end for partition, end in group.ends.items()
    )


def broken(groups: Collection[Group], committed: Offsets) -> dict[str, str]:
    """Group → why it is not on the chain; those that follow one that is not are among them.

    Groups that are published are left out by the caller: the chain has gone past them.
    """
    found: dict[str, str] = {}
    at = dict(committed)
    for group in in_order(groups):
        if group.phase is Phase.STANDBY:
            gone = [id for id in group.after if id in found]
            if gone:
                found[group.id] = f"it was to follow group {gone[0]}, which is given up"
            continue
        why = _why_off(group, at)
        if why:
            found[group.id] = why
            found |= {
                each.id: f"it starts where group {group.id} ends, which is given up"
                for each in followers(group, groups)
            }
        if group.id not in found:
            at |= group.ends
    return found


def starts(partitions: Sequence[int], groups: Iterable[Group], committed: Offsets) -> dict[int, int] | None:
    """Where a new group of these partitions starts; None while others still read some of them."""
    wanted, found = set(partitions), {each: committed[each] for each in partitions if each in committed}
    for group in in_order(groups):
        if shared := wanted.intersection(group.partitions):
            if group.phase is not Phase.PUBLISHING:
                return None
            found |= {partition: group.ends[partition] for partition in shared}
    return found if len(found) == len(wanted) else None


def is_complete(offsets: Offsets, upto: Offsets) -> bool:
    """Have these offsets reached the end that the stream declares?"""
    return bool(upto) and all(partition in upto and at >= upto[partition] for partition, at in offsets.items())


def next_offsets(group: Group, committed: Offsets) -> tuple[int, dict[int, int]]:
    """Which sequence of a group is to be published next, and where it starts."""
    points = [group.starts, *group.sequences]
    for index in range(len(points) - 1, 0, -1):
        if all(committed.get(partition, -1) >= offset for partition, offset in points[index].items()):
            return index, dict(points[index])
    return 0, dict(group.starts)


def _why_off(group: Group, at: Mapping[int, int]) -> str:
    """Why the chain, whose next offsets are `at`, does not go through a group; empty if it does.

    The chain goes through the group if `at` is its start or, once some of it is published, the end of a sequence of it.
    """
    here = {partition: at.get(partition) for partition in group.partitions}
    if any(point == here for point in (group.starts, *group.sequences)):
        return ""
    for partition, offset in here.items():
        if offset != group.starts.get(partition):
            where = "nowhere" if offset is None else f"at {offset}"
            return f"partition {partition} is {where}, and it starts at {group.starts.get(partition)}"
    return "its partitions are not where it starts"
