"""Who goes first."""

from datetime import UTC, datetime, timedelta

from rota.jobs.core.turn import STEP, feeder, rank, wait
from rota.model.ids import NodeId

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NODES = {NodeId("a"): 50.0, NodeId("b"): 10.0, NodeId("c"): 30.0}


def test_the_holder_goes_first_and_then_the_idlest():
    order = sorted(NODES, key=lambda node: rank(node, NODES, NodeId("a")))
    assert order == ["a", "b", "c"]


def test_without_a_holder_the_minute_chooses_and_everybody_chooses_the_same():
    waits = {node: wait(node, NODES, None, NOW) for node in NODES}
    assert sorted(waits.values()) == [0 * STEP, STEP, 2 * STEP]
    assert waits[feeder(NODES, NOW)] == timedelta()


def test_the_choice_goes_round():
    chosen = {feeder(NODES, NOW + minute * timedelta(minutes=1)) for minute in range(50)}
    assert chosen == set(NODES)


def test_a_holder_that_is_gone_is_nobody():
    assert wait(NodeId("a"), {NodeId("a"): 0.0}, NodeId("gone"), NOW) == timedelta()


def test_who_is_not_among_them_goes_last():
    assert rank(NodeId("x"), NODES, None) == 3
