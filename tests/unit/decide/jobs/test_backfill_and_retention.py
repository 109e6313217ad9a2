"""Runs for due times that had none, and runs that go."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rota.decide.jobs.backfill import backfill
from rota.decide.jobs.retention import doomed
from rota.model import keys
from rota.model.errors import Invalid
from rota.model.job import Cause, JobCursor, JobRecord, Origin, WantedJob, run_id

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def job(**options):
    return JobRecord(spec=WantedJob(name="a", **options), origin=Origin.API, since=START, at=START)


def test_what_is_missing_is_made_and_the_rest_left_alone():
    existing = {run_id("a", START + 2 * HOUR)}
    runs = backfill(job(every=HOUR), JobCursor(upto=START + 9 * HOUR), START, START + 3 * HOUR, existing, START)
    assert [run.due for run in runs] == [START, START + HOUR, START + 3 * HOUR]
    assert {run.cause for run in runs} == {Cause.BACKFILL}


def test_what_is_still_to_come_is_not_filled_in():
    runs = backfill(job(every=HOUR), JobCursor(upto=START + HOUR), START, START + 5 * HOUR, (), START + 5 * HOUR)
    assert [run.due for run in runs] == [START, START + HOUR]


@pytest.mark.parametrize("cursor", [None, JobCursor()])
def test_what_is_due_but_not_decided_is_left_to_whoever_decides_it(cursor):
    runs = backfill(job(every=HOUR), cursor, START - HOUR, START + 5 * HOUR, (), START + 5 * HOUR)
    assert [run.due for run in runs] == [START - HOUR, START]


def test_what_was_due_while_it_was_disabled_can_be_filled_in():
    enabled_again = replace(job(every=HOUR), since=START + 3 * HOUR)
    runs = backfill(enabled_again, JobCursor(upto=START), START, START + 9 * HOUR, (run_id("a", START),), START)
    assert [run.due for run in runs] == [START + HOUR, START + 2 * HOUR, START + 3 * HOUR]


def test_too_many_at_a_time():
    with pytest.raises(Invalid, match="more than 1000 times"):
        backfill(job(every=timedelta(seconds=1)), None, START - HOUR, START, (), START + HOUR)


def test_a_job_without_a_schedule():
    with pytest.raises(Invalid, match="has no schedule"):
        backfill(job(), None, START, START + HOUR, (), START)


def test_the_surplus_goes_and_what_is_old():
    runs = sorted(keys.run(run_id("a", START + number * HOUR)) for number in range(5))
    assert [keys.run_of(key) for key in runs] == [run_id("a", START + number * HOUR) for number in (4, 3, 2, 1, 0)]
    assert doomed(runs, START + 5 * HOUR, most=3, keep=timedelta(days=1)) == runs[3:]
    assert doomed(runs, START + 5 * HOUR, most=9, keep=3 * HOUR) == runs[3:]
    assert doomed(runs, START + 5 * HOUR, most=9, keep=9 * HOUR) == []


def test_a_key_that_is_no_runs_stays():
    assert doomed(["/runs/a/what"], START, most=9, keep=HOUR) == []
