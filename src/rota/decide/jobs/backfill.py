"""Backfill: runs for due times that had none.

A due time has one run of its own, whenever it is made: a backfill makes those that are missing between two moments and
leaves the others alone. Only times that are decided already can be missing; what is still to come will come.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import islice, takewhile

from rota.decide.jobs.due import decided, new_run, times
from rota.model.errors import Invalid
from rota.model.job import Cause, JobCursor, JobRecord, RunRecord, run_id

MOST = 1000
"""Due times of one backfill."""


def backfill(
    record: JobRecord,
    cursor: JobCursor | None,
    first: datetime,
    last: datetime,
    existing: Collection[str],
    now: datetime,
) -> list[RunRecord]:
    """The runs that are missing from `first` to `last`, both included; `existing` has the ids of those there are."""
    spec = record.spec
    if not spec.is_timed:
        raise Invalid(f'job "{spec.name}" has no schedule, and so no due times to fill in; run it by hand')
    end = min(last, decided(record, cursor))  # what is not decided yet becomes a run by itself, and would do so twice
    coming = takewhile(lambda due: due <= end, times(spec, first - timedelta(microseconds=1)))
    due_times = list(islice(coming, MOST + 1))
    if len(due_times) > MOST:
        raise Invalid(
            f'job "{spec.name}" is due more than {MOST} times between {first} and {last}; fill in less at a time'
        )
    return [new_run(spec, due, Cause.BACKFILL, now) for due in due_times if run_id(spec.name, due) not in existing]
