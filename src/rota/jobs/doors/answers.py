"""The answers of the operations on jobs. Nothing here reads the store."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.jobs.core.records import Cause, JobRecord, JobSpec, Mode, Origin, Outcome, RunRecord, RunState, Skipped, Try
from rota.jobs.core.spec import FUNCTION, PROGRAM
from rota.kit.time import durations
from rota.model.ids import NodeId, Revision


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job, its version, and how it is doing."""

    name: str
    version: Revision
    """The revision its record was last written at; what a change may expect."""

    origin: Origin
    """Who declares it: an app, a file, or a caller of the API."""

    app: str
    """Whose function it is, or who declares the command; empty for jobs that were added."""

    enabled: bool
    """Is it due by its schedule?"""

    since: datetime
    at: datetime
    by: str
    schedule: str
    """When it is due, in words."""

    spec: dict[str, Any]
    """As it would be asked for."""

    next: datetime | None = None
    """When it is due next; None if the clock does not say, or while it is disabled."""

    live: int = 0
    """Runs of it that are not over."""

    last: "RunView | None" = None
    """The newest run that is over, if it is known."""


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs in the order of the name."""

    jobs: tuple[JobView, ...]
    """The jobs of this page."""

    next: str | None = None
    """The token to go on with; None: there are no more."""

    not_understood: dict[str, str] = msgspec.field(default_factory=dict)
    """Records that a newer Rota wrote, by name, with what is wrong."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

    id: str
    job: str
    state: RunState
    due: datetime
    cause: Cause
    created: datetime
    attempt: int
    node: NodeId | None
    """The node that runs it, or ran it last; null if none has."""

    started: datetime | None
    ended: datetime | None
    seconds: float | None
    exit_code: int | None
    error: str
    cpu_seconds: float | None
    peak_memory: int | None
    log_bytes: int | None
    not_before: datetime | None
    why: str
    """Why it waits, if it does and that is known."""

    stop: str
    """Why it is to be interrupted, if a caller asked for that."""

    of: str
    """The run that this one repeats."""

    by: str
    payload: Any = None
    earlier: tuple[Try, ...] = ()
    late: tuple[Try, ...] = ()
    skipped: Skipped | None = None

    @property
    def is_over(self) -> bool:
        """Has it come to its end?"""
        return self.ended is not None


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs: those that live first, then the newest."""

    runs: tuple[RunView, ...]
    """The runs of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""

    looked_at: int = 0
    """How many runs were read for this page; more than there are on it if only some runs were asked for."""


class DueTime(msgspec.Struct, frozen=True, kw_only=True):
    """A due time to come."""

    due: datetime
    """The due time, in UTC."""

    local: datetime
    """The same in the job's time zone."""

    odd: str = ""
    """What is odd about it, if anything: clocks change there."""


class DueTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When a job is due next."""

    due: tuple[DueTime, ...]
    """The due times, the next one first."""


class RunIds(msgspec.Struct, frozen=True, kw_only=True):
    """Runs by their ids."""

    runs: tuple[str, ...]
    """The ids, in the order of the due times."""


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an attempt's output."""

    run: str
    attempt: int
    offset: int
    data: bytes
    next: int
    """Where to go on."""

    is_whole: bool
    """Does the log end here?"""


def spec_of(job: JobSpec) -> dict[str, Any]:
    """A job's fields as a caller would write them, without defaults."""
    always = ("concurrency", "tz") if job.cron else ("concurrency",)
    said = ((option, getattr(job, option.field)) for option in (PROGRAM if job.is_command else FUNCTION))
    return {
        option.name: _shown(value)
        for option, value in said
        if not option.is_required and (value != option.default or option.name in always)
    }


def schedule_of(job: JobSpec) -> str:
    """When a job is due, in words."""
    if job.cron is not None:
        return f"{job.cron} {job.tz}"
    if job.every is not None:
        return f"every {_shown(job.every)}"
    return f"after {', '.join(job.after)}" if job.after else "by hand"


def job_view(
    record: JobRecord, version: Revision, *, due: datetime | None = None, live: int = 0, last: RunView | None = None
) -> JobView:
    """The view of a job."""
    return JobView(
        name=record.spec.name,
        version=version,
        origin=record.origin,
        app=record.app,
        enabled=record.enabled,
        since=record.since,
        at=record.at,
        by=record.by,
        schedule=schedule_of(record.spec),
        spec=spec_of(record.spec),
        next=due,
        live=live,
        last=last,
    )


def run_view(run: RunRecord) -> RunView:
    """The view of a run."""
    outcome = run.outcome if run.is_over else None
    return RunView(
        id=run.id,
        job=run.job,
        state=run.state,
        due=run.due,
        cause=run.cause,
        created=run.created,
        attempt=run.attempt,
        node=run.node,
        started=outcome.started if outcome else run.dispatched,
        ended=run.ended,
        seconds=outcome.seconds if outcome else None,
        exit_code=outcome.exit_code if outcome else None,
        error=_error(run, outcome),
        cpu_seconds=outcome.cpu_seconds if outcome else None,
        peak_memory=outcome.peak_memory if outcome else None,
        log_bytes=outcome.log_bytes if outcome else None,
        not_before=run.not_before if not run.is_over else None,
        why=run.why,
        stop=run.stop,
        of=run.of,
        by=run.by,
        payload=run.payload,
        earlier=run.earlier,
        late=run.late,
        skipped=run.skipped,
    )


def _error(run: RunRecord, outcome: Outcome | None) -> str:
    """The error of the last attempt."""
    if outcome is not None:
        return outcome.error
    return run.earlier[-1].outcome.error if run.earlier else ""


def _shown(value: Any) -> Any:
    """A value of a spec as a caller would write it in JSON."""
    if isinstance(value, Mode):
        return value is Mode.PROCESS
    if isinstance(value, timedelta):
        return durations.render(value)
    return list(value) if isinstance(value, tuple) else value
