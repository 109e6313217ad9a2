"""What the operations on jobs answer, and how they read a job that is asked for.

Fields come as they are in JSON or on a command line, about whose types nothing is known; they are checked as a
declaration in an app is, so that every door refuses the same with the same sentence. Nothing here asks the store.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.kit import durations
from rota.model.errors import Invalid
from rota.model.ids import NodeId, Revision
from rota.model.job import Cause, JobRecord, Mode, OnLost, Origin, Outcome, RunRecord, RunState, Skipped, Try, WantedJob
from rota.workloads.checks import Check, did_you_mean
from rota.workloads.jobs.spec import CommandSpec, JobSpec
from rota.workloads.jobs.wanted import wanted

OPTIONS = (
    *("cron", "every", "tz", "after", "misfire", "jitter", "timeout", "retries", "on_lost", "concurrency", "labels"),
    *("process", "argv", "env", "cwd"),
)
"""What may be said of a job; what is left out is as in an app."""


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
    """Why it is to be interrupted, if somebody asked for that."""

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


def read_job(fields: Mapping[str, object]) -> WantedJob:
    """The job that these fields ask for; a field that is None counts as left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    name = given.pop("name", None)
    if name is None:
        raise Invalid("a job needs a name; name is missing")
    check = Check("job", Check("job", name).name(name))
    for option in given:
        if option not in OPTIONS:
            guess = did_you_mean(option, OPTIONS) or f"; there are {', '.join(OPTIONS)}"
            check.fail(f'there is no field "{option}"{guess}', code="unknown_field")
    if "argv" not in given:
        if extra := next((option for option in ("env", "cwd") if option in given), None):
            check.fail(f"{extra} is for a command; give argv too")
        return wanted(JobSpec.parse(name=name, is_async=False, **given))
    return wanted(CommandSpec.parse(name=name, **given))


def spec_of(job: WantedJob) -> dict[str, Any]:
    """A job as somebody would ask for it, without what is as always."""
    said: dict[str, Any] = {
        "cron": job.cron,
        "every": _shown(job.every),
        "tz": job.tz if job.cron else None,
        "after": list(job.after) or None,
        "misfire": job.misfire if job.is_timed and job.misfire != "once" else None,
        "jitter": _shown(job.jitter) if job.jitter else None,
        "timeout": _shown(job.timeout),
        "retries": job.retries or None,
        "on_lost": job.on_lost if job.on_lost is not OnLost.RETRY else None,
        "concurrency": job.concurrency,
        "labels": job.labels or None,
        "process": True if job.mode is Mode.PROCESS and not job.is_command else None,
        "argv": list(job.argv) or None,
        "env": job.env or None,
        "cwd": job.cwd,
    }
    return {name: value for name, value in said.items() if value is not None or name == "concurrency"}


def schedule_of(job: WantedJob) -> str:
    """When a job is due, in words."""
    if job.cron is not None:
        return f"{job.cron} {job.tz}"
    if job.every is not None:
        return f"every {_shown(job.every)}"
    return f"after {', '.join(job.after)}" if job.after else "by hand"


def job_view(
    record: JobRecord, version: Revision, *, due: datetime | None = None, live: int = 0, last: RunView | None = None
) -> JobView:
    """A job as it is shown."""
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
    """A run as it is shown."""
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
    """What went wrong last."""
    if outcome is not None:
        return outcome.error
    return run.earlier[-1].outcome.error if run.earlier else ""


def _shown(duration: timedelta | None) -> str | None:
    return None if duration is None else durations.render(duration)
