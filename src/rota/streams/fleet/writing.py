"""What a plan of a stream's groups writes: each group with the resource that stands for it, so that it is placed.

Both are written and deleted in one commit, so the resource that the supervisor places never differs from the group.
"""

from collections.abc import Collection, Iterator, Mapping

from rota.model import codec, keys
from rota.model.ids import Key
from rota.resources.core.records import ResourceRecord
from rota.store.port import Delete, Put, Write
from rota.streams.core.plan import GroupPlan
from rota.streams.core.records import Group, kind_of

WRITES = 80
"""Writes in one commit."""

ORIGIN = "stream"
"""Who added the resources that stand for groups."""


def changes(
    before: Mapping[str, Group],
    planned: GroupPlan,
    replicas: int,
    placed_by: Mapping[str, int | None],
    statuses: Mapping[str, Collection[Key]],
) -> list[list[Write]]:
    """The writes, by commit. `placed_by`: the replicas of each resource; `statuses`: the status keys of a group's
    tasks."""
    found: list[list[Write]] = [[]]
    for some in _by_group(before, planned, replicas, placed_by, statuses):
        if found[-1] and len(found[-1]) + len(some) > WRITES:
            found.append([])
        found[-1] += some[:WRITES]
    return [each for each in found if each]


def resource_of(group: Group, replicas: int) -> ResourceRecord:
    """What has the tasks of a group placed."""
    return ResourceRecord(
        uid=group.id,
        kind=kind_of(group.stream),
        id=group.id,
        created=group.created,
        origin=ORIGIN,
        spec={"digest": group.spec, "stream": group.stream},
        replicas=replicas,
    )


def _by_group(
    before: Mapping[str, Group],
    planned: GroupPlan,
    replicas: int,
    placed_by: Mapping[str, int | None],
    statuses: Mapping[str, Collection[Key]],
) -> Iterator[list[Write]]:
    """The oldest groups first: those that come after them start where they end."""
    for group in sorted({**before, **planned.groups}.values(), key=lambda each: each.generation):
        after = planned.groups.get(group.id)
        key, resource = keys.stream_group(group.stream, group.id), keys.resource(kind_of(group.stream), group.id)
        if after is None:
            yield [Delete(key), Delete(resource), *(Delete(status) for status in statuses.get(group.id, ()))]
            continue
        writes: list[Write] = []
        if after != before.get(group.id):
            writes.append(Put(key, codec.encode(after)))
        if placed_by.get(group.id) != replicas:
            writes.append(Put(resource, codec.encode(resource_of(after, replicas))))
        if writes:
            yield writes
