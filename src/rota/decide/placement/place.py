"""Place: which nodes get the replicas that are missing.

`place` is handed the demands and the nodes and returns binds, each with what spoke for its node, and what must wait,
each with what is in its way. It keeps these laws (tests/unit/decide/placement):

1. Slots are never exceeded, and no node gets two replicas of a resource.
2. A node gets only what it declares the kind of, has the labels for and is open to.
3. Higher priorities come first. Within one, a first replica of everything comes before a second of anything.
4. Nothing waits that could be placed: the binds are as many as there can be (with tasks of different cost: as many as
   a greedy pass finds).
5. The order of the input does not matter. Carried out and asked again, it binds nothing.

It places only what is missing and moves nothing that runs. `control.supervisor` writes the binds down.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from rota.decide.placement.demand import Bind, Demand, Pending, Place, Placement
from rota.decide.placement.fleet import Fleet, Needs
from rota.decide.placement.reasons import Reasons
from rota.decide.placement.round import Group, Groups, Round, Row
from rota.decide.placement.shares import WEIGHTED, Policy
from rota.model.errors import Invalid


def place(demands: Sequence[Demand], places: Sequence[Place], policy: Policy = WEIGHTED, *, seed: int = 0) -> Placement:
    """Where the missing replicas go, and why the rest has to wait."""
    fleet = Fleet(places)
    rows, groups = _grouped(sorted(demands, key=attrgetter("key")), fleet)
    round = Round(fleet, policy, seed)
    for priority in sorted(groups, reverse=True):
        round.fill(groups[priority])
    binds = [Bind(key, seat.id, seat.why) for row in rows if (key := row.demand.key) for seat in row.seats]
    return Placement(binds, _pending(rows, fleet))


def _grouped(demands: Iterable[Demand], fleet: Fleet) -> tuple[list[Row], Mapping[int, Groups]]:
    """All demands as rows, and the same by priority in groups of equal needs."""
    all_rows: list[Row] = []
    classes: dict[object, Needs] = {}
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
        labels = tuple(sorted(demand.labels.items())) if demand.labels else ()
        alike = (demand.priority, demand.kind, demand.cost, demand.pin, demand.avoid, labels)
        if (found := known.get(alike)) is None:
            needs = classes.setdefault(alike[1:], Needs(*alike[1:]))
            found = known[alike] = _group(needs, fleet), []
            by_priority[demand.priority].update([found])
        group, rows = found
        row = Row(demand, group, missing if missing < most else most)
        all_rows.append(row)
        rows.append(row)
    return all_rows, by_priority


def _group(needs: Needs, fleet: Fleet) -> Group:
    fit = fleet.fitting(needs)
    return Group(needs, fit & ~fleet.set_of(needs.avoid), fit)


def _pending(rows: Iterable[Row], fleet: Fleet) -> list[Pending]:
    reasons = Reasons(fleet)
    pending = []
    for row in [row for row in rows if row.demand.missing > len(row.seats)]:
        demand, group = row.demand, row.group
        missing = demand.missing - len(row.seats)
        holders = fleet.set_of(demand.holders) | fleet.set_of(seat.id for seat in row.seats)
        holding = (holders & group.fit_at_worst).bit_count()
        why = reasons.sentence(group.needs, holding, holders.bit_count() + missing)
        pending.append(Pending(demand.key, missing, why, reasons.refusals(group.needs)))
    return pending
