"""Classes: which demands are alike, which nodes each class may use, and which suit it best.

Two demands that differ only in their keys, in what is missing and in which nodes hold them are of one class. What is
checked of nodes (kind, labels, rules, tags) is checked once for each class.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from rota.placement.core.demand import Demand, Place, Tag
from rota.placement.core.fleet import FleetCapacity, Needs, Nodes
from rota.placement.core.rules import Rulings
from rota.placement.core.sharing import DemandGroup
from rota.resources.core.records import NO_AFFINITY

Class: TypeAlias = tuple[Hashable, ...]


class Classes:
    """Which demands are alike, and what those have in common."""

    def __init__(self, demands: Iterable[Demand], fleet: FleetCapacity, rulings: Rulings, *, has_rules: bool) -> None:
        self._fleet, self._rulings, self._has_rules = fleet, rulings, has_rules
        self._named = _named(demands, fleet.places)
        self._is_plain = not self._named and not has_rules
        self._known: dict[Class, Needs] = {}

    def of(self, demand: Demand) -> Class:
        """The key of the demand's class; its priority comes first."""
        labels = tuple(sorted(demand.labels.items())) if demand.labels else ()
        plain = (demand.priority, demand.kind, demand.cost, demand.pin, demand.avoid, demand.resting, labels)
        affinity = demand.affinity
        if affinity is NO_AFFINITY and self._is_plain:
            return plain
        tags = {("kind", demand.kind), *demand.tags.items()} & self._named
        return (
            *plain,
            *(tuple(sorted(pairs.items())) for pairs in (affinity.prefer, *_ties(demand))),
            tuple(sorted(tags)),
            self._rulings.about(demand),
        )

    def needs(self, alike: Class) -> Needs:
        """The needs of a class; one object for each, whatever its priority."""
        if alike[1:] not in self._known:
            self._known[alike[1:]] = Needs(*alike[1:])  # type: ignore[arg-type]
        return self._known[alike[1:]]

    def group(self, needs: Needs) -> DemandGroup:
        """The nodes that demands of a class may use, and those that suit best."""
        fleet = self._fleet
        fit = fleet.fitting(needs)
        if self._has_rules:
            fit &= ~fleet.where([bool(self._rulings.refusal(needs.about, place)) for place in fleet.places])
        return DemandGroup(needs, fit & ~fleet.set_of(needs.avoid), fit, self._tiers(needs))

    def _tiers(self, needs: Needs) -> tuple[Nodes, ...]:
        """The nodes by how well they suit, the best first; none if all are equal."""
        if not needs.prefer and not self._has_rules:
            return ()
        places = self._fleet.places
        scores = [round(self._score(needs, place), 3) for place in places]
        kinds = sorted(set(scores), reverse=True)
        return tuple(self._fleet.where([score == each for score in scores]) for each in kinds) if len(kinds) > 1 else ()

    def _score(self, needs: Needs, place: Place) -> float:
        wishes = sum(place.labels.get(name) == value for name, value in needs.prefer)
        return wishes + (self._rulings.score(needs.about, place) if self._has_rules else 0.0)


def _named(demands: Iterable[Demand], places: Iterable[Place]) -> set[Tag]:
    """Tags that some demand names as near or apart."""
    named = {tag for place in places for tag in place.shuns}
    # One of each: nearly all share the one that asks for nothing.
    for demand in {id(demand.affinity): demand for demand in demands}.values():
        for pairs in _ties(demand):
            named.update(pairs.items())
    return named


def has_ties(demand: Demand) -> bool:
    """Does the demand name tags to be near to or apart from?"""
    return any(_ties(demand))


def _ties(demand: Demand) -> tuple[Mapping[str, str], ...]:
    affinity = demand.affinity
    return affinity.near, affinity.apart, affinity.prefer_near, affinity.prefer_apart
