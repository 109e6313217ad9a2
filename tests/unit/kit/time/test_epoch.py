"""Times as milliseconds since 1970."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.time.epoch import milliseconds, moment


@given(st.integers(-(10**12), 10**13))
def test_a_number_comes_back(time_ms):
    assert milliseconds(moment(time_ms)) == time_ms


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), 0, id="the epoch"),
        pytest.param(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0, id="in another zone"),
        pytest.param(datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1, id="the next one that is not before"),
    ],
)
def test_milliseconds(when: datetime, expected: int) -> None:
    assert milliseconds(when) == expected
