"""Backfill: runs for due times that had none.

A due time has one run of its own, whenever it is made: a backfill makes those that are missing between two moments and
leaves the others alone. Only due times that are decided already can be missing; later ones still become runs by
themselves.

Retention deletes old records, and what has no record may have run and succeeded. So due times before the oldest record
of the schedule that is kept are refused, unless the caller insists. A due time that was recorded as missed did not run:
it gets a run like one without a record, and that run replaces the record.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from itertools import islice, takewhile

import msgspec
from msgspec.structs import replace

from rota.jobs.core.due import decided, new_run, times
from rota.jobs.core.records import Cause, JobCursor, JobRecord, RunRecord, RunState, run_id
from rota.model.errors import Invalid

MOST = 1000
"""Due times of one backfill."""


class KeptDueTimes(msgspec.Struct, frozen=True):
    """What the store still has of a job's due times."""

    ids: Collection[str] = ()
    """Runs of due times, living or over; not those that were missed."""

    missed: Collection[RunRecord] = ()
    since: datetime | None = None
    """The earliest due time of which there is a record; None if there is no record of the schedule."""


def kept(living: Iterable[str], over: Iterable[RunRecord]) -> KeptDueTimes:
    """What is kept of a job, by the ids of its living runs and the records of those that are over."""
    ids, missed, recorded = set(living), list[RunRecord](), list[datetime]()
    for run in over:
        if run.cause is Cause.SCHEDULE:
            recorded.append(run.skipped.first if run.skipped else run.due)
        if run.state is RunState.MISSED:
            missed.append(run)
        else:
            ids.add(run.id)
    return KeptDueTimes(ids, missed, min(recorded, default=None))


def backfill(
    record: JobRecord,
    cursor: JobCursor | None,
    first: datetime,
    last: datetime,
    kept: KeptDueTimes,
    now: datetime,
    *,
    is_forced: bool = False,
) -> list[RunRecord]:
    """The runs that are missing from `first` to `last`, both included.

    Raises Invalid if one of them may have run before, and its record have been deleted; not if `is_forced`.
    """
    spec = record.spec
    if not spec.is_timed:
        raise Invalid(f'job "{spec.name}" has no schedule, and so no due times to fill in; run it by hand')
    end = min(last, decided(record, cursor))  # an undecided due time becomes a run by itself, and would then have two
    coming = takewhile(lambda due: due <= end, times(spec, first - timedelta(microseconds=1)))
    due_times = list(islice(coming, MOST + 1))
    if len(due_times) > MOST:
        raise Invalid(
            f'job "{spec.name}" is due more than {MOST} times between {first} and {last}; fill in less at a time'
        )
    missing = [due for due in due_times if run_id(spec.name, due) not in kept.ids]
    if not is_forced:
        _refuse_forgotten(spec.name, missing, cursor, kept)
    skipped = {run.id: run.skipped for run in kept.missed}
    runs = [new_run(spec, due, Cause.BACKFILL, now) for due in missing]
    return [replace(run, skipped=skipped.get(run.id)) for run in runs]


def _refuse_forgotten(job: str, missing: list[datetime], cursor: JobCursor | None, kept: KeptDueTimes) -> None:
    """Raise Invalid if a record of one of these due times may have been deleted."""
    upto = cursor.upto if cursor else None
    if kept.since is None:
        forgotten = [due for due in missing if upto is not None and due <= upto]
        known = "no record of its schedule is kept"
    else:
        forgotten = [due for due in missing if due < kept.since]
        known = f"its oldest record that is kept is of {kept.since.isoformat()}"
    if forgotten:
        raise Invalid(
            f'job "{job}": {len(forgotten)} of these due times, from {forgotten[0].isoformat()} to '
            f"{forgotten[-1].isoformat()}, may have run before: {known}, and older ones were deleted by retention, "
            "if there were any; begin later, or use force (--force) to run them: that is safe if the job was made "
            "after these due times, and may run them a second time if not"
        )
