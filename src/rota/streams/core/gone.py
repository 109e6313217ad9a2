"""Partitions that cannot be read on: the source has deleted what comes next, or is shorter than it was. Pure.

They wait until an operator sets their offsets; the other partitions go on.
"""

from collections.abc import Iterable, Mapping

from rota.streams.core.chain import in_order
from rota.streams.core.manifest import Offsets
from rota.streams.core.records import Group, Phase, StreamTaskStatus

Span = tuple[int, int]
"""The first offset that a partition has, and the one behind its last."""


def reached(groups: Iterable[Group], tasks: Iterable[StreamTaskStatus]) -> dict[int, int]:
    """Partition → up to where its newest group has come; those that no group has are left out."""
    found: dict[int, int] = {}
    reading: set[str] = set()
    for group in in_order(groups):
        if group.phase is not Phase.STANDBY:
            found |= group.ends
        if group.phase in (Phase.READING, Phase.PAUSING):
            reading.add(group.id)
    for task in tasks:
        if task.group in reading:
            found |= {each: max(at, found.get(each, at)) for each, at in task.offsets.items()}
    return found


def gone(spans: Mapping[int, Span], committed: Offsets, before: Offsets, held: Mapping[int, int]) -> dict[int, str]:
    """Partition → why it cannot be read on.

    `before`: the committed offsets when the source was last queried. Offsets committed since may be past the ends that
    the source reported then; that is no error. `held`: the offsets that groups have reached.
    """
    found = {}
    for partition, (start, end) in spans.items():
        at = committed.get(partition, start)
        is_past = partition not in held and min(at, before.get(partition, start)) > end
        if is_past or held.get(partition, at) < start:
            found[partition] = f"it is committed up to {at}, and has offsets from {start} to {end}"
    return found
