"""Assign: one pass of assignment as seed 000 has it, for callers that use instructions per node.

`assign` takes which node holds what, what is to be added and removed, and whether the nodes should start from nothing;
it returns a set of instructions for each node. What is removed frees its slots first. All else is `place`.

With `reset` a node's `add` is the whole list of what it should run, and the node ends everything that is not in the
list; it need not stop and start what is.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from rota.kit.record import replace
from rota.model.ids import NodeId
from rota.placement.core.demand import Demand, Place
from rota.placement.core.place import place
from rota.placement.core.shares import WEIGHTED, Policy


class Holdings(msgspec.Struct, frozen=True):
    """The nodes, and the keys each of them holds with their costs, which `Place.used` counts."""

    places: Sequence[Place]
    tasks: Mapping[NodeId, Mapping[str, int]]


class Instructions(msgspec.Struct, frozen=True):
    """Instructions for one node, carried out in this order; what is to be added and runs already stays as it is."""

    pre_reset: bool = False
    add: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


def assign(
    snapshot: Holdings,
    add: Sequence[Demand],
    remove: Collection[str],
    reset: bool = False,
    policy: Policy = WEIGHTED,
    *,
    seed: int = 0,
) -> dict[NodeId, Instructions]:
    """The instructions for each node, empty ones included. Removing a key that no node holds changes nothing."""
    gone = frozenset(remove)
    tasks = {node.id: snapshot.tasks.get(node.id, {}) for node in snapshot.places}
    kept = {node: {key: cost for key, cost in held.items() if key not in gone} for node, held in tasks.items()}
    places = [
        replace(node, used=node.used - sum(tasks[node.id].values()) + sum(kept[node.id].values()))
        for node in snapshot.places
    ]
    new: dict[NodeId, set[str]] = {node.id: set() for node in places}
    for bind in place([_as_held(demand, kept) for demand in add], places, policy, seed=seed).binds:
        new[bind.node].add(bind.key)
    return {node: _instructions(tasks[node], kept[node], new[node], reset) for node in sorted(tasks)}


def _as_held(demand: Demand, kept: Mapping[NodeId, Mapping[str, int]]) -> Demand:
    """The demand with the holders that the snapshot has, too."""
    holders = demand.holders.union(node for node, tasks in kept.items() if demand.key in tasks)
    return replace(demand, holders=holders, level=max(demand.level, len(holders)))


def _instructions(had: Mapping[str, int], kept: Mapping[str, int], new: set[str], reset: bool) -> Instructions:
    if reset:
        return Instructions(pre_reset=True, add=tuple(sorted(new | kept.keys())))
    # A task that would end and begin on the same node stays.
    return Instructions(add=tuple(sorted(new - had.keys())), end=tuple(sorted(had.keys() - kept.keys() - new)))
