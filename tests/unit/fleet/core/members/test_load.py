"""The load score, and who is the idlest."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.fleet.core.members.load import LoadCandidate, NoneIdle, Shares, has_moved, idlest, score, smoothed
from rota.model.ids import NodeId

SECOND = timedelta(seconds=1)
shares = st.builds(Shares, cpu=st.floats(0, 1), executors=st.floats(0, 1), memory=st.floats(0, 1))


def candidate(name: str, score: float = 0.0, free: int = 4, refusal: str | None = None) -> LoadCandidate:
    return LoadCandidate(node=NodeId(name), score=score, free=free, refusal=refusal)


@pytest.mark.parametrize(
    ("cpu", "executors", "memory", "expected"),
    [
        pytest.param(0, 0, 0, 0.0, id="idle"),
        pytest.param(1, 1, 1, 100.0, id="busy"),
        pytest.param(1, 0, 0, 64.0, id="the processors"),
        pytest.param(0, 1, 0, 32.0, id="the executors"),
        pytest.param(0, 0, 1, 4.0, id="the memory"),
        pytest.param(1 / 3, 0.5, 0.25, 38.33, id="two decimals"),
        pytest.param(7, -1, 0, 64.0, id="no share is above 1 or below 0"),
    ],
)
def test_the_score(cpu: float, executors: float, memory: float, expected: float) -> None:
    assert score(Shares(cpu=cpu, executors=executors, memory=memory)) == expected


@given(shares)
def test_a_score_is_from_0_to_100(seen: Shares) -> None:
    assert 0 <= score(seen) <= 100


@given(shares, shares, st.floats(0, 100))
def test_smoothing_stays_between_old_and_new(before: Shares, now: Shares, elapsed: float) -> None:
    mixed = smoothed(before, now, timedelta(seconds=elapsed))
    low, high = sorted((before.cpu, now.cpu))
    assert low - 1e-9 <= mixed.cpu <= high + 1e-9


def test_the_first_shares_are_taken_as_they_are_and_later_ones_fade_in() -> None:
    idle, busy = Shares(cpu=0, executors=0, memory=0), Shares(cpu=1, executors=1, memory=1)
    assert smoothed(None, busy, SECOND) == busy
    assert smoothed(idle, busy, SECOND).cpu == pytest.approx(0.18, abs=0.01)
    assert smoothed(idle, busy, 60 * SECOND).cpu == pytest.approx(1.0, abs=0.001)
    assert smoothed(idle, busy, -SECOND) == idle


def test_a_score_is_told_again_when_it_moved_by_a_point() -> None:
    assert has_moved(None, 0.0)
    assert has_moved(10.0, 11.0)
    assert has_moved(10.0, 8.9)
    assert not has_moved(10.0, 10.99)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        pytest.param([candidate("a", 5), candidate("b", 2)], "b", id="the lowest score"),
        pytest.param([candidate("a", 5, 1), candidate("b", 5, 3)], "b", id="of equals, most free executors"),
        pytest.param([candidate("b"), candidate("a")], "a", id="then the lowest id"),
        pytest.param([candidate("a", 1, refusal="cordoned"), candidate("b", 90)], "b", id="only those to be had"),
    ],
)
def test_the_idlest(candidates: list[LoadCandidate], expected: str) -> None:
    found = idlest(candidates)
    assert isinstance(found, LoadCandidate)
    assert found.node == expected


def test_where_none_is_to_be_had_each_says_why() -> None:
    found = idlest([candidate("a", refusal="it is cordoned"), candidate("b", refusal="it is offline")])
    assert found == NoneIdle({NodeId("a"): "it is cordoned", NodeId("b"): "it is offline"})
    assert idlest([]) == NoneIdle({})
