"""A resource that has just failed on a node rests from it, longer each time, by the leader's clock."""

from datetime import UTC, datetime, timedelta

from rota.kit.record import replace
from rota.kit.time.instant import Instant
from rota.model.ids import NodeId
from rota.placement.fleet.rests import Rests
from rota.resources.core.records import Trouble
from rota.resources.core.trouble import LONGEST_REST, again, rest

N1, N2 = NodeId("n1"), NodeId("n2")
AT = datetime(2026, 11, 18, tzinfo=UTC)


def trouble(node=N1, strikes=1, minutes=0):
    return Trouble(node=node, at=AT + timedelta(minutes=minutes), why="no", strikes=strikes)


def resting(rests, troubles, now):
    return set(rests.resting("room/a", {each.node: each for each in troubles}, Instant(now)))


def test_each_failure_in_a_row_doubles_the_rest():
    assert [rest(trouble(strikes=strikes)).total_seconds() for strikes in (1, 2, 3, 12)] == [5, 10, 20, 300]
    assert rest(trouble(strikes=12)) == LONGEST_REST


def test_strikes_last_over_placements():
    first = again(None, N1, AT, "no")
    assert again(first, N1, AT + timedelta(minutes=5), "no").strikes == 2


def test_a_resource_rests_from_the_node_where_it_failed_and_is_due_after_that():
    rests = Rests({})
    assert resting(rests, [trouble()], 100.0) == {N1}
    assert resting(rests, [trouble()], 104.9) == {N1}
    assert list(rests.due(Instant(104.9))) == []
    assert list(rests.due(Instant(105.0))) == ["room/a"]
    assert list(rests.due(Instant(106.0))) == []
    assert resting(rests, [trouble()], 105.0) == set()


def test_the_time_that_the_node_wrote_down_does_not_matter():
    rests = Rests({})
    assert resting(rests, [trouble(minutes=-500)], 100.0) == {N1}
    assert resting(rests, [trouble(minutes=500)], 104.0) == {N1}, "another trouble"
    assert resting(rests, [trouble(minutes=500)], 108.9) == {N1}
    assert resting(rests, [trouble(minutes=500)], 109.0) == set()


def test_a_failure_elsewhere_rests_by_itself():
    rests = Rests({})
    assert resting(rests, [trouble()], 100.0) == {N1}
    both = [trouble(), trouble(N2, strikes=2)]
    assert resting(rests, both, 103.0) == {N1, N2}
    assert list(rests.due(Instant(105.0))) == ["room/a"]
    assert resting(rests, both, 105.0) == {N2}
    assert list(rests.due(Instant(113.0))) == ["room/a"]


def test_what_a_new_leader_finds_has_rested():
    old = trouble(strikes=7)
    rests = Rests({"room/a": {N1: old}})
    assert resting(rests, [old], 0.0) == set()
    assert resting(rests, [replace(old, strikes=8)], 1.0) == {N1}


def test_troubles_that_are_gone_are_forgotten():
    rests = Rests({})
    resting(rests, [trouble()], 100.0)
    assert resting(rests, [], 101.0) == set()
    assert list(rests.due(Instant(1000.0))) == []
    assert rests._seen == {}
