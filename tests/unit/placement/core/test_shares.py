"""Shares add up exactly, keep to the caps, and follow each policy's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.placement.core.shares import POLICIES, NodeOffer, largest_remainder, level


def offers(*free: int, used: tuple[int, ...] = (), cap: int | None = None) -> list[NodeOffer]:
    return [
        NodeOffer(cap=slots if cap is None else min(cap, slots), free=slots, used=used[place] if used else 0)
        for place, slots in enumerate(free)
    ]


@pytest.mark.parametrize(
    ("want", "weights", "caps", "expected"),
    [
        pytest.param(40, [100, 40, 10], [20, 20, 10], [20, 16, 4], id="20 rooms twice on 100, 40 and 10 free slots"),
        pytest.param(2, [100, 40, 10], [1, 1, 1], [1, 1, 0], id="one new room twice"),
        pytest.param(5, [10, 10], [10, 10], [3, 2], id="a tie goes to the first"),
        pytest.param(10, [1, 1, 1], [9, 9, 9], [4, 3, 3], id="what is left goes out one by one"),
        pytest.param(99, [5, 7], [5, 7], [5, 7], id="no more than there is"),
        pytest.param(3, [10, 0, 10], [10, 0, 10], [2, 0, 1], id="a full node gets nothing"),
        pytest.param(0, [1], [1], [0], id="nothing wanted"),
        pytest.param(4, [], [], [], id="nobody there"),
    ],
)
def test_largest_remainder(want: int, weights: list[int], caps: list[int], expected: list[int]) -> None:
    assert largest_remainder(want, weights, caps) == expected


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        pytest.param("weighted", offers(30, 10), [6, 2], id="weighted: by free slots"),
        pytest.param("least-loaded", offers(30, 10, used=(6, 0)), [1, 7], id="least-loaded: by slots in use"),
        pytest.param("most-free", offers(30, 26), [6, 2], id="most-free: by slots left"),
        pytest.param("round-robin", offers(30, 10), [4, 4], id="round-robin: alike"),
    ],
)
def test_policies(policy: str, given: list[NodeOffer], expected: list[int]) -> None:
    assert POLICIES[policy].share(8, given, 0) == expected


@pytest.mark.parametrize("policy", ["least-loaded", "most-free"])
def test_of_equal_nodes_the_idlest_comes_first(policy: str) -> None:
    given = [NodeOffer(9, 9, 0, load=80.0), NodeOffer(9, 9, 0, load=20.0)]
    assert POLICIES[policy].share(1, given, 0) == [0, 1]


def test_round_robin_goes_on_where_the_slots_in_use_say() -> None:
    share = POLICIES["round-robin"].share
    assert [share(1, offers(9, 9, 9), turn) for turn in (3, 4, 5)] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_random_draws_differ_from_turn_to_turn_and_are_about_even() -> None:
    share = POLICIES["random"].share
    drawn = [tuple(share(30, offers(99, 99, 99), turn)) for turn in range(0, 3000, 30)]
    assert len(set(drawn)) > 20
    for node in range(3):
        assert 800 < sum(shares[node] for shares in drawn) < 1200


some_offers = st.lists(
    st.builds(
        lambda cap, extra, used, load, cost: NodeOffer(cap, cap * cost + extra, used, load, cost),
        st.integers(0, 9),
        st.integers(0, 5),
        st.integers(0, 20),
        st.sampled_from([0.0, 12.5, 50.0]),
        st.shared(st.integers(1, 3), key="cost"),
    ),
    max_size=7,
)


@given(st.sampled_from(sorted(POLICIES)), st.integers(0, 60), some_offers, st.integers(0, 1 << 40))
def test_shares_add_up_and_keep_to_the_caps(policy: str, want: int, given: list[NodeOffer], turn: int) -> None:
    shares = POLICIES[policy].share(want, given, turn)
    assert sum(shares) == min(want, sum(offer.cap for offer in given))
    assert all(0 <= share <= offer.cap for share, offer in zip(shares, given, strict=True))


@given(st.integers(0, 60), some_offers)
def test_uncapped_weighted_shares_are_within_one_of_the_exact_part(want: int, given: list[NodeOffer]) -> None:
    free = [offer.free for offer in given]
    shares = largest_remainder(want, free, [want + 1] * len(free))
    for share, slots in zip(shares, free, strict=True):
        assert abs(share - want * slots / max(1, sum(free))) < 1


@given(st.integers(0, 60), some_offers, st.lists(st.integers(-9, 9), min_size=7, max_size=7))
def test_levelling_is_the_same_as_always_raising_the_lowest(
    want: int, given: list[NodeOffer], start: list[int]
) -> None:
    heights = start[: len(given)]
    ties = list(range(len(given)))
    shares = [0] * len(given)
    for _ in range(want):
        able = [place for place in ties if shares[place] < given[place].cap]
        if able:
            shares[min(able, key=lambda place: (heights[place] + shares[place] * given[place].cost, place))] += 1
    assert level(heights, want, given, ties) == shares
