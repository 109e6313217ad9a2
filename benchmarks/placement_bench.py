"""Placement: binds per second, reasons included, for the fleets and demands that issue 9 names.

Plain demands are alike and fresh. Mixed ones have two kinds, two priorities, one to three replicas, costs of one to
three slots and required labels, on nodes in five zones. Those with affinity are of 200 customers: some are to be apart
from another customer, some would be near or apart, some would like a fast disk. Short means that a quarter or so has to
wait, which is the expensive case: a try is undone, and levels are filled one by one.

What stands beside it is what seed 001 does: a freshly sorted list of nodes for each task. It is measured on a sample of
the demands. One dead node is the usual event: its tasks have holders, and all nodes are looked at once.

Seconds are of processor time, and short is a quarter below the goal or twice above it; for plain
demands the issue names both.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from time import thread_time

from benchmarks import measure
from benchmarks.measure import Goal, Row
from rota.model.ids import NodeId
from rota.placement.core import BindReplica, Demand, Place, Placement, place
from rota.resources.core.records import Affinity

KINDS = ("room", "shop")
SAMPLE = 2_000
"""Demands given to the sort per task, which would take ten seconds for all."""

PLAIN = Goal(at=1_000_000, short=300_000)
BESIDE_SORT = Goal(at=100, short=75)
SMALL = Goal(at=1_000, short=2_000)
MIXED = Goal(at=100_000, short=75_000)
TIED = Goal(at=30_000, short=22_500)
DEAD_NODE = Goal(at=5.0, short=10.0)


def rows(rounds: int) -> list[Row]:
    """Every figure of placement."""
    small, large = fleet(100, 300), fleet(1_000, 400)
    wanted = plain(100_000, 3)
    sides = [(sort_per_task(wanted[:SAMPLE], large), rate(wanted, large)) for _ in range(rounds)]
    sorting, ours = [theirs for theirs, _ in sides], [our for _, our in sides]
    mixture = mixed(100_000)
    return [
        measure.alone("place: 10,000 × 2 on 100 nodes", "ms", _times(plain(10_000, 2), small, rounds), SMALL),
        measure.alone("place: 100,000 × 3 on 1,000 nodes", "/s", ours, PLAIN),
        measure.compare("place: 100,000 × 3 on 1,000 nodes", "/s", "sort per task", sorting, ours, BESIDE_SORT),
        measure.alone("place: the same, short of slots", "/s", _rates(wanted, fleet(1_000, 150), rounds)),
        measure.alone("place: 100,000 mixed, with zones", "/s", _rates(mixture, fleet(1_000, 800), rounds), MIXED),
        measure.alone("place: the same, short of slots", "/s", _rates(mixture, fleet(1_000, 150), rounds)),
        measure.alone("place: 100,000 with affinity", "/s", _rates(tied(100_000), fleet(1_000, 400), rounds), TIED),
        *(
            measure.alone(
                f"place: the tasks of one dead node of {nodes:,}", "ms", _times(*dead_node(nodes), rounds), DEAD_NODE
            )
            for nodes in (10, 100, 1_000)
        ),
    ]


def fleet(count: int, slots: int) -> list[Place]:
    """Nodes of one to two times so many slots, in five zones, every third with a label."""
    chance = random.Random(count)
    return [
        Place(
            NodeId(f"node-{number:04}"),
            slots + chance.randrange(slots),
            0,
            labels={"zone": f"z{number % 5}"} | ({"disk": "fast"} if number % 3 == 0 else {}),
            kinds=frozenset(KINDS),
        )
        for number in range(count)
    ]


def plain(count: int, missing: int) -> list[Demand]:
    """Demands that are all alike."""
    return [Demand(f"room/{number}", "room", missing) for number in range(count)]


def mixed(count: int) -> list[Demand]:
    """Demands that differ in everything but holders."""
    chance = random.Random(count)
    return [
        Demand(
            f"room/{number}",
            chance.choice(KINDS),
            chance.choice((1, 2, 3)),
            priority=chance.choice((0, 0, 0, 1)),
            cost=chance.choice((1, 1, 1, 2, 3)),
            labels=chance.choice(({}, {}, {"disk": "fast"})),
        )
        for number in range(count)
    ]


def tied(count: int) -> list[Demand]:
    """Demands that mind what else their nodes hold."""
    chance = random.Random(count)
    customers = [f"c{number}" for number in range(200)]

    def affinity() -> Affinity:
        other = {"customer": chance.choice(customers)}
        return chance.choice(
            (
                Affinity(apart=other),
                Affinity(prefer_apart=other),
                Affinity(prefer_near=other),
                Affinity(prefer={"disk": "fast"}),
            )
        )

    wishes = [affinity() for _ in range(100)]
    return [
        Demand(
            f"room/{number}",
            "room",
            chance.choice((1, 2, 3)),
            tags={"customer": chance.choice(customers)},
            affinity=chance.choice(wishes),
        )
        for number in range(count)
    ]


def dead_node(count: int) -> tuple[list[Demand], list[Place]]:
    """What one node of so many leaves behind when each had 300 tasks or so, and the nodes that are left."""
    places = fleet(count, 400)
    holders: dict[str, set[NodeId]] = defaultdict(set)
    used: dict[NodeId, int] = defaultdict(int)
    for bind in place(plain(100 * count, 3), places).binds:
        holders[bind.key].add(bind.node)
        used[bind.node] += 1
    dead = places.pop(count // 2).id
    left = [Place(p.id, p.slots, used[p.id], p.labels, p.kinds) for p in places]
    lost = [
        Demand(key, "room", 1, frozenset(nodes - {dead}), level=2) for key, nodes in holders.items() if dead in nodes
    ]
    return lost, left


def sort_per_task(demands: Sequence[Demand], places: Sequence[Place]) -> float:
    """Binds per second of the simplest way: for each demand the nodes sorted by free slots."""
    free = {p.id: p.slots - p.used for p in places}
    binds = []
    before = thread_time()
    for demand in demands:
        for node in sorted(free, key=lambda node: -free[node])[: demand.missing]:
            free[node] -= 1
            binds.append(BindReplica(demand.key, node, "most free"))
    return len(binds) / (thread_time() - before)


def rate(demands: Sequence[Demand], places: Sequence[Place]) -> float:
    """Binds per second."""
    seconds, placement = _timed(demands, places)
    return len(placement.binds) / seconds


def _rates(demands: Sequence[Demand], places: Sequence[Place], rounds: int) -> list[float]:
    return [rate(demands, places) for _ in range(rounds)]


def _times(demands: Sequence[Demand], places: Sequence[Place], rounds: int) -> list[float]:
    """Milliseconds for all of them."""
    return [_timed(demands, places)[0] * 1000 for _ in range(rounds)]


def _timed(demands: Sequence[Demand], places: Sequence[Place]) -> tuple[float, Placement]:
    before = thread_time()
    placement = place(demands, places)
    return thread_time() - before, placement
