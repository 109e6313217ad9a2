"""Place: which nodes get the replicas that are missing.

`place` takes the demands and the nodes and returns binds, each with the reason for its node, and pendings, each with
what prevents it. It keeps these laws (tests/unit/placement/core):

1. Slots are never exceeded, and no node gets two replicas of a resource.
2. A node gets only what it declares the kind of, has the labels for and is open to, what no rule refuses it, and what
   may be beside what it holds.
3. Higher priorities come first. Within one, a first replica of everything comes before a second of anything.
4. Nothing waits that could be placed: the binds are as many as there can be (with tasks of different cost, or with
   affinity: as many as a greedy pass finds).
5. The order of the input does not matter. Carried out and asked again, it binds nothing.

It places only what is missing and moves nothing that runs. `placement.fleet.supervisor` writes the binds down.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from rota.model.errors import Invalid
from rota.placement.core.classes import Classes
from rota.placement.core.demand import BindReplica, Demand, Pending, Place, Placement
from rota.placement.core.fleet import FleetCapacity
from rota.placement.core.reasons import Reasons
from rota.placement.core.round import Groups, Round
from rota.placement.core.rules import NO_RULES, Rules, Rulings
from rota.placement.core.shares import WEIGHTED, Policy
from rota.placement.core.sharing import DemandGroup, Row


def place(
    demands: Sequence[Demand],
    places: Sequence[Place],
    policy: Policy = WEIGHTED,
    *,
    rules: Rules = NO_RULES,
    seed: int = 0,
) -> Placement:
    """Where the missing replicas go, and why the rest has to wait."""
    fleet, rulings = FleetCapacity(places), Rulings(rules)
    ordered = sorted(demands, key=attrgetter("key"))
    rows, groups = _grouped(ordered, fleet, Classes(ordered, fleet, rulings, has_rules=bool(rules)))
    round = Round(fleet, policy, seed)
    for priority in sorted(groups, reverse=True):
        round.fill(groups[priority])
    binds = [BindReplica(key, seat.id, seat.why) for row in rows if (key := row.demand.key) for seat in row.seats]
    return Placement(binds, _pending(rows, Reasons(fleet, round.ties, rulings)), rulings.failed)


def _grouped(
    demands: Iterable[Demand], fleet: FleetCapacity, classes: Classes
) -> tuple[list[Row], Mapping[int, Groups]]:
    """All demands as rows, and the same by priority in groups of equal needs."""
    all_rows: list[Row] = []
    known: dict[object, tuple[DemandGroup, list[Row]]] = {}
    by_priority: dict[int, dict[DemandGroup, list[Row]]] = defaultdict(dict)
    most = len(fleet.places)
    last = None
    for demand in demands:
        if demand.key == last:
            raise Invalid(f'resource "{last}" is there twice among the demands; add up what it misses')
        last, missing = demand.key, demand.missing
        if missing < 1:
            continue
        alike = classes.of(demand)
        if (found := known.get(alike)) is None:
            found = known[alike] = classes.group(classes.needs(alike)), []
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
