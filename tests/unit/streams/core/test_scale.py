"""How many groups a stream should have."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from rota.streams.core.scale import Lags, Scaling

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
STEP = timedelta(seconds=10)
SCALING = Scaling(least=2, most=7, high=1000, low=100, over=10 * STEP)


def seen(lags: Sequence[int]) -> tuple[Lags, datetime]:
    """What is remembered of these lags, and the time after them."""
    found, now = Lags(), NOON
    for lag in lags:
        now += STEP
        found.see(lag, SCALING.over, now)
    return found, now


@pytest.mark.parametrize(
    ("lags", "tasks", "wanted"),
    [
        pytest.param([5000] * 5, 2, 2, id="not for long enough"),
        pytest.param([5000] * 12, 2, 4, id="high"),
        pytest.param([500] * 7 + [5000] * 4, 2, 4, id="high often enough"),
        pytest.param([500] * 9 + [5000] * 2, 2, 2, id="a peak"),
        pytest.param([5000] * 12, 6, 7, id="no more than may be"),
        pytest.param([0] * 12, 4, 3, id="low"),
        pytest.param([0] * 12, 2, 2, id="no fewer than declared"),
        pytest.param([0] * 9 + [500] * 3, 4, 4, id="not low enough"),
        pytest.param([0] * 50 + [5000] * 11, 2, 4, id="what is long ago does not count"),
        pytest.param([], 9, 7, id="the most was lowered"),
        pytest.param([], 1, 2, id="the least was raised"),
    ],
)
def test_how_many_groups_are_wanted(lags: Sequence[int], tasks: int, wanted: int) -> None:
    found, now = seen(lags)
    assert found.wanted(tasks, SCALING, now) == wanted


def test_after_a_change_a_whole_while_has_to_pass() -> None:
    found, now = seen([5000] * 12)
    found.forget()
    found.see(5000, SCALING.over, now)
    assert found.wanted(4, SCALING, now + SCALING.over / 2) == 4
    assert found.wanted(4, SCALING, now + SCALING.over) == 6
