"""Missing replicas go where they fit, in the right order; what waits says why."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from rota.kit.record import replace
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.placement.core import POLICIES, Demand, Place, place
from tests.unit.placement.core.builders import apply, demand, demands, node, per_node


@pytest.mark.parametrize(
    ("wanted", "places", "expected"),
    [
        pytest.param(
            demands(20, 2),
            [node("a", 100), node("b", 40), node("c", 10)],
            {"a": 20, "b": 16, "c": 4},
            id="20 rooms twice on 100, 40 and 10 free slots",
        ),
        pytest.param(
            demands(1, 2),
            [node("a", 1100, 1000), node("b", 540, 500), node("c", 510, 500)],
            {"a": 1, "b": 1},
            id="one new room beside 1000",
        ),
        pytest.param(demands(5), [node("a"), node("b")], {"a": 3, "b": 2}, id="five resources on two equal nodes"),
        pytest.param(demands(9), [node("a", 5, 7), node("b", 5, 1)], {"b": 4}, id="an over-full node gets nothing"),
        pytest.param(demands(3, cost=4), [node("a", 11), node("b", 7)], {"a": 2, "b": 1}, id="costs count"),
        pytest.param(demands(3, 1, "a"), [node("a", 90), node("b", 5)], {"b": 3}, id="not where it is held already"),
        pytest.param(demands(2), [node("a", is_open=False), node("b", 2)], {"b": 2}, id="not on a closed node"),
        pytest.param(
            demands(2), [node("a", kinds=frozenset({"shop"})), node("b")], {"b": 2}, id="not without the kind"
        ),
        pytest.param(
            demands(2, labels={"gpu": "yes"}), [node("a"), node("b", labels={"gpu": "yes"})], {"b": 2}, id="labels"
        ),
        pytest.param(demands(2, pin=NodeId("b")), [node("a", 90), node("b")], {"b": 2}, id="pinned"),
    ],
)
def test_place(wanted: list[Demand], places: list[Place], expected: dict[str, int]) -> None:
    assert per_node(place(wanted, places).binds) == expected


@pytest.mark.parametrize("policy", ["weighted", "least-loaded", "most-free", "round-robin"])
def test_each_policy_balances_five_resources_on_two_equal_nodes(policy: str) -> None:
    assert per_node(place(demands(5), [node("a"), node("b")], POLICIES[policy]).binds) == {"a": 3, "b": 2}


def test_resources_added_one_by_one_go_round() -> None:
    places = [node("a", 50), node("b", 50), node("c", 50)]
    chosen = []
    for number in range(6):
        (bind,) = place([demand(f"r{number}")], places, POLICIES["round-robin"]).binds
        chosen.append(bind.node)
        places = [replace(p, used=p.used + (p.id == bind.node)) for p in places]
    assert chosen == ["a", "b", "c", "a", "b", "c"]


def test_a_bind_says_what_spoke_for_its_node() -> None:
    (bind,) = place([demand("r")], [node("a", 30, 10), node("b", 10)]).binds
    assert bind.why == "weighted: 1 of 1 for 20 of 30 free slots"
    (bind,) = place([demand("r")], [node("a", 30, 10), node("b", 10)], POLICIES["least-loaded"]).binds
    assert (bind.node, bind.why) == ("b", "least-loaded: 0 slots in use, load 0.00")


def test_neighbouring_keys_go_to_different_nodes() -> None:
    binds = place(demands(12), [node("a"), node("b"), node("c")]).binds
    assert all(one.node != other.node for one, other in pairwise(binds))


def test_a_node_that_failed_is_taken_only_if_no_other_will_do() -> None:
    avoiding = demand("r", avoid=frozenset({NodeId("a")}))
    assert per_node(place([avoiding], [node("a", 90), node("b", 1)]).binds) == {"b": 1}
    assert per_node(place([avoiding], [node("a", 90), node("b", 1, 1)]).binds) == {"a": 1}
    assert per_node(place([replace(avoiding, missing=2)], [node("a", 90), node("b", 1)]).binds) == {"a": 1, "b": 1}


def test_a_node_that_a_resource_rests_from_does_not_get_it_though_no_other_will_do():
    resting = demand("r", resting=frozenset({NodeId("a")}))
    assert per_node(place([resting], [node("a", 90), node("b", 1)]).binds) == {"b": 1}
    (full,) = place([resting], [node("a", 90), node("b", 1, 1)]).pending
    assert full.refusals[NodeId("a")] == "it has just failed there, and is tried there again later"
    (pending,) = place([resting], [node("a", 90)]).pending
    assert pending.why == (
        "it has just failed on every node that could take it, and is tried again later; see its task's log"
    )
    (pinned,) = place([replace(resting, pin=NodeId("a"))], [node("a", 90)]).pending
    assert "has just failed there" in pinned.why


def test_one_that_may_go_anywhere_makes_way_for_one_that_may_not() -> None:
    """`a-any` alone would go to the larger node, and `b-fast` nowhere."""
    fast = node("x", 1, labels={"disk": "fast"})
    binds = place([demand("a-any"), demand("b-fast", labels={"disk": "fast"})], [fast, node("y", 1)]).binds
    assert {bind.key: bind.node for bind in binds} == {"a-any": "y", "b-fast": "x"}


def test_one_of_a_higher_priority_moves_over_for_a_lower_one() -> None:
    fast = node("x", 2, labels={"disk": "fast"})
    urgent, later = demand("a", 1, priority=5), demand("b", labels={"disk": "fast"})
    full = place([urgent, later, demand("c", labels={"disk": "fast"})], [fast, node("y", 1)])
    assert per_node(full.binds) == {"x": 2, "y": 1}
    assert not full.pending
    assert next(bind.why for bind in full.binds if bind.key == "a").startswith("weighted: moved over")


def test_first_replicas_come_before_second_ones() -> None:
    placement = place(demands(4, 2), [node("a", 3), node("b", 3)])
    counts = Counter(bind.key for bind in placement.binds)
    assert counts == {"r00": 2, "r01": 2, "r02": 1, "r03": 1}
    assert {pending.key: pending.missing for pending in placement.pending} == {"r02": 1, "r03": 1}


def test_what_has_nothing_comes_before_what_has_one() -> None:
    placement = place([demand("a", 1, "x"), demand("b", 1)], [node("x", 0), node("y", 1)])
    assert [bind.key for bind in placement.binds] == ["b"]


def test_a_higher_priority_is_filled_before_a_lower_one_gets_anything() -> None:
    placement = place([demand("a", 2), demand("b", 2, priority=1)], [node("x", 1), node("y", 1)])
    assert [bind.key for bind in placement.binds] == ["b", "b"]


def test_large_tasks_are_not_crowded_out_by_small_ones() -> None:
    placement = place([demand("a"), demand("b"), demand("large", cost=4)], [node("x", 4), node("y", 2)])
    assert {bind.key: bind.node for bind in placement.binds} == {"a": "y", "b": "y", "large": "x"}


def zoned(**zones: str) -> list[Place]:
    return [node(id, labels={"zone": zone}) for id, zone in zones.items()]


def test_replicas_are_in_distinct_zones() -> None:
    places = zoned(a="north", b="north", c="south", d="east")
    zone = {p.id: p.labels["zone"] for p in places}
    placement = place(demands(10, 2), places)
    for key in {bind.key for bind in placement.binds}:
        assert len({zone[bind.node] for bind in placement.binds if bind.key == key}) == 2
    assert "in zone" in placement.binds[0].why


def test_single_replicas_are_shared_out_by_the_policy_whatever_zones_there_are() -> None:
    places = zoned(a="x", b="x", c="y")
    wanted, found = demands(7), Counter[str]()
    for each in wanted:
        (bind,) = place([each], places, POLICIES["least-loaded"]).binds
        found[bind.node] += 1
        _, places = apply([each], places, [bind])
    assert sorted(found.values()) == [2, 2, 3]
    assert sorted(per_node(place(wanted, zoned(a="x", b="x", c="y"), POLICIES["least-loaded"]).binds).values()) == [
        2,
        2,
        3,
    ]


def test_several_replicas_are_levelled_over_zones_as_far_as_they_stay_apart() -> None:
    places = [replace(each, used=5) if each.id == "a" else each for each in zoned(a="x", b="y", c="z")]
    assert per_node(place(demands(4, 2), places, POLICIES["least-loaded"]).binds) == {"b": 4, "c": 4}


def test_a_replacement_goes_to_a_zone_without_a_replica() -> None:
    places = [node("a", 90, labels={"zone": "north"}), node("b", 90, labels={"zone": "north"}), *zoned(c="south")]
    assert per_node(place(demands(8, 1, "a"), places).binds) == {"c": 8}


def test_the_only_replica_may_stay_in_its_zone_when_it_leaves_its_node() -> None:
    places = [*zoned(a="north"), node("b", 90, labels={"zone": "north"}), *zoned(c="south")]
    assert per_node(place(demands(8, 1, "a", leaving=NodeId("a")), places).binds) == {"b": 7, "c": 1}
    two = demands(8, 1, "ac", leaving=NodeId("a"))
    assert per_node(place(two, [*places, *zoned(d="south")]).binds) == {"b": 8}


def test_more_replicas_than_zones_are_spread_as_evenly_as_they_can() -> None:
    places = zoned(a="north", b="north", c="north", d="south", e="south", f="south")
    places[:3] = [replace(p, slots=100) for p in places[:3]]
    zone = {p.id: p.labels["zone"] for p in places}
    counts = Counter((bind.key, zone[bind.node]) for bind in place(demands(6, 4), places).binds)
    assert set(counts.values()) == {2}


def test_a_zone_that_is_full_does_not_leave_anything_waiting() -> None:
    assert not place(demands(10, 2), [*zoned(a="north", b="north"), node("c", 0, labels={"zone": "south"})]).pending


@pytest.mark.parametrize(
    ("wanted", "places", "why"),
    [
        pytest.param(demand("r"), [], 'there is no node that works; start one with "rota node"', id="no node"),
        pytest.param(
            demand("r", kind="shop"),
            [node("a")],
            'no node declares kind "shop"; start one whose app does',
            id="no kind",
        ),
        pytest.param(
            demand("r", labels={"gpu": "yes"}),
            [node("a")],
            "no node has label gpu=yes; label one, or ask for another",
            id="no label",
        ),
        pytest.param(
            demand("r", labels={"gpu": "yes", "os": "bsd"}),
            [node("a", labels={"gpu": "yes"}), node("b", labels={"os": "bsd"})],
            'no node declares kind "room" and has gpu=yes and os=bsd; add one, or ask for less',
            id="not together",
        ),
        pytest.param(
            demand("r"),
            [node("a", is_open=False, why_closed="it is cordoned: new disk")],
            "the only node that could take it gets no new tasks (it is cordoned: new disk); open one or add one",
            id="closed",
        ),
        pytest.param(
            demand("r"),
            [node(id, 100, 100) for id in "abcde"],
            "all slots of 5 nodes are taken (500 of 500); add slots or nodes",
            id="full",
        ),
        pytest.param(
            demand("r", cost=3),
            [node("a", 10, 8), node("b", 10, 9)],
            "none of 2 nodes has 3 slots free, which its task takes (3 of 20 are free in all); add slots or nodes",
            id="too large",
        ),
        pytest.param(
            demand("r", 1, "ab"),
            [node("a"), node("b")],
            "its 2 nodes hold it already; it needs 3 distinct nodes: add one, or ask for fewer replicas",
            id="distinct",
        ),
        pytest.param(
            demand("r", 1, "a"),
            [node("a"), node("b", 1, 1), node("c", 1, 1)],
            "1 node holds it already, and all slots of the other 2 are taken; add slots or nodes",
            id="held and full",
        ),
        pytest.param(
            demand("r", pin=NodeId("z")),
            [node("a")],
            "it is pinned to node z, which is not there; start that node or change the pin",
            id="pin is gone",
        ),
        pytest.param(
            demand("r", pin=NodeId("a")),
            [node("a", 3, 3)],
            "it is pinned to node a: all its slots are taken (3 of 3)",
            id="pin is full",
        ),
        pytest.param(
            demand("r", 2, pin=NodeId("a")),
            [node("a")],
            "it is pinned to node a, which holds it already; for 2 replicas, change the pin",
            id="pin holds it",
        ),
    ],
)
def test_what_waits_says_why(wanted: Demand, places: list[Place], why: str) -> None:
    (pending,) = place([wanted], places).pending
    assert pending.why == why


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param({"kinds": frozenset()}, 'its app does not declare kind "room"', id="kind"),
        pytest.param({"labels": {}}, "it has no label gpu=yes", id="no label"),
        pytest.param({"labels": {"gpu": "no"}}, "it has no label gpu=yes, but gpu=no", id="another label"),
        pytest.param({"is_open": False}, "it is closed to new tasks", id="closed"),
        pytest.param({"is_open": False, "why_closed": "it drains"}, "it drains", id="closed with a reason"),
        pytest.param({"used": 9}, "it has 1 slot free of 10, and the task takes 2", id="room for less"),
        pytest.param({"used": 12}, "it has 0 slots free of 10, and the task takes 2", id="over-full"),
    ],
)
def test_each_node_says_why_it_refuses(more: dict[str, Any], why: str) -> None:
    refusing = node("a", **{"labels": {"gpu": "yes"}, **more})
    (pending,) = place([demand("r", labels={"gpu": "yes"}, cost=2)], [refusing]).pending
    assert pending.refusals == {"a": why}


def test_demands_with_equal_needs_share_their_refusals() -> None:
    first, second = place(demands(2), [node("a", 0), node("b", 0)]).pending
    assert first.refusals is second.refusals
    assert first.why is second.why


def test_what_is_missing_beyond_the_number_of_nodes_waits() -> None:
    placement = place([demand("r", 1_000_000)], [node("a"), node("b")])
    assert len(placement.binds) == 2
    assert placement.pending[0].missing == 999_998


def test_nothing_missing_is_nothing_to_do() -> None:
    placement = place([demand("r", 0), demand("s", -1)], [node("a")])
    assert (placement.binds, placement.pending) == ([], [])


def test_input_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(Invalid, match='resource "r": cost is 0'):
        demand("r", cost=0)
    with pytest.raises(Invalid, match='resource "r" is there twice'):
        place([demand("r"), demand("r")], [node("a")])
    with pytest.raises(Invalid, match="a node is there twice"):
        place([demand("r")], [node("a"), node("a")])
