"""The next relay map: at once when a relay dies, in turn otherwise."""

from datetime import UTC, datetime

import pytest

from rota.kit.record import replace
from rota.model.ids import NodeId
from rota.relay.core.map_plan import next_map
from rota.relay.core.records import RelayMap, RelayStatus

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
CALM = RelayStatus(address="127.0.0.1:1", since=datetime(2026, 1, 1, tzinfo=UTC), map_version=4)
MOVING, LEAVING = replace(CALM, is_moving=True), replace(CALM, is_leaving=True)
BEHIND = replace(CALM, map_version=3)
TWO = RelayMap(version=4, nodes=(A, B))


@pytest.mark.parametrize(
    ("current", "relays", "expected"),
    [
        pytest.param(None, {}, None, id="nobody is there"),
        pytest.param(None, {B: CALM, A: CALM}, RelayMap(version=1, nodes=(A, B)), id="the first map"),
        pytest.param(TWO, {A: CALM, B: CALM}, None, id="nothing changed"),
        pytest.param(
            TWO, {A: CALM, B: CALM, C: CALM}, RelayMap(version=5, nodes=(A, B, C), before=(A, B)), id="one came"
        ),
        pytest.param(TWO, {A: CALM, B: LEAVING}, RelayMap(version=5, nodes=(A,), before=(A, B)), id="one leaves"),
        pytest.param(TWO, {A: CALM}, RelayMap(version=5, nodes=(A,)), id="one died"),
        pytest.param(TWO, {A: MOVING}, RelayMap(version=5, nodes=(A,)), id="one died while another moves"),
        pytest.param(
            TWO, {A: CALM, C: CALM}, RelayMap(version=5, nodes=(A,)), id="one died and one came: first things first"
        ),
        pytest.param(TWO, {C: CALM}, RelayMap(version=5, nodes=(C,)), id="all died, and another came"),
        pytest.param(TWO, {}, None, id="all died: their places stay until somebody comes"),
        pytest.param(TWO, {A: MOVING, B: CALM, C: CALM}, None, id="one that came waits for a move"),
        pytest.param(TWO, {A: CALM, B: BEHIND, C: CALM}, None, id="one that came waits for those behind"),
        pytest.param(TWO, {A: LEAVING, B: LEAVING}, None, id="all leave: nobody could take over"),
    ],
)
def test_next_map(current: RelayMap | None, relays: dict[NodeId, RelayStatus], expected: RelayMap | None) -> None:
    assert next_map(current, relays) == expected


def test_a_map_that_all_go_by_is_the_last() -> None:
    relays = dict.fromkeys((A, B, C), CALM)
    written = next_map(TWO, relays)
    assert written is not None
    assert next_map(written, {node: replace(status, map_version=5) for node, status in relays.items()}) is None
