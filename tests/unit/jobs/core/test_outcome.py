"""What becomes of a run."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs.core import outcome as steps
from rota.jobs.core.outcome import add_late, begin, bind, end, interrupt, lose, release, tried, wait_before
from rota.jobs.core.records import BOUND, OVER, Cause, Outcome, RunRecord, RunState
from rota.jobs.core.run_phases import RunEvent, may
from rota.kit.transitions import IllegalTransition
from rota.model.ids import NodeId, Revision, SessionId

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = Revision(7)


def run(**changes):
    return RunRecord(id="a/b", job="a", due=NOW, cause=Cause.SCHEDULE, created=NOW, **changes)


def bound(**changes):
    return bind(run(**changes), NodeId("one"), SessionId("s"), NOW)


def test_a_bound_run_says_where_and_since_when():
    there = bound(not_before=NOW, why="no executor is free")
    assert (there.state, there.node, there.session, there.epoch) == (RunState.DISPATCHED, "one", "s", 0)
    assert (there.dispatched, there.not_before, there.why) == (NOW, None, "")


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.INTERRUPTED])
def test_these_are_the_end(state):
    over = end(bound(retries_left=5), Outcome(state=state), EPOCH, NOW)
    assert (over.state, over.epoch, over.ended) == (state, EPOCH, NOW)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.TIMED_OUT])
def test_a_failure_is_tried_again_while_there_are_retries(state):
    again = end(bound(retries_left=1), Outcome(state=state, error="no"), EPOCH, NOW)
    assert (again.state, again.attempt, again.retries_left, again.node) == (RunState.PENDING, 2, 0, None)
    assert again.not_before == NOW + timedelta(seconds=1)
    assert (again.earlier[0].epoch, again.earlier[0].outcome.error) == (EPOCH, "no")
    assert end(bind(again, NodeId("two"), SessionId("t"), NOW), Outcome(state=state), EPOCH, NOW).state is state


def test_a_lost_run_gets_a_try_for_nothing_and_then_counts():
    first = lose(bound(retries_left=1, lost_left=1), EPOCH, NOW)
    assert (first.state, first.retries_left, first.lost_left, first.not_before) == (RunState.PENDING, 1, 0, None)
    second = lose(bind(first, NodeId("two"), SessionId("t"), NOW), EPOCH, NOW)
    assert (second.state, second.retries_left) == (RunState.PENDING, 0)
    third = lose(bind(second, NodeId("two"), SessionId("u"), NOW), EPOCH, NOW)
    assert (third.state, third.outcome.error) == (RunState.LOST, "node two was lost")
    assert len(third.earlier) == 2


def test_a_run_that_may_not_be_lost_ends_there_whatever_its_retries():
    assert lose(bound(retries_left=3, lost_left=-1), EPOCH, NOW).state is RunState.LOST


def test_what_was_not_begun_goes_back_without_counting():
    back = release(bound(retries_left=1), NOW, "it is full")
    assert (back.state, back.attempt, back.retries_left, back.why) == (RunState.PENDING, 1, 1, "it is full")


class TestInterrupt:
    def test_one_that_waits_is_over(self):
        assert interrupt(run(), "enough", NOW).state is RunState.INTERRUPTED

    def test_one_that_runs_is_to_be_stopped(self):
        told = interrupt(bound(), "enough", NOW)
        assert (told.state, told.stop) == (RunState.DISPATCHED, "enough")

    def test_one_that_is_to_be_stopped_is_never_tried_again(self):
        told = interrupt(bound(retries_left=3, lost_left=1), "enough", NOW)
        assert end(told, Outcome(state=RunState.FAILED), EPOCH, NOW).state is RunState.FAILED
        assert lose(told, EPOCH, NOW).state is RunState.LOST
        assert release(told, NOW, "full").state is RunState.INTERRUPTED


def test_a_late_outcome_is_kept_once_and_changes_nothing():
    lost = lose(bound(lost_left=-1), EPOCH, NOW)
    late = tried(lost, Outcome(state=RunState.SUCCEEDED), NOW)
    with_it = add_late(lost, late)
    assert (with_it.state, with_it.late[0].outcome.state) == (RunState.LOST, RunState.SUCCEEDED)
    assert add_late(with_it, late) == with_it


def test_waits_double_up_to_a_limit():
    assert [wait_before(attempt).total_seconds() for attempt in (1, 2, 3, 20)] == [1, 2, 4, 300]


def test_a_long_error_is_cut():
    over = end(bound(), Outcome(state=RunState.FAILED, error="x" * 5000), EPOCH, NOW)
    assert len(over.outcome.error) == steps.LONGEST


def test_what_is_over_stays_as_it_is() -> None:
    for state in OVER:
        for step in (
            lambda over: bind(over, NodeId("one"), SessionId("s"), NOW),
            lambda over: end(over, Outcome(state=RunState.SUCCEEDED), EPOCH, NOW),
            lambda over: lose(over, EPOCH, NOW),
            lambda over: release(over, NOW, "full"),
            lambda over: interrupt(over, "enough", NOW),
        ):
            with pytest.raises(IllegalTransition):
                step(run(state=state))


def test_a_run_that_is_at_work_is_not_given_back_nor_bound_again() -> None:
    working = begin(bound(), EPOCH, NOW)
    assert not may(working, RunEvent.GIVEN_BACK)
    with pytest.raises(IllegalTransition):
        release(working, NOW, "full")
    with pytest.raises(IllegalTransition):
        bind(working, NodeId("two"), SessionId("t"), NOW)


def test_only_what_is_bound_can_end() -> None:
    assert {state for state in RunState if may(run(state=state), RunEvent.SUCCEEDED)} == BOUND
