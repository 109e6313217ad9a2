"""Whose turn it is to publish."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import Invalid
from rota.outputs.verdict import Moves, Turn, can_never_publish, fenced, judge, moves_of
from tests.kit.committers import move
from tests.kit.rows import ranges


@pytest.mark.parametrize(
    ("committed", "spans", "turn"),
    [
        ({0: 5}, [(0, 5, 9)], Turn.PUBLISHED),
        ({0: 5, 1: 2}, [(0, 5, 9), (1, 2, 2)], Turn.PUBLISHED),
        ({0: 5, 1: 2}, [(0, 5, 5), (1, 2, 2)], Turn.PUBLISHED),
        ({0: 4}, [(0, 5, 9)], Turn.AHEAD),
        ({0: 5, 1: 1}, [(0, 5, 9), (1, 2, 3)], Turn.AHEAD),
        ({0: 6}, [(0, 5, 9)], Turn.BEHIND),
        ({0: 9, 1: 2}, [(0, 5, 9), (1, 2, 3)], Turn.BEHIND),
        ({0: 6, 1: 1}, [(0, 5, 9), (1, 2, 3)], Turn.BEHIND),
        ({0: 9}, [(0, 5, 9)], Turn.THERE),
        ({0: 20, 1: 2}, [(0, 5, 9), (1, 2, 2)], Turn.THERE),
    ],
)
def test_the_turn(committed: dict[int, int], spans: list[tuple[int, int, int]], turn: Turn) -> None:
    assert judge(committed, ranges(*spans)).turn is turn


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ([], "without ranges"),
        ([(0, 5, 9), (0, 9, 10)], "twice"),
        ([(0, 5, 4)], "from 5 to 4"),
        ([(1, 0, 1)], "partition 1 has no committed offset"),
    ],
)
def test_what_is_no_publish(spans: list[tuple[int, int, int]], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        judge({0: 5}, ranges(*spans))


@given(
    chain=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    tries=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30),
)
def test_whatever_is_tried_the_output_is_one_chain(chain: list[int], tries: list[tuple[int, int]]) -> None:
    committed, published = {0: 0}, []
    starts = [sum(chain[:index]) for index in range(len(chain) + 1)]
    for start, end in [*tries, *pairwise(starts)]:
        if end < start:
            continue
        [span] = ranges((0, start, end))
        if judge(committed, [span]).turn is Turn.PUBLISHED:
            published.append(span)
            committed[0] = end
    assert [each.start for each in published] == [0, *(each.end for each in published)][: len(published)]


def test_a_draft_is_lost_once_others_went_past_its_start() -> None:
    assert can_never_publish({0: 6}, {0: 5})
    assert not can_never_publish({0: 5}, {0: 5})
    assert not can_never_publish({0: 1}, {0: 5})
    assert not can_never_publish({}, {0: 5})


MOVED: Moves = {0: frozenset({"a", "b"}), 1: frozenset({"a"})}


@pytest.mark.parametrize(
    ("seen", "turn"),
    [
        pytest.param(None, Turn.PUBLISHED, id="nobody looked"),
        pytest.param(MOVED, Turn.PUBLISHED, id="none since"),
        pytest.param({**MOVED, 0: frozenset({"a", "b", "old"})}, Turn.PUBLISHED, id="an old one is forgotten"),
        pytest.param({**MOVED, 1: frozenset()}, Turn.PUBLISHED, id="of another partition"),
        pytest.param({**MOVED, 0: frozenset({"a"})}, Turn.BEHIND, id="one since"),
        pytest.param({}, Turn.BEHIND, id="the first one"),
    ],
)
def test_what_was_read_before_an_offset_was_set_by_hand_is_behind(seen: Moves | None, turn: Turn) -> None:
    assert fenced(ranges((0, 5, 9)), seen, MOVED).turn is turn


def test_moves_are_known_by_the_partitions_they_set() -> None:
    made = [move("a", {0: 1, 1: 1}, {0: 2, 1: 2}), move("b", {0: 2}, {0: 3})]
    assert moves_of(made) == MOVED
