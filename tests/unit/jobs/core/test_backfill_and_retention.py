"""Runs for due times that had none, and runs that go."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rota.jobs.core.backfill import KeptDueTimes, backfill, kept
from rota.jobs.core.due import new_run
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, Origin, RunRecord, RunState, Skipped, run_id
from rota.jobs.core.retention import doomed
from rota.kit.record import replace
from rota.model import keys
from rota.model.errors import Invalid

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


ALL = KeptDueTimes(since=START)
"""Nothing was cleared away, and there is nothing."""


def _over(due: datetime, *, cause: Cause = Cause.SCHEDULE, **fields: object) -> RunRecord:
    run = new_run(JobSpec(name="a", every=HOUR), due, cause, due)
    return msgspec.structs.replace(run, **{"state": RunState.SUCCEEDED, **fields})


def job(**options):
    return JobRecord(spec=JobSpec(name="a", **options), origin=Origin.API, since=START, at=START)


def test_what_is_missing_is_made_and_the_rest_left_alone():
    existing = KeptDueTimes({run_id("a", START + 2 * HOUR)}, since=START)
    runs = backfill(job(every=HOUR), JobCursor(upto=START + 9 * HOUR), START, START + 3 * HOUR, existing, START)
    assert [run.due for run in runs] == [START, START + HOUR, START + 3 * HOUR]
    assert {run.cause for run in runs} == {Cause.BACKFILL}


def test_what_is_still_to_come_is_not_filled_in():
    runs = backfill(job(every=HOUR), JobCursor(upto=START + HOUR), START, START + 5 * HOUR, ALL, START + 5 * HOUR)
    assert [run.due for run in runs] == [START, START + HOUR]


@pytest.mark.parametrize("cursor", [None, JobCursor()])
def test_what_is_due_but_not_decided_is_left_to_whoever_decides_it(cursor):
    runs = backfill(job(every=HOUR), cursor, START - HOUR, START + 5 * HOUR, KeptDueTimes(), START + 5 * HOUR)
    assert [run.due for run in runs] == [START - HOUR, START]


def test_what_was_due_while_it_was_disabled_can_be_filled_in():
    enabled_again = replace(job(every=HOUR), since=START + 3 * HOUR)
    existing = KeptDueTimes({run_id("a", START)}, since=START)
    runs = backfill(enabled_again, JobCursor(upto=START), START, START + 9 * HOUR, existing, START)
    assert [run.due for run in runs] == [START + HOUR, START + 2 * HOUR, START + 3 * HOUR]


def test_too_many_at_a_time():
    with pytest.raises(Invalid, match="more than 1000 times"):
        backfill(job(every=timedelta(seconds=1)), None, START - HOUR, START, KeptDueTimes(), START + HOUR)


def test_a_job_without_a_schedule():
    with pytest.raises(Invalid, match="has no schedule"):
        backfill(job(), None, START, START + HOUR, KeptDueTimes(), START)


def test_what_may_have_run_and_was_cleared_is_refused_unless_forced():
    over = [_over(START + hour * HOUR) for hour in (5, 6)]
    cursor, span = JobCursor(upto=START + 6 * HOUR), (START + 3 * HOUR, START + 6 * HOUR)
    with pytest.raises(Invalid, match=r"2 of these due times, from 2026-03-01T03.* kept is of 2026-03-01T05.*--force"):
        backfill(job(every=HOUR), cursor, *span, kept((), over), START)
    forced = backfill(job(every=HOUR), cursor, *span, kept((), over), START, is_forced=True)
    assert [run.due for run in forced] == [START + 3 * HOUR, START + 4 * HOUR]


def test_if_no_record_is_kept_all_that_was_decided_may_have_run():
    cursor = JobCursor(upto=START + 6 * HOUR)
    with pytest.raises(Invalid, match="no record of its schedule is kept"):
        backfill(job(every=HOUR), cursor, START, START + 6 * HOUR, kept((), ()), START)


@pytest.mark.parametrize("cause", [Cause.BACKFILL, Cause.RESTART])
def test_a_run_that_was_made_up_for_does_not_show_that_others_of_its_time_are_kept(cause):
    over = [_over(START + 5 * HOUR), _over(START, cause=cause)]
    with pytest.raises(Invalid, match="may have run before"):
        backfill(job(every=HOUR), JobCursor(upto=START + 6 * HOUR), START, START + 5 * HOUR, kept((), over), START)


def test_a_missed_due_time_gets_a_run_also_the_one_whose_record_stands_for_all():
    skipped = Skipped(first=START + HOUR, last=START + 4 * HOUR, count=4)
    missed = _over(START + 4 * HOUR, state=RunState.MISSED, skipped=skipped)
    found = kept((), [missed])
    runs = backfill(job(every=HOUR), JobCursor(upto=START + 4 * HOUR), START + HOUR, START + 9 * HOUR, found, START)
    assert [run.due for run in runs] == [START + hour * HOUR for hour in (1, 2, 3, 4)]
    assert [run.skipped for run in runs] == [None, None, None, skipped]


def test_the_surplus_goes_and_what_is_old():
    runs = sorted(keys.run(run_id("a", START + number * HOUR)) for number in range(5))
    assert [keys.run_of(key) for key in runs] == [run_id("a", START + number * HOUR) for number in (4, 3, 2, 1, 0)]
    assert doomed(runs, START + 5 * HOUR, most=3, keep=timedelta(days=1)) == runs[3:]
    assert doomed(runs, START + 5 * HOUR, most=9, keep=3 * HOUR) == runs[3:]
    assert doomed(runs, START + 5 * HOUR, most=9, keep=9 * HOUR) == []


def test_a_key_that_is_no_runs_stays():
    assert doomed(["/runs/a/what"], START, most=9, keep=HOUR) == []
