"""Histograms: percentiles close enough, counters few enough, and sums that add up."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.kit.histogram import Histogram

VALUES = st.lists(st.integers(0, 10**11), min_size=1, max_size=200)


def filled(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@settings(deadline=None)
@given(values=VALUES, percent=st.floats(0.1, 100))
def test_a_percentile_is_never_too_low_and_at_most_a_sixteenth_too_high(values, percent):
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    told = filled(values).percentile(percent)
    assert exact <= told <= exact + exact // 16


@settings(deadline=None)
@given(values=VALUES, others=VALUES)
def test_histograms_add_up(values, others):
    both = filled(values)
    both.merge(filled(others).counts)
    assert both.counts == filled(values + others).counts
    assert both.total() == len(values) + len(others)


def test_small_values_are_exact():
    assert [filled([value]).percentile(50) for value in range(33)] == [*range(32), 33]


def test_less_than_nothing_is_nothing():
    assert filled([-5]).percentile(100) == 0


def test_an_empty_one_tells_nothing():
    assert (Histogram().percentile(99), Histogram().total()) == (0, 0)


def test_a_day_in_microseconds_needs_a_few_hundred_counters():
    longest = 24 * 3600 * 10**6
    histogram = filled(
        value for shift in range(37) for value in range(1 << shift, 2 << shift, max(1, (1 << shift) // 16))
    )
    histogram.add(longest)
    assert len(histogram.counts) < 600
