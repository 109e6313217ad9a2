"""Nodes and demands in few words, and what there is room for by another way than placement's own."""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.model.ids import NodeId
from rota.placement.core import BindReplica, Demand, Place

ROOM = "room"


def node(id: str, slots: int = 10, used: int = 0, **more: Any) -> Place:
    return Place(NodeId(id), slots, used, **{"kinds": frozenset({ROOM}), **more})


def demand(key: str, missing: int = 1, holders: str = "", **more: Any) -> Demand:
    """A demand of kind `room`; `holders` are nodes with names of one letter, and count as its level."""
    held = frozenset(map(NodeId, holders))
    return Demand(key, missing=missing, **{"kind": ROOM, "holders": held, "level": len(held), **more})


def demands(count: int, missing: int = 1, holders: str = "", **more: Any) -> list[Demand]:
    return [demand(f"r{number:02}", missing, holders, **more) for number in range(count)]


def fits(demand: Demand, place: Place) -> bool:
    """May this node hold this resource at all?"""
    return (
        place.is_open
        and demand.kind in place.kinds
        and all(place.labels.get(name) == value for name, value in demand.labels.items())
        and demand.pin in (None, place.id)
        and place.id not in demand.holders
        and place.id not in demand.resting
    )


def possible(wanted: Sequence[tuple[Demand, int]], places: Sequence[Place]) -> int:
    """How many tasks of cost 1 there is room for at most, if each demand wants so many (maximum flow)."""
    room = {place.id: max(0, place.slots - place.used) for place in places}
    can = {demand.key: [place.id for place in places if fits(demand, place)] for demand, _ in wanted}
    on: dict[NodeId, set[str]] = {place.id: set() for place in places}

    def give(key: str, seen: set[NodeId]) -> bool:
        for id in can[key]:
            if id in seen or key in on[id]:
                continue
            seen.add(id)
            if len(on[id]) < room[id]:
                on[id].add(key)
                return True
            for other in sorted(on[id]):
                if give(other, seen):
                    on[id].discard(other)
                    on[id].add(key)
                    return True
        return False

    return sum(give(demand.key, set()) for demand, count in wanted for _ in range(count))


def per_node(binds: Sequence[BindReplica]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for bind in binds:
        counts[bind.node] = counts.get(bind.node, 0) + 1
    return dict(sorted(counts.items()))


def apply(
    wanted: Sequence[Demand], places: Sequence[Place], binds: Sequence[BindReplica]
) -> tuple[list[Demand], list[Place]]:
    """Demands and places once the binds are carried out."""
    costs = {demand.key: demand.cost for demand in wanted}
    new = {demand.key: [bind.node for bind in binds if bind.key == demand.key] for demand in wanted}
    return (
        [
            Demand(
                d.key,
                d.kind,
                d.missing - len(new[d.key]),
                d.holders.union(new[d.key]),
                d.avoid,
                d.priority,
                d.cost,
                d.labels,
                d.pin,
                d.level + len(new[d.key]),
                resting=d.resting,
            )
            for d in wanted
        ],
        [
            Place(
                p.id,
                p.slots,
                p.used + sum(costs[bind.key] for bind in binds if bind.node == p.id),
                p.labels,
                p.kinds,
                p.is_open,
                p.why_closed,
                p.load,
            )
            for p in places
        ],
    )
