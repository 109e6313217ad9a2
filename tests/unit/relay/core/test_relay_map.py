"""The relay map: homes, and who gives resources to whom."""

from collections import Counter
from datetime import UTC, datetime

from rota.model import codec
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus, SinkState, SinkStatus

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
TWO = RelayMap(version=1, nodes=(A, B))
THREE = RelayMap(version=2, nodes=(A, B, C), before=(A, B))
ROOMS = [str(number) for number in range(3000)]


def test_resources_are_spread_evenly() -> None:
    counts = Counter(THREE.home("room", room) for room in ROOMS)
    assert all(900 < counts[node] < 1100 for node in (A, B, C))


def test_one_that_joins_takes_from_all_and_nothing_else_moves() -> None:
    moved = {room for room in ROOMS if TWO.home("room", room) != THREE.home("room", room)}
    assert {THREE.home("room", room) for room in moved} == {C}
    assert {TWO.home("room", room) for room in moved} == {A, B}
    assert THREE.givers(C) == {A, B}
    assert THREE.takers(A) == THREE.takers(B) == {C}
    assert THREE.givers(A) == THREE.takers(C) == frozenset()


def test_one_that_leaves_gives_to_all_and_nothing_else_moves() -> None:
    left = RelayMap(version=3, nodes=(A, B), before=(A, B, C))
    moved = {room for room in ROOMS if THREE.home("room", room) != left.home("room", room)}
    assert {THREE.home("room", room) for room in moved} == {C}
    assert left.takers(C) == {A, B}
    assert left.givers(A) == left.givers(B) == {C}
    assert left.takers(A) == frozenset()


def test_nobody_gives_when_nothing_is_said_of_before() -> None:
    dead = RelayMap(version=3, nodes=(A, B))
    assert dead.givers(A) == dead.takers(A) == frozenset()


def test_kinds_do_not_share_homes_and_no_relay_is_no_home() -> None:
    assert any(TWO.home("room", room) != TWO.home("hall", room) for room in ROOMS)
    assert RelayMap(version=1, nodes=()).home("room", "1") is None


def test_what_a_relay_says_of_itself_comes_back_from_the_store() -> None:
    sink = SinkStatus(sink="file:///a", state=SinkState.DOWN, rejected={"no queue": 1}, spool_messages=2)
    status = RelayStatus(address="127.0.0.1:1", since=datetime(2026, 1, 1, tzinfo=UTC), sinks=(sink,))
    assert codec.decode(RelayStatus, codec.encode(status)) == status
    assert codec.decode(RelayMap, codec.encode(THREE)) == THREE
    assert not status.is_idle
