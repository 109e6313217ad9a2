"""Nodes that come back again and again wait longer and longer for tasks."""

import pytest

from rota.fleet.core.members.flapping import FORGET, LONGEST, returned
from rota.kit.time.instant import Instant


def waits(gaps):
    """How long a node waits after each return, if so many seconds lie between them."""
    now, record, found = 0.0, None, []
    for gap in gaps:
        now += gap
        record = returned(record, Instant(now))
        found.append(record.rests_until - now)
    return found


def test_each_return_waits_twice_as_long_up_to_a_limit():
    assert waits([5] * 9) == [15, 30, 60, 120, 240, 480, 600, 600, 600]
    assert waits([5] * 9)[-1] == LONGEST.total_seconds()


@pytest.mark.parametrize(("gap", "second"), [(FORGET.total_seconds() - 1, 30), (FORGET.total_seconds(), 15)])
def test_returns_of_long_ago_do_not_count(gap, second):
    assert waits([0, gap]) == [15, second]


def test_a_thousand_returns_are_no_larger_a_number():
    assert waits([1] * 1000)[-1] == LONGEST.total_seconds()
