"""Place: which nodes get the replicas that are missing.

`place` is handed the demands and the nodes and returns binds, each with what spoke for its node, and what must wait,
each with what is in its way. It keeps these laws (tests/unit/decide/placement):

1. Slots are never exceeded, and no node gets two replicas of a resource.
2. A node gets only what it declares the kind of, has the labels for and is open to, what no rule refuses it, and what
   may be beside what it holds.
3. Higher priorities come first. Within one, a first replica of everything comes before a second of anything.
4. Nothing waits that could be placed: the binds are as many as there can be (with tasks of different cost, or with
   affinity: as many as a greedy pass finds).
5. The order of the input does not matter. Carried out and asked again, it binds nothing.

It places only what is missing and moves nothing that runs. `control.supervisor` writes the binds down.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter

from rota.decide.placement.demand import Bind, Demand, Pending, Place, Placement, Tag
from rota.decide.placement.fleet import Fleet, Needs, Nodes
from rota.decide.placement.reasons import Reasons
from rota.decide.placement.round import Group, Groups, Round, Row
from rota.decide.placement.rules import Rules, Rulings
from rota.decide.placement.shares import WEIGHTED, Policy
from rota.model.errors import Invalid

Class = tuple[Hashable, ...]
NO_RULES: Rules = {}


def place(
    demands: Sequence[Demand],
    places: Sequence[Place],
    policy: Policy = WEIGHTED,
    *,
    rules: Rules = NO_RULES,
    seed: int = 0,
) -> Placement:
    """Where the missing replicas go, and why the rest has to wait."""
    fleet, rulings = Fleet(places), Rulings(rules)
    ordered = sorted(demands, key=attrgetter("key"))
    rows, groups = _grouped(ordered, fleet, Classes(ordered, fleet, rulings, has_rules=bool(rules)))
    round = Round(fleet, policy, seed)
    for priority in sorted(groups, reverse=True):
        round.fill(groups[priority])
    binds = [Bind(key, seat.id, seat.why) for row in rows if (key := row.demand.key) for seat in row.seats]
    return Placement(binds, _pending(rows, Reasons(fleet, round.ties, rulings)), rulings.failed)


class Classes:
    """Which demands are alike, and what those have in common."""

    def __init__(self, demands: Iterable[Demand], fleet: Fleet, rulings: Rulings, *, has_rules: bool) -> None:
        self._fleet, self._rulings, self._has_rules = fleet, rulings, has_rules
        self._named = _named(demands, fleet.places)
        self._known: dict[Class, Needs] = {}

    def of(self, demand: Demand) -> Class:
        """What tells the demand apart from others, its priority aside."""
        labels = tuple(sorted(demand.labels.items())) if demand.labels else ()
        plain = (demand.kind, demand.cost, demand.pin, demand.avoid, labels)
        affinity = demand.affinity
        if not (self._named or self._has_rules or affinity.prefer):
            return plain
        tags = {("kind", demand.kind), *demand.tags.items()} & self._named
        return (
            *plain,
            *(tuple(sorted(pairs.items())) for pairs in (affinity.prefer, *_ties(demand))),
            tuple(sorted(tags)),
            self._rulings.about(demand),
        )

    def needs(self, alike: Class) -> Needs:
        """The needs of a class; one object for each."""
        if alike not in self._known:
            self._known[alike] = Needs(*alike)  # type: ignore[arg-type]
        return self._known[alike]

    def group(self, needs: Needs) -> Group:
        """Where demands of a class may go, and where they had better."""
        fleet = self._fleet
        fit = fleet.fitting(needs)
        if self._has_rules:
            fit &= ~fleet.where([bool(self._rulings.refusal(needs.about, place)) for place in fleet.places])
        return Group(needs, fit & ~fleet.set_of(needs.avoid), fit, self._tiers(needs))

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
    """Tags that somebody wants to be near to or apart from."""
    named = {tag for place in places for tag in place.shuns}
    for demand in {id(demand.affinity): demand for demand in demands}.values():
        for pairs in _ties(demand):
            named.update(pairs.items())
    return named


def _ties(demand: Demand) -> tuple[Mapping[str, str], ...]:
    affinity = demand.affinity
    return affinity.near, affinity.apart, affinity.prefer_near, affinity.prefer_apart


def _grouped(demands: Iterable[Demand], fleet: Fleet, classes: Classes) -> tuple[list[Row], Mapping[int, Groups]]:
    """All demands as rows, and the same by priority in groups of equal needs."""
    all_rows: list[Row] = []
    known: dict[object, tuple[Group, list[Row]]] = {}
    by_priority: dict[int, dict[Group, list[Row]]] = defaultdict(dict)
    most = len(fleet.places)
    last = None
    for demand in demands:
        if demand.key == last:
            raise Invalid(f'resource "{last}" is there twice among the demands; add up what it misses')
        last, missing = demand.key, demand.missing
        if missing < 1:
            continue
        alike = classes.of(demand)
        if (found := known.get((demand.priority, alike))) is None:
            found = known[demand.priority, alike] = classes.group(classes.needs(alike)), []
            by_priority[demand.priority].update([found])
        group, rows = found
        row = Row(demand, group, missing if missing < most else most)
        all_rows.append(row)
        rows.append(row)
    return all_rows, by_priority


def _pending(rows: Iterable[Row], reasons: Reasons) -> list[Pending]:
    pending = []
    fleet = reasons.fleet
    for row in [row for row in rows if row.demand.missing > len(row.seats)]:
        demand, group = row.demand, row.group
        missing = demand.missing - len(row.seats)
        holders = fleet.set_of(demand.holders) | fleet.set_of(seat.id for seat in row.seats)
        holding = (holders & group.fit_at_worst).bit_count()
        why = reasons.sentence(group.needs, holding, holders.bit_count() + missing)
        pending.append(Pending(demand.key, missing, why, reasons.refusals(group.needs)))
    return pending
