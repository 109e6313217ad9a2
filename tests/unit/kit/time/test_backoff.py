"""Back-off: growing, bounded, never in step, never at once."""

from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.time.backoff import delays

SECOND = timedelta(seconds=1)


def test_delays_double_up_to_the_most():
    waits = delays(SECOND, 10 * SECOND, lambda: 1.0)
    assert [wait / SECOND for wait in islice(waits, 6)] == [1, 2, 4, 8, 10, 10]


def test_jitter_takes_at_most_half():
    assert next(delays(SECOND, SECOND, lambda: 0.0)) == SECOND / 2


def test_the_factor_is_the_callers():
    waits = delays(SECOND, 100 * SECOND, lambda: 1.0, factor=3.0)
    assert [wait / SECOND for wait in islice(waits, 4)] == [1, 3, 9, 27]


@given(st.randoms(use_true_random=False), st.integers(1, 1_000), st.integers(0, 100_000))
def test_every_delay_is_in_the_upper_half_of_its_step(random, first, more):
    low, most = timedelta(milliseconds=first), timedelta(milliseconds=first + more)
    step = low
    for wait in islice(delays(low, most, random.random), 40):
        assert step / 2 <= wait <= step
        step = min(step * 2, most)


@pytest.mark.parametrize("first", [timedelta(), -SECOND, 2 * SECOND])
def test_a_back_off_that_cannot_be_is_refused(first):
    with pytest.raises(ValueError, match="must start above zero"):
        next(delays(first, SECOND, lambda: 0.5))
