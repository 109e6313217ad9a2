"""Which node takes which run."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rota.jobs.core.dispatch import EligibleNode, dispatch, is_ready
from rota.jobs.core.records import Cause, JobSpec, Outcome, RunRecord, RunState, Try, run_id
from rota.model.ids import NodeId, SessionId

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ANY = {"a": JobSpec(name="a", concurrency=None), "b": JobSpec(name="b", concurrency=None)}


def member(name, free=4, **changes):
    given = {"jobs": frozenset({"a", "b"}), **changes}
    return EligibleNode(node=NodeId(name), session=SessionId(name), free=free, **given)


def run(number=0, job="a"):
    due = NOW + timedelta(seconds=number)
    return RunRecord(id=run_id(job, due), job=job, due=due, cause=Cause.SCHEDULE, created=NOW)


def decided(runs, jobs, bound, members, waited=0.0):
    """What is decided when the first of these runs has waited for so many seconds."""
    return dispatch(runs, jobs, bound, members, NOW + timedelta(seconds=waited))


def where(plan):
    return [bind.member.node for bind in plan.binds]


@pytest.mark.parametrize(
    ("members", "runs", "expected"),
    [
        pytest.param([member("a", 1), member("b", 3)], 1, ["b"], id="the most free executors"),
        pytest.param([member("b"), member("a")], 1, ["a"], id="a tie goes to the lowest name"),
        pytest.param([member("a", score=9.0), member("b")], 1, ["b"], id="but before that to the idler"),
        pytest.param([member("a", 2), member("b", 3)], 5, ["b", "a", "b", "a", "b"], id="each takes one less"),
        pytest.param([member("a", 5, barred="it is cordoned"), member("b", 1)], 1, ["b"], id="a barred one gets none"),
        pytest.param([member("a", 1)], 3, ["a"], id="no more than there is room"),
        pytest.param([member("a", 1, spare=9), member("b", 2)], 5, ["b", "a", "b", "a", "a"], id="ahead only at last"),
        pytest.param([member("a", jobs=frozenset()), member("b", 1)], 1, ["b"], id="it must have the function"),
    ],
)
def test_where_runs_go(members, runs, expected):
    assert where(decided([run(number) for number in range(runs)], ANY, {}, members)) == expected


def test_the_oldest_due_time_goes_first():
    plan = decided([run(2), run(0), run(1)], ANY, {}, [member("a", 2)])
    assert [bind.run.due for bind in plan.binds] == [NOW, NOW + timedelta(seconds=1)]
    assert list(plan.waiting.values()) == ["no executor is free any more"]


def test_jobs_take_turns_by_how_many_of_their_runs_are_bound():
    flood = [run(number) for number in range(5)]
    plan = decided([*flood, run(9, "b")], ANY, {}, [member("n", 3)])
    assert [bind.run.job for bind in plan.binds] == ["a", "b", "a"]
    plan = decided([*flood, run(9, "b")], ANY, {"a": 3}, [member("n", 1)])
    assert [bind.run.job for bind in plan.binds] == ["b"]


def test_of_jobs_with_as_many_bound_the_one_served_longest_ago_goes_first():
    plan = dispatch([run(0), run(9, "b")], ANY, {}, [member("n", 1)], NOW, {"a": 2, "b": 1})
    assert [bind.run.job for bind in plan.binds] == ["b"]


class Watched(float):
    """A load score that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        Watched.compared += 1
        return super().__lt__(other)


def test_the_work_does_not_grow_with_runs_times_nodes():
    Watched.compared = 0
    members = [member(f"n{number}", 8, score=Watched(number)) for number in range(300)]
    plan = decided([run(number) for number in range(600)], ANY, {}, members)
    assert len(plan.binds) == 600
    assert Watched.compared < 30_000  # each with each: 180,000


@pytest.mark.parametrize(
    ("job", "members", "why"),
    [
        pytest.param(JobSpec(name="a"), [], "no node takes part in jobs", id="nobody"),
        pytest.param(JobSpec(name="a", labels={"zone": "x"}), [member("n")], 'its label zone is ""', id="labels"),
        pytest.param(JobSpec(name="a"), [member("n", jobs=frozenset())], "its app has no such job", id="no app"),
        pytest.param(JobSpec(name="a"), [member("n", barred="it is cordoned")], "it is cordoned", id="barred"),
    ],
)
def test_why_it_waits(job, members, why):
    plan = decided([run()], {"a": job}, {}, members)
    assert why in plan.waiting[run().id]


def test_a_run_without_its_job_waits_to_be_cleared_away():
    assert decided([run()], {}, {}, [member("n")]).waiting == {run().id: "its job is gone"}


def test_a_command_runs_anywhere():
    command = JobSpec(name="a", argv=("true",))
    assert where(decided([run()], {"a": command}, {}, [member("n", jobs=frozenset())])) == ["n"]


def test_a_limit_counts_what_is_bound_and_what_is_bound_now():
    limited = {"a": JobSpec(name="a", concurrency=3)}
    plan = decided([run(number) for number in range(5)], limited, {"a": 1}, [member("n", 9)])
    assert len(plan.binds) == 2
    assert set(plan.waiting.values()) == {"3 of it run already, and that is its limit"}


def test_nodes_that_fell_lately_get_only_what_has_waited():
    members = [member("a", 0, reserve=2), member("b", 0, reserve=1), member("c", 1)]
    assert where(decided([run(0), run(1)], ANY, {}, members, waited=9.9)) == ["c"]
    assert where(decided([run(0), run(1)], ANY, {}, members, waited=10)) == ["c"], "the second is a second younger"
    assert where(decided([run(0), run(1)], ANY, {}, members, waited=11)) == ["c", "a"]
    plan = decided([run(number) for number in range(9)], ANY, {}, members, waited=60)
    assert where(plan) == ["c", "a", "a", "b"]
    assert set(plan.waiting.values()) == {"no executor is free any more"}


def test_what_is_free_and_what_is_taken_ahead_comes_before_a_reserve():
    members = [member("a", 1, spare=1), member("b", 0, reserve=5)]
    assert where(decided([run(number) for number in range(3)], ANY, {}, members, waited=60)) == ["a", "a", "b"]


def test_a_barred_node_has_no_reserve():
    members = [member("a", 0, reserve=5, barred="it cannot be reached"), member("b", 0)]
    assert where(decided([run()], ANY, {}, members, waited=60)) == []


def test_a_run_that_was_held_back_has_not_waited_before():
    held = structs.replace(run(), not_before=NOW + timedelta(seconds=55))
    assert where(decided([held], ANY, {}, [member("a", 0, reserve=1)], waited=60)) == []
    made = structs.replace(run(), due=NOW - timedelta(days=9))  # of a backfill
    assert where(decided([made], ANY, {}, [member("a", 0, reserve=1)], waited=5)) == []
    assert where(decided([made], ANY, {}, [member("a", 0, reserve=1)], waited=10)) == ["a"]


def test_a_run_that_was_just_lost_waits_for_a_node_in_good_standing():
    lost = Try(
        attempt=1, epoch=1, node=NodeId("a"), outcome=Outcome(state=RunState.LOST), ended=NOW + timedelta(minutes=5)
    )
    again, members = structs.replace(run(), earlier=(lost,)), [member("a", 0, reserve=1)]
    assert where(decided([again], ANY, {}, members, waited=305)) == []
    assert where(decided([again], ANY, {}, members, waited=310)) == ["a"]


def test_a_run_of_a_clock_that_was_set_back_takes_any_node():
    assert where(decided([run()], ANY, {}, [member("a", 0, reserve=1)], waited=-8 * 3600)) == ["a"]


def test_a_reserve_is_told_of():
    (why,) = decided([run()], ANY, {}, [member("a", 0, reserve=1)]).waiting.values()
    assert why == "no executor is free on a; after 10 s it may go to one that fell lately"


def test_a_run_waits_for_its_moment():
    held = RunRecord(id="a/b", job="a", due=NOW, cause=Cause.SCHEDULE, created=NOW, not_before=NOW)
    assert is_ready(held, NOW)
    assert not is_ready(held, NOW - timedelta(seconds=1))
    assert is_ready(held, NOW - timedelta(days=1)), "the store's clock was set back"


def test_a_run_that_was_tried_by_the_clock_before_does_not_wait_for_that_to_come_again():
    tried = Try(attempt=1, epoch=1, node=NodeId("a"), outcome=Outcome(state=RunState.FAILED), ended=NOW)
    made, again = NOW - timedelta(hours=8), NOW + timedelta(seconds=1)
    held = RunRecord(id="a/b", job="a", due=made, cause=Cause.MANUAL, created=made, not_before=again, earlier=(tried,))
    assert not is_ready(held, NOW)
    assert is_ready(held, made)


@given(
    free=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    runs=st.integers(0, 30),
    limit=st.one_of(st.none(), st.integers(1, 8)),
)
def test_nothing_is_exceeded_and_nothing_waits_for_no_reason(free, runs, limit):
    members = [member(f"n{number}", count) for number, count in enumerate(free)]
    plan = decided([run(number) for number in range(runs)], {"a": JobSpec(name="a", concurrency=limit)}, {}, members)
    for name, count in Counter(where(plan)).items():
        assert count <= free[int(name[1:])]
    assert len(plan.binds) == min(runs, sum(free), limit if limit is not None else runs)
    assert len(plan.binds) + len(plan.waiting) == runs
