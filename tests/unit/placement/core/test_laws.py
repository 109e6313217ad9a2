"""The laws of `place`, for any fleet and any demands."""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.ids import NodeId
from rota.placement.core import POLICIES, Demand, Place, place
from tests.unit.placement.core.builders import apply, demand, fits, node, possible

NODES = st.sampled_from([NodeId(id) for id in "abcdef"])
LABELS = st.dictionaries(st.sampled_from(["gpu", "zone"]), st.sampled_from(["1", "2"]), max_size=2)
KINDS = st.sampled_from(["room", "shop"])

some_places = st.lists(
    st.builds(
        Place,
        id=NODES,
        slots=st.integers(0, 6),
        used=st.integers(0, 4),
        labels=LABELS,
        kinds=st.sampled_from([frozenset({"room"}), frozenset({"shop"}), frozenset({"room", "shop"})]),
        is_open=st.sampled_from([True, True, True, False]),
        load=st.sampled_from([0.0, 10.0]),
    ),
    max_size=6,
    unique_by=lambda place: place.id,
)


def some_demands(cost: st.SearchStrategy[int]) -> st.SearchStrategy[list[Demand]]:
    return st.lists(
        st.builds(
            lambda holders, **more: Demand(holders=holders, level=len(holders), **more),
            key=st.integers(0, 99).map("r{:02}".format),
            kind=KINDS,
            missing=st.integers(0, 3),
            holders=st.frozensets(NODES, max_size=2),
            avoid=st.sampled_from([frozenset(), frozenset(), frozenset({NodeId("a"), NodeId("b")})]),
            resting=st.sampled_from([frozenset(), frozenset(), frozenset({NodeId("b"), NodeId("c")})]),
            priority=st.integers(0, 2),
            cost=cost,
            labels=st.sampled_from([{}, {}, {"gpu": "1"}, {"gpu": "1", "zone": "2"}]),
            pin=st.sampled_from([None, None, None, NodeId("c")]),
        ),
        max_size=9,
        unique_by=lambda demand: demand.key,
    )


one_slot = some_demands(st.just(1))
any_cost = some_demands(st.integers(1, 3))
policies = st.sampled_from(sorted(POLICIES))
at_ease = settings(max_examples=200, deadline=None)  # the machine may be busy


@at_ease
@given(any_cost, some_places, policies)
def test_slots_constraints_and_distinct_nodes_are_kept(wanted: list[Demand], places: list[Place], policy: str) -> None:
    placement = place(wanted, places, POLICIES[policy])
    by_key, by_id = {d.key: d for d in wanted}, {p.id: p for p in places}
    taken: Counter[NodeId] = Counter()
    for bind in placement.binds:
        assert fits(by_key[bind.key], by_id[bind.node])
        taken[bind.node] += by_key[bind.key].cost
    assert all(slots <= by_id[id].slots - by_id[id].used for id, slots in taken.items())
    assert len({(bind.key, bind.node) for bind in placement.binds}) == len(placement.binds)


@at_ease
@given(any_cost, some_places, policies)
def test_everything_missing_is_bound_or_pending(wanted: list[Demand], places: list[Place], policy: str) -> None:
    placement = place(wanted, places, POLICIES[policy])
    told = Counter(bind.key for bind in placement.binds)
    for pending in placement.pending:
        assert pending.missing > 0
        told[pending.key] += pending.missing
    assert told == Counter({d.key: d.missing for d in wanted if d.missing})


@at_ease
@given(one_slot, some_places, policies)
def test_as_much_is_placed_as_can_be_by_priority_and_level(
    wanted: list[Demand], places: list[Place], policy: str
) -> None:
    """For each priority and level: with only the replicas up to there wanted, no other way would place more."""
    got = Counter(bind.key for bind in place(wanted, places, POLICIES[policy]).binds)
    for priority in {d.priority for d in wanted}:
        higher = [(d, d.missing) for d in wanted if d.priority > priority]
        same = [d for d in wanted if d.priority == priority]
        for level in range(6):
            up_to = [(d, min(d.missing, max(0, level - d.level))) for d in same]
            placed = sum(got[d.key] for d, _ in higher) + sum(min(got[d.key], count) for d, count in up_to)
            assert placed == possible([*higher, *up_to], places)


@at_ease
@given(st.integers(1, 12), st.integers(1, 4), st.lists(st.integers(0, 12), min_size=1, max_size=6), policies)
def test_equal_demands_meet_the_formula_of_what_is_possible(
    count: int, replicas: int, slots: list[int], policy: str
) -> None:
    places = [node(f"n{number}", free) for number, free in enumerate(slots)]
    binds = place([demand(f"r{number:02}", replicas) for number in range(count)], places, POLICIES[policy]).binds
    assert len(binds) == min(count * replicas, sum(min(free, count) for free in slots))
    per_demand = Counter(bind.key for bind in binds)
    assert len(binds) < count or max(per_demand.values()) - min(per_demand.values()) <= 1


@at_ease
@given(any_cost, some_places, policies, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    wanted: list[Demand], places: list[Place], policy: str, chance: random.Random
) -> None:
    def shuffled(things: Sequence[Demand] | Sequence[Place]) -> list[Demand] | list[Place]:
        return chance.sample(things, len(things))  # type: ignore[arg-type, return-value]

    assert place(shuffled(wanted), shuffled(places), POLICIES[policy], seed=7) == place(  # type: ignore[arg-type]
        wanted, places, POLICIES[policy], seed=7
    )


@at_ease
@given(any_cost, some_places, policies)
def test_carried_out_and_asked_again_nothing_is_bound(wanted: list[Demand], places: list[Place], policy: str) -> None:
    placement = place(wanted, places, POLICIES[policy])
    again = place(*apply(wanted, places, placement.binds), POLICIES[policy])
    assert again.binds == []
    assert [(p.key, p.missing) for p in again.pending] == [(p.key, p.missing) for p in placement.pending]


@at_ease
@given(any_cost, some_places, policies)
def test_every_node_that_does_not_hold_what_waits_says_why(
    wanted: list[Demand], places: list[Place], policy: str
) -> None:
    placement = place(wanted, places, POLICIES[policy])
    by_key = {d.key: d for d in wanted}
    for pending in placement.pending:
        assert pending.why
        waiting = by_key[pending.key]
        holders = waiting.holders.union(bind.node for bind in placement.binds if bind.key == pending.key)
        asked = {p.id for p in places} if waiting.pin is None else {p.id for p in places if p.id == waiting.pin}
        assert asked <= pending.refusals.keys() | holders
        assert all(pending.refusals.values())


@at_ease
@given(st.integers(1, 8), st.integers(1, 3), st.lists(st.sampled_from("xyz"), min_size=3, max_size=7), policies)
def test_replicas_are_apart_when_each_zone_has_room(count: int, replicas: int, zones: list[str], policy: str) -> None:
    places = [node(f"n{number}", 2 * count, labels={"zone": zone}) for number, zone in enumerate(zones)]
    zone_of = {p.id: p.labels["zone"] for p in places}
    binds = place([demand(f"r{n}", replicas) for n in range(count)], places, POLICIES[policy]).binds
    for key in {bind.key for bind in binds}:
        used = [zone_of[bind.node] for bind in binds if bind.key == key]
        assert len(set(used)) == min(replicas, len(set(zones)))


@at_ease
@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12), policies)
def test_replacements_are_apart_when_each_zone_has_room(holders: list[str], policy: str) -> None:
    places = [node(id, 30, labels={"zone": zone}) for id, zone in zip("abcdefg", "xxxyyzz", strict=True)]
    zone_of = {p.id: p.labels["zone"] for p in places}
    wanted = [demand(f"r{number:02}", 2, holder) for number, holder in enumerate(holders)]
    binds = place(wanted, places, POLICIES[policy]).binds
    for waiting in wanted:
        nodes = [*waiting.holders, *(bind.node for bind in binds if bind.key == waiting.key)]
        assert {zone_of[id] for id in nodes} == {"x", "y", "z"}
