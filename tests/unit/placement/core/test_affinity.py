"""Whom resources want beside them, whom not, and which labels they would like."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.placement.core import Demand, Place, place
from rota.placement.core.fleet import Needs, Nodes
from rota.placement.core.ties import Ties
from rota.resources.core.records import Affinity
from tests.unit.placement.core.builders import demand, demands, node, per_node

DB, WEB = {"app": "db"}, {"app": "web"}


def placed(wanted: list[Demand], places: list[Place]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for bind in place(wanted, places).binds:
        found[bind.key].append(str(bind.node))
    return dict(found)


def test_a_resource_goes_only_where_what_it_is_near_to_is() -> None:
    web = demand("web", affinity=Affinity(near=DB))
    assert placed([web], [node("a", 90), node("b", 5, tags={("app", "db")})]) == {"web": ["b"]}


def test_near_counts_what_is_placed_in_the_same_round_whatever_comes_first() -> None:
    chain = [
        demand("a", affinity=Affinity(near=WEB)),
        demand("b", tags=WEB, affinity=Affinity(near=DB)),
        demand("c", tags=DB),
    ]
    found = placed(chain, [node("x"), node("y"), node("z")])
    assert found["a"] == found["b"] == found["c"]


def test_a_chain_of_neighbours_is_placed_in_one_pass_whatever_its_links_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = [
        demand(f"r{number:03}", tags={"link": str(number)}, affinity=Affinity(near={"link": str(number + 1)}))
        for number in range(300)
    ]
    looks: list[Needs] = []
    allowed = Ties.allowed

    def counted(ties: Ties, needs: Needs) -> Nodes:
        looks.append(needs)
        return allowed(ties, needs)

    monkeypatch.setattr(Ties, "allowed", counted)
    found = placed([*links, demand("z", tags={"link": "300"})], [node("a", 500), node("b", 400)])
    assert len(found) == 301
    assert len(set(map(tuple, found.values()))) == 1
    assert len(looks) < 5 * len(links)


def test_neighbours_in_a_circle_wait_and_keep_nobody_else_waiting() -> None:
    circle = [
        demand("a", tags={"n": "a"}, affinity=Affinity(near={"n": "b"})),
        demand("b", tags={"n": "b"}, affinity=Affinity(near={"n": "a"})),
        demand("c", affinity=Affinity(near={"n": "d"})),
        demand("d", tags={"n": "d"}),
    ]
    assert sorted(placed(circle, [node("x")])) == ["c", "d"]
    there = node("y", tags={("n", "b")})
    assert placed(circle[:2], [node("x"), there]) == {"a": ["y"], "b": ["y"]}


def test_who_is_near_to_nobody_waits_and_says_for_whom() -> None:
    (pending,) = place([demand("web", affinity=Affinity(near=DB))], [node("a")]).pending
    assert pending.why == "nothing with the tag app=db is placed, which it is to be near to; add that first"
    assert pending.refusals == {"a": "it holds nothing with the tag app=db, which this is to be near to"}


def test_the_first_of_those_that_would_be_together_goes_anywhere() -> None:
    flock = [demand(f"r{number}", tags={"flock": "1"}, affinity=Affinity(near={"flock": "1"})) for number in range(4)]
    assert per_node(place(flock, [node("a"), node("b")]).binds) == {"a": 4}


def test_resources_that_are_to_be_apart_never_share_a_node() -> None:
    lonely = [demand(f"r{number}", tags=DB, affinity=Affinity(apart=DB)) for number in range(3)]
    placement = place(lonely, [node("a"), node("b")])
    assert per_node(placement.binds) == {"a": 1, "b": 1}
    (pending,) = placement.pending
    assert pending.why == "no node that could take it leaves it apart from app=db; add a node, or ask for less"
    assert set(pending.refusals.values()) == {"it holds something with the tag app=db, which this is to be apart from"}


def test_to_be_apart_counts_both_ways() -> None:
    """`b` says nothing of `a`, and may still not come to it."""
    shunning = node("x", 90, shuns={("app", "web")})
    assert placed([demand("b", tags=WEB)], [shunning, node("y", 1)]) == {"b": ["y"]}
    (pending,) = place([demand("b", tags=WEB)], [shunning]).pending
    assert pending.why == "others are to be apart from the tag app=web, and are on every node; add a node"
    assert pending.refusals == {"x": "it holds something that is to be apart from the tag app=web"}


def test_a_kind_is_a_tag() -> None:
    apart = demand("shop/1", kind="shop", affinity=Affinity(apart={"kind": "room"}))
    both = frozenset({"room", "shop"})
    found = placed([apart, demand("room/1")], [node("a", kinds=both), node("b", kinds=both)])
    assert found["shop/1"] != found["room/1"]


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(Affinity(prefer={"disk": "ssd"}), "b", id="a label"),
        pytest.param(Affinity(prefer_near=DB), "c", id="near"),
        pytest.param(Affinity(prefer_apart=DB), "a", id="apart"),
        pytest.param(Affinity(prefer={"disk": "tape"}), "a", id="a label that nobody has"),
    ],
)
def test_wishes_are_met_where_that_is_possible(affinity: Affinity, expected: str) -> None:
    places = [node("a", 30), node("b", 20, labels={"disk": "ssd"}), node("c", 10, tags={("app", "db")})]
    assert placed([demand("r", affinity=affinity)], places) == {"r": [expected]}


def test_a_wish_that_cannot_be_met_leaves_nothing_waiting() -> None:
    wish = Affinity(prefer={"disk": "ssd"}, prefer_near=DB, prefer_apart={"kind": "room"})
    assert per_node(place(demands(4, affinity=wish), [node("a", 2), node("b", 2)]).binds) == {"a": 2, "b": 2}


NORTH = Affinity(prefer={"zone": "north"})
TWO_SOUTH = [node(id, labels={"zone": "north" if id == "c" else "south"}) for id in "abc"]


def test_a_preferred_zone_is_filled_before_others_get_anything() -> None:
    assert per_node(place(demands(4, affinity=NORTH), TWO_SOUTH).binds) == {"c": 4}
    assert per_node(place(demands(12, affinity=NORTH), TWO_SOUTH).binds) == {"a": 1, "b": 1, "c": 10}


def test_one_of_several_replicas_is_in_the_preferred_zone_and_the_others_are_apart() -> None:
    places = [node(id, 90 if id == "a" else 10, labels={"zone": zone}) for id, zone in zip("abc", "xyz", strict=True)]
    found = placed(demands(4, 2, affinity=Affinity(prefer={"zone": "z"})), places)
    assert all("c" in nodes and len(set(nodes)) == 2 for nodes in found.values())


def test_preferred_nodes_are_filled_before_others_get_anything() -> None:
    places = [node("a", 90), node("b", 3, labels={"disk": "ssd"})]
    placement = place(demands(5, affinity=Affinity(prefer={"disk": "ssd"})), places)
    assert per_node(placement.binds) == {"a": 2, "b": 3}
    assert {bind.why for bind in placement.binds if bind.node == "b"} == {
        "weighted: 3 of 5 for 3 of 3 free slots, preferred first"
    }


def test_to_be_in_another_zone_is_worth_more_than_a_wish() -> None:
    places = [
        node("a", labels={"zone": "x", "disk": "ssd"}),
        node("b", labels={"zone": "x", "disk": "ssd"}),
        node("c", labels={"zone": "y"}),
    ]
    for found in placed(demands(3, 2, affinity=Affinity(prefer={"disk": "ssd"})), places).values():
        assert "c" in found


def test_first_replicas_of_tied_resources_come_before_second_ones_of_others() -> None:
    wanted = [demand("a", 2), demand("b", 1, tags=DB, affinity=Affinity(apart=DB))]
    counts = Counter(bind.key for bind in place(wanted, [node("x", 1), node("y", 1)]).binds)
    assert counts == {"a": 1, "b": 1}


TAGS = st.sampled_from([{}, {"t": "1"}, {"t": "2"}])
PAIRS = st.sampled_from([{}, {}, {"t": "1"}, {"t": "2"}])
some_demands = st.lists(
    st.builds(
        lambda number, missing, tags, near, apart, rather: demand(
            f"r{number:02}",
            missing,
            tags=tags,
            affinity=Affinity(near=near, apart=apart, prefer_near=rather, prefer_apart=rather),
        ),
        st.integers(0, 99),
        st.integers(1, 2),
        TAGS,
        PAIRS,
        PAIRS,
        PAIRS,
    ),
    max_size=8,
    unique_by=lambda each: each.key,
)


@settings(max_examples=200, deadline=None)
@given(some_demands, st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_no_node_ever_holds_what_is_to_be_apart_and_everybody_is_near(wanted: list[Demand], slots: list[int]) -> None:
    placement = place(wanted, [node(f"n{number}", free) for number, free in enumerate(slots)])
    by_key = {each.key: each for each in wanted}
    on: defaultdict[str, list[Demand]] = defaultdict(list)
    for bind in placement.binds:
        on[bind.node].append(by_key[bind.key])
    for together in on.values():
        for one in together:
            others = [other for other in together if other is not one]
            assert not any(_has(other, one.affinity.apart) for other in others)
            for name, value in one.affinity.near.items():
                assert any(_has(other, {name: value}) for other in together)
    told = Counter(bind.key for bind in placement.binds) + Counter({p.key: p.missing for p in placement.pending})
    assert told == Counter({each.key: each.missing for each in wanted})
    assert place(wanted[::-1], [node(f"n{number}", free) for number, free in enumerate(slots)]) == placement


def _has(one: Demand, any_of: Mapping[str, str]) -> bool:
    return any(one.tags.get(name) == value for name, value in any_of.items())
