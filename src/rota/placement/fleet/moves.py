"""Moves: which running tasks the leader moves to balance the nodes, and how fast.

The rules are in `decide`; here they are asked with the leader's view. Nothing is moved of a resource that lacks a task,
or of which another task is on its way.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from rota.fleet.core.members.flapping import Returns, returned
from rota.kit.record import replace
from rota.kit.time.instant import Instant
from rota.kit.time.rate import TokenBucket
from rota.model.ids import NodeId, SessionId
from rota.placement.core import Movable, Place, rebalance
from rota.placement.fleet.plan import How, Shift, demand_of, places
from rota.placement.fleet.view import FleetView
from rota.resources.core.coverage import Coverage


def shifts(
    view: FleetView, how: How, now: datetime, most: int, ramp: Mapping[NodeId, int] | None = None
) -> dict[str, Shift]:
    """Tasks that should move, by resource; at most `most`, and only where the ramp allows."""
    leaving: Counter[NodeId] = Counter()
    for hold in view.leaving.values():
        leaving[hold.node] += hold.assignment.cost
    better = rebalance(
        [_settled(place, leaving[place.id], ramp) for place in places(view)],
        lambda node: _movable(view, node, how, now),
        how.policy,
        most=most,
        tolerance=how.tolerance,
        rules=how.rules,
    )
    return {each.key: Shift(view.holds[each.key][str(each.name)], each.target, each.why) for each in better}


def _settled(place: Place, leaving: int, ramp: Mapping[NodeId, int] | None) -> Place:
    """A node as it will be when what has begun is done; only what is free already may be given out."""
    free = max(0, place.slots - place.used)
    return replace(place, used=place.used - leaving, ramp=free if ramp is None else min(free, ramp.get(place.id, 0)))


def _movable(view: FleetView, node: NodeId, how: How, now: datetime) -> Iterator[Movable]:
    """The tasks of a node that may go: those that need not be interrupted first, then the newest."""
    held = sorted(view.on_node[node].items(), key=lambda pair: (pair[1].assignment.exclusive, -pair[1].epoch))
    for key, hold in held:
        name, record = hold.resource, view.resources.get(hold.resource)
        holds = view.holds[name]
        if record is None or record.kind not in view.kinds or name in view.pending:
            continue
        if any(other in view.leaving for other in holds):
            continue
        kept = Coverage(tuple(holds.values()), (), (), len(holds), missing=1)
        yield Movable(key, demand_of(view, name, kept, how, now))


class Damping:
    """Which nodes get no tasks by rebalancing, because they have left and come back repeatedly."""

    def __init__(self) -> None:
        self._sessions: dict[NodeId, SessionId] = {}
        self._returns: dict[NodeId, Returns] = {}

    def nodes(self, view: FleetView, now: Instant) -> frozenset[NodeId]:
        """Those nodes, as of now."""
        for node, record in view.nodes.items():
            if self._sessions.setdefault(node, record.session) != record.session:
                self._sessions[node] = record.session
                self._returns[node] = returned(self._returns.get(node), now)
        return frozenset(node for node, each in self._returns.items() if each.rests_until > now)


class Ramp:
    """How many slots each node may be given for moves."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._paces: dict[NodeId, TokenBucket] = {}

    def left(self, view: FleetView, now: Instant) -> dict[NodeId, int]:
        """By node, as of now."""
        self._paces = {
            node: self._paces.get(node) or TokenBucket(self._per_second, timedelta(seconds=1), now)
            for node in view.nodes
        }
        return {node: pace.left(now) for node, pace in self._paces.items()}

    def spend(self, moved: Mapping[NodeId, int]) -> None:
        """Count slots that were given to a node."""
        for node, slots in moved.items():
            self._paces[node].spend(slots)
