"""Tasks move until nodes are balanced: few of them, nobody where it may not be, and then no more."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.ids import NodeId
from rota.placement.core import POLICIES, Better, Demand, Movable, Place, Rule, place, rebalance
from rota.resources.core.records import Affinity
from tests.unit.placement.core.builders import ROOM, demand, node


class Fleet:
    """Nodes and what they hold."""

    def __init__(self, places: list[Place], wanted: list[Demand] | None = None) -> None:
        self.places = {p.id: p for p in places}
        self.wanted = {d.key: d for d in wanted or []}
        self.held: dict[str, set[NodeId]] = {d.key: set(d.holders) for d in wanted or []}

    def deal(self, wanted: list[Demand]) -> None:
        """Place what is new."""
        self.wanted |= {d.key: d for d in wanted}
        for bind in place(wanted, self.now()).binds:
            self.held.setdefault(bind.key, set()).add(bind.node)

    def now(self) -> list[Place]:
        used: Counter[NodeId] = Counter()
        for key, nodes in self.held.items():
            used.update(dict.fromkeys(nodes, self.wanted[key].cost))
        return [
            Place(p.id, p.slots, used[p.id], p.labels, p.kinds, p.is_open, p.why_closed) for p in self.places.values()
        ]

    def movable(self, node: NodeId) -> Iterator[Movable]:
        for key in sorted(self.held):
            if node in self.held[key]:
                one = self.wanted[key]
                yield Movable(
                    key,
                    Demand(
                        key, ROOM, 1, frozenset(self.held[key]), cost=one.cost, labels=one.labels, pin=one.pin,
                        tags=one.tags, affinity=one.affinity,
                    ),
                )  # fmt: skip

    def balance(self, most: int = 10_000, **more: object) -> list[Better]:
        moves = rebalance(self.now(), self.movable, most=most, **more)  # type: ignore[arg-type]
        for move in moves:
            assert move.source in self.held[move.key]
            assert move.target not in self.held[move.key]
            self.held[move.key] = self.held[move.key] - {move.source} | {move.target}
        return moves

    def used(self) -> dict[str, int]:
        return {str(p.id): p.used for p in self.now()}


def full(count: int = 300, replicas: int = 1, nodes: str = "abc", slots: int = 1000) -> Fleet:
    fleet = Fleet([node(id, slots) for id in nodes])
    fleet.deal([demand(f"r{number:04}", replicas) for number in range(count)])
    return fleet


def test_a_new_node_gets_its_part_by_no_more_moves_than_that() -> None:
    fleet = full(3000, 1, "abc", 1000)
    fleet.places[NodeId("d")] = node("d", 1000)
    moves = fleet.balance(tolerance=0.0)
    assert all(abs(used - 750) <= 1 for used in fleet.used().values())  # one more or less is even
    assert len(moves) <= 750
    assert moves[0].why == "rebalanced: a has 250 more than its part, d 750 less"


def test_it_stops_inside_the_tolerance() -> None:
    fleet = full(300, 1, "abc", 200)
    fleet.places[NodeId("d")] = node("d", 200)
    fleet.balance(tolerance=0.2)
    assert fleet.used()["d"] == 60
    assert fleet.balance(tolerance=0.2) == []


def test_no_more_is_moved_than_may_be() -> None:
    fleet = full()
    fleet.places[NodeId("d")] = node("d", 1000)
    assert len(fleet.balance(most=7)) == 7


def test_of_a_resource_one_task_is_moved_at_a_time() -> None:
    fleet = full(30, 2, "ab", 100)
    fleet.places |= {NodeId(id): node(id, 100) for id in "cd"}
    moves = fleet.balance(tolerance=0.0)
    assert len({move.key for move in moves}) == len(moves)


def test_a_larger_node_gets_more() -> None:
    fleet = full(120, 1, "a", 200)
    fleet.places |= {NodeId("b"): node("b", 100)}
    fleet.balance(tolerance=0.0)
    assert fleet.used() == {"a": 81, "b": 39}


def test_each_policy_knows_what_is_even() -> None:
    for policy, expected in {"weighted": 80, "least-loaded": 60, "round-robin": 60, "most-free": 110}.items():
        fleet = full(120, 1, "a", 200)
        fleet.places |= {NodeId("b"): node("b", 100)}
        fleet.balance(tolerance=0.0, policy=POLICIES[policy])
        assert abs(fleet.used()["a"] - expected) <= 1, policy


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"labels": {"disk": "ssd"}}, id="labels"),
        pytest.param({"pin": NodeId("a")}, id="pin"),
        pytest.param({"tags": {"app": "db"}}, id="others may be tied to it"),
        pytest.param({"affinity": Affinity(near={"app": "db"})}, id="tied to others"),
    ],
)
def test_who_may_not_go_stays(more: dict[str, object]) -> None:
    wanted = [demand(f"r{number}", 0, "a", **more) for number in range(20)]
    fleet = Fleet([node("a", 50, labels={"disk": "ssd"}), node("b", 50)], wanted)
    assert fleet.balance() == []


def test_nothing_goes_to_a_node_that_is_closed_and_its_own_tasks_are_not_counted() -> None:
    wanted = [demand(f"r{number}", 0, "ab"[number % 2]) for number in range(40)]
    fleet = Fleet([node("a", 50), node("b", 50), node("c", 50, is_open=False)], wanted)
    assert fleet.balance() == []


def test_replicas_do_not_come_closer_together() -> None:
    places = [node(id, 100, labels={"zone": zone}) for id, zone in zip("abc", "xyx", strict=True)]
    wanted = [demand(f"r{number}", 0, "ab") for number in range(50)]
    fleet = Fleet(places, wanted)
    fleet.balance(tolerance=0.0)
    for nodes in fleet.held.values():
        assert len({fleet.places[id].labels["zone"] for id in nodes}) == 2


def test_nothing_goes_where_it_suits_less() -> None:
    class Cheap(Rule):
        def score(self, about: object, node: Place) -> float:
            return 1.0 if node.id == "a" else 0.0

    fleet = Fleet([node("a", 50), node("b", 50)], [demand(f"r{number}", 0, "a") for number in range(20)])
    assert fleet.balance(rules={"cheap": Cheap()}) == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=40),
    st.sampled_from([0.0, 0.1, 0.3]),
)
def test_any_fleet_is_balanced_once_and_for_all_within_its_slots(
    slots: list[int], tasks: list[tuple[int, int]], tolerance: float
) -> None:
    places = [node(f"n{number}", free) for number, free in enumerate(slots)]
    used: defaultdict[NodeId, int] = defaultdict(int)
    wanted = []
    for number, (where, cost) in enumerate(tasks):
        here = places[where % len(places)]
        if used[here.id] + cost <= here.slots:
            used[here.id] += cost
            wanted.append(Demand(f"r{number:02}", ROOM, 0, frozenset({here.id}), cost=cost))
    fleet = Fleet(places, wanted)
    before = {p.id: p for p in fleet.now()}
    first = fleet.balance(tolerance=tolerance)
    assert all(p.used <= p.slots for p in fleet.now())
    assert sum(p.used for p in fleet.now()) == sum(p.used for p in before.values())
    rounds = 0
    while fleet.balance(tolerance=tolerance):
        rounds += 1
        assert rounds < 50
    assert Fleet(places, wanted).balance(tolerance=tolerance) == first
