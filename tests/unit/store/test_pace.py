"""How often a store is polled."""

import pytest

from rota.store.sql.pace import until_next_poll


@pytest.mark.parametrize(
    ("shortest", "found_nothing", "leases", "expected"),
    [
        pytest.param(0.1, 0, 10, 0.1, id="as often as it should be in a small fleet with news"),
        pytest.param(0.1, 1000, 10, 0.3, id="less often where nothing happens, up to a bound"),
        pytest.param(0.1, 0, 500, 0.5, id="less often in a large fleet"),
        pytest.param(0.1, 0, 100_000, 1.0, id="never less than each second"),
        pytest.param(1.0, 1000, 100_000, 1.0, id="what is slow stays as it is"),
    ],
)
def test_until_next_poll(shortest: float, found_nothing: int, leases: int, expected: float) -> None:
    assert until_next_poll(shortest, found_nothing, leases) == pytest.approx(expected)
