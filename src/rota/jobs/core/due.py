"""Due: which runs a job has become due for.

`due` looks at a job's schedule from where its cursor stands up to now, and returns the runs to make and the cursor
after them. Both are written in one commit which expects the cursor as it was, and that commit is the claim: a due time
becomes a run once, however many nodes decide it. All due times up to now are decided, however long no node was running.

A due time is late when no node decided it for `LATE`. The job's `misfire` says what happens to late ones: `skip` drops
them, `once` makes one run stand for all of them, `all` makes a run of each, `all(5)` of the newest five. What is
dropped is recorded: on the next run (`skipped`), or as a run that was missed if there is none.

A job that is slower than its schedule does not pile up runs: while `BACKLOG` of them only wait for a node, nothing more
is decided, and what became late meanwhile falls under `misfire`. Runs that wait for their jitter or for the back-off of
a retry do not count, nor do runs that were started by hand or by a backfill.

`follow_up` is the same for a job that comes after others: it is due when each of them has succeeded since the success
that its last run followed, and at first since the job was made; enabling it moves its cursor behind the successes so
far. Successes are distinguished by revision, not by time.

Time is an argument, and comes from the store's clock: a node whose clock is wrong decides nothing too early.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice, takewhile

import msgspec
from msgspec.structs import replace

from rota.jobs.core import cron
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, JobSuccess, OnLost, RunRecord, Skipped, run_id
from rota.jobs.core.run_phases import RunEvent, step
from rota.model.ids import Revision

LATE = timedelta(seconds=30)
"""A due time that no node decided for this long is late."""

BACKLOG = 10
"""Runs of one job's schedule that are ready and wait at most before more are made."""

LOOK = 1000
"""Due times examined in one step."""

RUNS = 40
"""Runs that one step makes at most: they and the cursor go in one commit, with room for other jobs."""


class DueClaim(msgspec.Struct, frozen=True):
    """Runs that a job is due for, and the cursor after them."""

    job: str
    runs: tuple[RunRecord, ...]
    """The runs to make, pending or missed."""

    cursor: JobCursor


def times(spec: JobSpec, after: datetime) -> Iterator[datetime]:
    """The due times of a schedule later than `after`; none if it has no schedule."""
    if spec.cron is not None:
        return cron.due_times(spec.cron, spec.tz, after)
    if spec.every is not None:
        return cron.ticks(spec.every, after)
    return iter(())


def decided(record: JobRecord, cursor: JobCursor | None) -> datetime:
    """Up to when a job's due times are decided."""
    upto = cursor.upto if cursor else None
    return record.since if upto is None else max(record.since, upto)


def next_due(record: JobRecord, cursor: JobCursor | None) -> datetime | None:
    """The first due time that is not decided; None if there is none to come."""
    if not record.enabled:
        return None
    return next(times(record.spec, decided(record, cursor)), None)


def due(record: JobRecord, cursor: JobCursor | None, now: datetime, waiting: int = 0) -> DueClaim | None:
    """What a job is due for now, while `waiting` runs of its schedule wait for a node; None if nothing."""
    if not record.enabled or waiting >= BACKLOG:
        return None
    most = min(RUNS, BACKLOG - waiting)
    look = most if record.spec.misfire == "all" else LOOK
    coming = takewhile(lambda due: due <= now, times(record.spec, decided(record, cursor)))
    found = list(islice(coming, look + 1))
    if not found:
        return None
    has_more, found = len(found) > look, found[:look]
    chosen = _chosen(record.spec, found, now, has_more)
    wanted = chosen[:most]
    last = wanted[-1] if len(wanted) < len(chosen) else found[-1]
    dropped = sorted({due for due in found if due <= last} - set(wanted))
    return DueClaim(
        record.spec.name,
        _runs(record.spec, wanted, dropped, now),
        JobCursor(upto=last, used=cursor.used if cursor else {}),
    )


def follow_up(
    record: JobRecord,
    created: Revision,
    cursor: JobCursor | None,
    successes: Mapping[str, tuple[Revision, JobSuccess]],
    now: datetime,
) -> DueClaim | None:
    """The run that follows the jobs it comes after; None if one of them has not succeeded since."""
    spec = record.spec
    if not record.enabled or not spec.after:
        return None
    if lacking(record, created, cursor, successes):
        return None
    found = {name: successes[name] for name in spec.after}
    newest = max(at for at, _ in found.values())
    due = max(success.at for _, success in found.values())
    run = new_run(spec, due, Cause.AFTER, now, more=f"r{newest}")
    upto = cursor.upto if cursor else None
    return DueClaim(spec.name, (run,), JobCursor(upto=upto, used={name: at for name, (at, _) in found.items()}))


def lacking(
    record: JobRecord,
    created: Revision,
    cursor: JobCursor | None,
    successes: Mapping[str, tuple[Revision, JobSuccess]],
) -> list[str]:
    """The jobs that a job comes after and that have not succeeded since its last run."""
    used = cursor.used if cursor else {}
    return [
        name
        for name in record.spec.after
        if name not in successes or successes[name][0] <= max(used.get(name, 0), created)
    ]


def new_run(spec: JobSpec, due: datetime, cause: Cause, now: datetime, *, more: str = "") -> RunRecord:
    """A pending run."""
    return RunRecord(
        id=run_id(spec.name, due, more),
        job=spec.name,
        due=due,
        cause=cause,
        created=now,
        retries_left=spec.retries,
        lost_left=1 if spec.on_lost is OnLost.RETRY else -1,
        not_before=due + spread(spec, due) if spec.jitter and cause is Cause.SCHEDULE else None,
    )


def spread(spec: JobSpec, due: datetime) -> timedelta:
    """How much later than due a run starts: a part of the job's jitter, the same on every node."""
    digest = hashlib.blake2b(f"{spec.name} {due.isoformat()}".encode(), digest_size=8).digest()
    return spec.jitter * (int.from_bytes(digest) / 2**64)


def _chosen(spec: JobSpec, found: list[datetime], now: datetime, has_more: bool) -> list[datetime]:
    """The due times that become runs."""
    if spec.misfire == "all":
        return found
    late = [due for due in found if due < now - LATE]
    prompt = found[len(late) :]
    if has_more or spec.misfire == "skip":  # if there are more, the newest of them are decided later
        return prompt
    if spec.misfire == "once":
        return prompt or late[-1:]
    most = int(spec.misfire.removeprefix("all(").removesuffix(")"))
    return late[-most:] + prompt


def _runs(spec: JobSpec, wanted: list[datetime], dropped: list[datetime], now: datetime) -> tuple[RunRecord, ...]:
    runs = [new_run(spec, due, Cause.SCHEDULE, now) for due in wanted]
    if dropped:
        skipped = Skipped(first=dropped[0], last=dropped[-1], count=len(dropped))
        if runs:
            runs[0] = replace(runs[0], skipped=skipped)
        else:
            missed = new_run(spec, dropped[-1], Cause.SCHEDULE, now)
            runs.append(step(missed, RunEvent.MISSED, skipped=skipped, ended=now, not_before=None))
    return tuple(runs)
