"""Rebalance: which running tasks should move, once nodes have joined or tasks have ended.

The target of each node is what the policy would give it if everything were placed anew. Tasks go from the node with the
largest surplus to the node with the largest deficit, as long as that makes the fleet more even, and until every node is
within the tolerance of its target. So it moves no more than necessary, ends, and finds nothing to do when called again.

No task is sent to a node that it may not use, that suits it less, or where its replicas would be closer together. A
task that is tied to others, or that others may be tied to by its tags, stays. Each resource moves one task at a time.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import msgspec

from rota.model.ids import NodeId
from rota.placement.core.classes import Classes, has_ties
from rota.placement.core.demand import Demand, Place
from rota.placement.core.fleet import FleetCapacity, Nodes, numbers
from rota.placement.core.rules import NO_RULES, Rules, Rulings
from rota.placement.core.shares import POLICIES, WEIGHTED, NodeOffer, Policy
from rota.placement.core.sharing import DemandGroup
from rota.placement.core.ties import Ties

MISSES = 2_000
"""The most tasks tried without success before the pass ends: there may be a million."""


class Movable(msgspec.Struct, frozen=True):
    """A task that runs, as the demand there would be if it were elsewhere."""

    name: Hashable
    demand: Demand


class Better(msgspec.Struct, frozen=True):
    """A task and the node that it should move to."""

    name: Hashable
    key: str
    source: NodeId
    target: NodeId
    why: str


def rebalance(
    places: Sequence[Place],
    movable: Callable[[NodeId], Iterable[Movable]],
    policy: Policy = WEIGHTED,
    *,
    most: int,
    tolerance: float = 0.1,
    rules: Rules = NO_RULES,
) -> list[Better]:
    """At most `most` moves that make the fleet more even; `movable` gives a node's tasks, the best to move first."""
    return _Levelling(places, policy, tolerance, rules).run(movable, most)


def targets(places: Sequence[Place], policy: Policy) -> list[int]:
    """The slots that would be taken on each of these nodes, if all that is taken now were dealt anew."""
    if policy is POLICIES["random"]:
        policy = WEIGHTED  # a random policy would give another target each time
    offers = [NodeOffer(place.slots, place.slots, 0, place.load) for place in places]
    return policy.share(sum(place.used for place in places), offers, 0)


class _Levelling:
    """One pass."""

    def __init__(self, places: Sequence[Place], policy: Policy, tolerance: float, rules: Rules) -> None:
        self._fleet = fleet = FleetCapacity(places)
        self._classes = Classes((), fleet, Rulings(rules), has_rules=bool(rules))
        self._ties = Ties(fleet)
        self._groups: dict[Hashable, DemandGroup] = {}
        opened = numbers(fleet.opened)
        parts = targets([fleet.places[number] for number in opened], policy)
        self._over = dict.fromkeys(opened, 0)
        """By how much each open node exceeds its target; negative if it is below."""

        self._slack: dict[int, float] = {}
        for number, part in zip(opened, parts, strict=True):
            self._over[number] = fleet.places[number].used - part
            self._slack[number] = max(1.0, tolerance * part)
        self._low = sum(fleet.bits[number] for number, over in self._over.items() if over < 0)
        """Nodes below their target: the only ones to move to."""

        self._moved: set[str] = set()
        self._misses = 0

    def run(self, movable: Callable[[NodeId], Iterable[Movable]], most: int) -> list[Better]:
        found: list[Better] = []
        waiting: dict[int, Iterator[Movable]] = {}
        stuck: set[int] = set()
        while len(found) < most and self._is_uneven():
            source = self._fullest(stuck)
            if source is None:
                break
            if source not in waiting:
                waiting[source] = iter(movable(self._fleet.places[source].id))
            better = self._one_of(source, waiting[source])
            if better is not None:
                found.append(better)
            elif self._misses < MISSES:
                stuck.add(source)
            else:
                break
        return found

    def _is_uneven(self) -> bool:
        return any(abs(over) > self._slack[number] for number, over in self._over.items())

    def _fullest(self, stuck: set[int]) -> int | None:
        able = [number for number, over in self._over.items() if over > 0 and number not in stuck]
        return max(able, key=lambda number: (self._over[number], -number), default=None)

    def _one_of(self, source: int, tasks: Iterator[Movable]) -> Better | None:
        """The next of these tasks that can move, and its target; tasks before it are not tried again."""
        for task in tasks:
            if task.demand.key not in self._moved and (target := self._target(source, task.demand)) is not None:
                return self._move(source, target, task)
            self._misses += 1
            if self._misses == MISSES:
                break
        return None

    def _target(self, source: int, demand: Demand) -> int | None:
        """The node furthest below its target that may take the task and suits it no less; None if there is none."""
        alike = self._classes.of(demand)
        if alike not in self._groups:
            self._groups[alike] = self._classes.group(self._classes.needs(alike))
        group, fleet = self._groups[alike], self._fleet
        if demand.tags or has_ties(demand):
            return None
        nodes = group.fit & self._low
        if not nodes:  # mostly so, where nodes differ in what they can have; there may be a thousand to look at else
            return None
        nodes &= self._ties.allowed(group.needs) & fleet.with_room(demand.cost) & ~fleet.set_of(demand.holders)
        nodes &= _no_worse(group, fleet.bits[source])
        low = [number for number in numbers(nodes) if self._is_better(source, number, demand.cost)]
        apart = [number for number in low if self._is_as_far_apart(source, number, demand)]
        return min(apart, key=lambda number: (self._over[number], number), default=None)

    def _is_better(self, source: int, target: int, cost: int) -> bool:
        over, under = self._over[source], -self._over[target]
        is_due = over > self._slack[source] or under > self._slack[target]
        return is_due and under > 0 and over + under > cost

    def _is_as_far_apart(self, source: int, target: int, demand: Demand) -> bool:
        zones = self._fleet.zones
        if zones[source] == zones[target]:
            return True
        index = self._fleet.index
        there = Counter(zones[index[node]] for node in demand.holders if node in index and index[node] != source)
        return there[zones[target]] <= there[zones[source]]

    def _move(self, source: int, target: int, task: Movable) -> Better:
        cost, places = task.demand.cost, self._fleet.places
        was, low = places[source], places[target]
        why = f"rebalanced: {was.id} has {self._over[source]} more than its part, {low.id} {-self._over[target]} less"
        for number, more in ((source, -cost), (target, cost)):
            self._over[number] += more
            bit = self._fleet.bits[number]
            self._low = self._low | bit if self._over[number] < 0 else self._low & ~bit
        self._fleet.take(target, cost)
        self._moved.add(task.demand.key)
        return Better(task.name, task.demand.key, was.id, low.id, why)


def _no_worse(group: DemandGroup, node: Nodes) -> Nodes:
    """Nodes that suit at least as well as this one."""
    nodes = 0
    for tier in group.tiers:
        nodes |= tier
        if tier & node:
            return nodes
    return ~0
