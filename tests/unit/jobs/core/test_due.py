"""Which runs a job is due for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.jobs.core.due import BACKLOG, LATE, LOOK, due, follow_up, next_due, spread
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, JobSuccess, OnLost, Origin, RunState
from rota.model.ids import Revision

START = datetime(2026, 3, 1, tzinfo=UTC)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def job(enabled=True, **options):
    spec = JobSpec(name="report", **options)
    return JobRecord(spec=spec, origin=Origin.APP, since=START, at=START, enabled=enabled)


def hourly(**options):
    return job(every=HOUR, **options)


def dues(claim):
    return [run.due for run in claim.runs]


def test_nothing_is_due_before_its_time():
    assert due(hourly(), None, START + HOUR - SECOND) is None
    assert next_due(hourly(), None) == START + HOUR


def test_a_due_time_becomes_a_run_named_for_it():
    claim = due(hourly(retries=2), None, START + HOUR)
    (run,) = claim.runs
    assert (run.id, run.state, run.cause) == ("report/20260301T010000.000Z", RunState.PENDING, Cause.SCHEDULE)
    assert (run.attempt, run.retries_left, run.lost_left) == (1, 2, 1)
    assert claim.cursor.upto == START + HOUR


def test_what_the_cursor_has_passed_is_not_due_again():
    assert due(hourly(), JobCursor(upto=START + HOUR), START + HOUR) is None


def test_what_was_due_before_it_was_enabled_is_not_due():
    assert due(job(every=HOUR), JobCursor(upto=START - 5 * HOUR), START + SECOND) is None


@pytest.mark.parametrize(
    "record",
    [hourly(enabled=False), job(), job(after=("other",))],
    ids=["disabled", "by hand", "after others"],
)
def test_no_clock_makes_these_due(record):
    assert due(record, None, START + 5 * HOUR) is None


@pytest.mark.parametrize(
    ("misfire", "made", "skipped"),
    [
        pytest.param("skip", [5], 4, id="skip drops what is late"),
        pytest.param("once", [5], 4, id="once: the run on time stands for the others"),
        pytest.param("all", [1, 2, 3, 4, 5], 0, id="all"),
        pytest.param("all(2)", [3, 4, 5], 2, id="the newest two, and the one on time"),
    ],
)
def test_late_due_times_and_one_on_time(misfire, made, skipped):
    claim = due(hourly(misfire=misfire), None, START + 5 * HOUR)
    assert dues(claim) == [START + number * HOUR for number in made]
    assert sum(run.skipped.count for run in claim.runs if run.skipped) == skipped


@pytest.mark.parametrize(
    ("misfire", "made", "state"),
    [
        pytest.param("skip", [5], RunState.MISSED, id="skip: what was missed is recorded"),
        pytest.param("once", [5], RunState.PENDING, id="once: the last of them"),
        pytest.param("all(2)", [4, 5], RunState.PENDING, id="the newest two"),
    ],
)
def test_late_due_times_alone(misfire, made, state):
    claim = due(hourly(misfire=misfire), None, START + 5 * HOUR + LATE + SECOND)
    assert dues(claim) == [START + number * HOUR for number in made]
    assert {run.state for run in claim.runs} == {state}
    assert claim.cursor.upto == START + 5 * HOUR


def test_what_was_missed_says_which_times_it_stands_for():
    claim = due(hourly(misfire="skip"), None, START + 3 * HOUR + MINUTE)
    (missed,) = claim.runs
    assert (missed.skipped.first, missed.skipped.last, missed.skipped.count) == (START + HOUR, START + 3 * HOUR, 3)
    assert missed.ended == START + 3 * HOUR + MINUTE


def test_while_runs_wait_no_more_are_made():
    record = job(every=SECOND, misfire="all")
    assert due(record, None, START + MINUTE, waiting=BACKLOG) is None
    claim = due(record, None, START + MINUTE, waiting=BACKLOG - 3)
    assert dues(claim) == [START + number * SECOND for number in (1, 2, 3)]
    assert claim.cursor.upto == START + 3 * SECOND


def test_years_of_missed_seconds_come_to_one_run():
    record, cursor, made = job(every=SECOND), None, []
    now = START + (3 * LOOK + 10) * SECOND + LATE
    for _ in range(10):
        claim = due(record, cursor, now)
        if claim is None:
            break
        cursor = claim.cursor
        made += claim.runs
    ran = [run for run in made if run.state is RunState.PENDING]
    assert sum(run.skipped.count for run in made if run.skipped) + len(ran) == 3 * LOOK + 10 + LATE // SECOND
    assert ran[-1].due == now


@settings(deadline=None)
@given(
    misfire=st.sampled_from(["skip", "once", "all", "all(3)"]),
    every=st.integers(1, 5000).map(lambda number: timedelta(seconds=number)),
    looks=st.lists(st.integers(0, 20_000), min_size=1, max_size=8),
)
def test_every_due_time_is_decided_once(misfire, every, looks):
    record, cursor, now = job(every=every, misfire=misfire), None, START
    decided = 0
    seen: set[str] = set()
    for step in looks:
        now += timedelta(seconds=step)
        while (claim := due(record, cursor, now)) is not None:
            assert claim.cursor.upto > (cursor.upto if cursor else START)
            cursor = claim.cursor
            for run in claim.runs:
                assert run.id not in seen
                seen.add(run.id)
                is_counted = run.state is RunState.MISSED
                decided += (run.skipped.count if run.skipped else 0) + (0 if is_counted else 1)
    assert decided == (now - BEGINNING) // every - (START - BEGINNING) // every


def test_jitter_is_the_same_whoever_asks():
    record = job(every=HOUR, jitter=MINUTE)
    run = due(record, None, START + HOUR).runs[0]
    assert run.not_before == START + HOUR + spread(record.spec, START + HOUR)
    assert timedelta() <= spread(record.spec, START + HOUR) < MINUTE
    assert spread(record.spec, START + HOUR) != spread(record.spec, START + 2 * HOUR)


def test_a_job_that_may_not_be_lost_says_so_in_its_runs():
    assert due(hourly(on_lost=OnLost.FAIL), None, START + HOUR).runs[0].lost_left < 0


class TestFollowUp:
    CREATED = Revision(10)
    RECORD = job(after=("a", "b"))

    def success(self, revision):
        return Revision(revision), JobSuccess(run="x", at=START + revision * MINUTE)

    def test_it_waits_for_all_of_them(self):
        assert follow_up(self.RECORD, self.CREATED, None, {"a": self.success(11)}, START) is None

    def test_successes_from_before_it_was_made_do_not_count(self):
        found = {"a": self.success(11), "b": self.success(9)}
        assert follow_up(self.RECORD, self.CREATED, None, found, START) is None

    def test_it_is_due_when_all_have_succeeded_and_then_waits_for_all_again(self):
        found = {"a": self.success(11), "b": self.success(12)}
        claim = follow_up(self.RECORD, self.CREATED, None, found, START)
        assert claim.runs[0].cause is Cause.AFTER
        assert claim.runs[0].due == START + 12 * MINUTE
        assert follow_up(self.RECORD, self.CREATED, claim.cursor, found, START) is None
        found["a"] = self.success(13)
        assert follow_up(self.RECORD, self.CREATED, claim.cursor, found, START) is None
        found["b"] = self.success(14)
        again = follow_up(self.RECORD, self.CREATED, claim.cursor, found, START)
        assert again.cursor.used == {"a": 13, "b": 14}
        assert again.runs[0].id != claim.runs[0].id
