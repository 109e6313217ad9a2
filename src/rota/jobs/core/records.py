"""Jobs and runs as the store has them.

A job says what to do and when. A run is one due time of it, or one request of a caller; an attempt is one try of a run,
on one node, under an epoch: the revision of the commit that bound it there. A later binding has a greater epoch,
independent of clocks, and a run's token is the epoch of its attempt.

A run lives under one key while it is not over, and moves to another, in one commit, when it is: so the history may grow
to any length, and code that handles living runs never reads it.

Runs and cursors are structs with their version as the tag, not dataclasses: there may be thousands of them a second,
and they are written and read without a step between.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId, Revision, SessionId
from rota.model.spec.option import Said

_STAMP = "%Y%m%dT%H%M%S.%fZ"


class Origin(StrEnum):
    """Where a job comes from."""

    APP = "app"
    """An app declares it; it goes when no node's app does any more."""

    FILE = "file"
    """`rota.toml` declares it."""

    API = "api"
    """A caller of the API added it; it stays until a caller deletes it."""


class OnLost(StrEnum):
    """What becomes of a run whose node was lost."""

    RETRY = "retry"
    """It is retried without using up a retry the first time, and then as often as `retries` allows."""

    FAIL = "fail"
    """It ends as lost: how far it came is unknown, and running it twice is worse than not finishing it."""


class Mode(StrEnum):
    """What an attempt runs in."""

    WARM = "warm"
    """An executor that lives on between attempts."""

    PROCESS = "process"
    """A process of its own."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A job as an app, a file or a caller declares it, and as the store keeps it: some work, and when it is due.

    It has a cron expression, a period, or jobs it comes after; with none of these it is started by hand. Its work is a
    function of an app, or a program.
    """

    name: str
    """Its name; a job and a command cannot have the same."""

    cron: Annotated[str | None, Said(word="EXPRESSION")] = None
    """When it is due: a cron expression of five fields, six with the seconds first, or `@daily` and its like."""

    every: Annotated[timedelta | None, Said(least=timedelta(seconds=1))] = None
    """How often it is due, 1s or more; counted in whole periods since 1970."""

    tz: Annotated[str, Said(word="ZONE")] = "UTC"
    """Time zone of `cron`, such as Asia/Shanghai."""

    after: Annotated[tuple[str, ...], Said(word="JOB")] = ()
    """Jobs it comes after: it is due when all of them have succeeded."""

    misfire: Annotated[str, Said(word="POLICY")] = "once"
    """Due times that no node was there for: `skip` them, run `once` for all of them, `all`, or at most `all(5)`."""

    jitter: Annotated[timedelta, Said(least=timedelta())] = timedelta()
    """Each run is delayed by a random time up to this."""

    timeout: timedelta | None = None
    """An attempt that takes longer is killed."""

    retries: Annotated[int, Said(least=0)] = 0
    """Further attempts of a run that failed."""

    on_lost: OnLost = OnLost.RETRY
    """A run whose node was lost: `retry` starts it again, the first time without using up a retry; `fail` does not."""

    concurrency: int | None = 1
    """Runs of it at a time in the whole fleet; an app can say None: no limit."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What a node must be labelled with to run it."""

    mode: Annotated[Mode, Said(option="process")] = Mode.WARM
    """Where a function runs: in a warm executor or in a process of its own."""

    argv: tuple[str, ...] = ()
    """The program and its arguments; empty for a function of an app."""

    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables for the program, beside those of the node."""

    cwd: Annotated[str | None, Said(word="FOLDER")] = None
    """The folder the program runs in; if left out, the node's."""

    @property
    def is_command(self) -> bool:
        """Is its work a program?"""
        return bool(self.argv)

    @property
    def is_timed(self) -> bool:
        """Does the clock say when it is due?"""
        return self.cron is not None or self.every is not None


@stored()
class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the fleet."""

    spec: JobSpec
    origin: Origin
    since: datetime
    """From when on its due times count, by the store's clock: its creation, or when it was last enabled or given
    another schedule."""

    by: str = ""
    """Who wrote it last: a node for apps and files."""

    at: datetime
    """When it was last written."""

    enabled: bool = True
    app: str = ""
    """Whose function it is, or who declares the command; empty for jobs of the API."""


@stored()
class JobCursor(msgspec.Struct, frozen=True, kw_only=True, tag_field="v", tag=1):
    """Up to where a job is decided.

    A decision that may be made only once, or that a limit on concurrency bounds, writes this record in the same commit
    and expects it unchanged. So a due time becomes a run once, and the limit holds, however many nodes decide at the
    same time.
    """

    upto: datetime | None = None
    """Every due time up to this one has become a run or was recorded as missed; None: none was yet."""

    used: dict[str, Revision] = msgspec.field(default_factory=dict)
    """For a job that comes after others: the success of each that its last run followed."""


@stored()
class JobSuccess(msgspec.Struct, frozen=True, kw_only=True):
    """The newest success of a job that others come after. The revision of this record names it."""

    run: str
    at: datetime


class RunState(StrEnum):
    """Where a run is."""

    PENDING = "pending"
    """It waits for its time, for its turn, or for a node."""

    DISPATCHED = "dispatched"
    """It is bound to a node, which may have begun."""

    ACCEPTED = "accepted"
    """Its node found it in the store, and has written so before it begins."""

    RUNNING = "running"
    """It has been running for a while."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """Its node was lost, and it is not tried again."""

    MISSED = "missed"
    """It never ran: no node was running when it was due, and its job says skip."""


BOUND = frozenset({RunState.DISPATCHED, RunState.ACCEPTED, RunState.RUNNING})
OVER = frozenset(set(RunState) - BOUND - {RunState.PENDING})


class Cause(StrEnum):
    """Why there is a run."""

    SCHEDULE = "schedule"
    AFTER = "after"
    MANUAL = "manual"
    RESTART = "restart"
    BACKFILL = "backfill"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt ended."""

    state: RunState
    """Succeeded, failed, timed out, interrupted or lost."""

    started: datetime | None = None
    """When its work began, by the node's clock; None if it did not."""

    seconds: float = 0.0
    """How long it took."""

    exit_code: int | None = None
    """Of a program or process; negative: the signal that ended it."""

    error: str = ""
    """Why it failed; empty if it did not."""

    cpu_seconds: float = 0.0
    """Processor time that it used, in seconds."""

    peak_memory: int = 0
    """In bytes."""

    log_bytes: int = 0
    """Bytes of output that it wrote."""


class Try(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that is over, in short."""

    attempt: int
    """The number of the attempt, from 1."""

    epoch: int
    """The epoch of the attempt, which fences what it writes."""

    node: NodeId
    """The node that ran it."""

    outcome: Outcome
    """How it ended."""

    ended: datetime
    """When it ended."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Due times that one record stands for."""

    first: datetime
    """The first of the due times."""

    last: datetime
    """The last of them."""

    count: int
    """How many there are."""


@stored()
class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="v", tag=1):
    """One run, living or over."""

    id: str
    """`job/moment`, or `job/moment-more` if it is not that of a due time; ids of a job sort by their due times."""

    job: str
    """The name of the job."""

    due: datetime
    """When it was due, or when it was asked for."""

    cause: Cause
    """Why there is this run."""

    created: datetime
    """When it was made."""

    state: RunState = RunState.PENDING
    """Where it is."""

    attempt: int = 1
    """The attempt that runs, or the next one."""

    retries_left: int = 0
    lost_left: int = 0
    """How many more times it may be lost and retried without using up a retry; negative: a loss is its end."""

    not_before: datetime | None = None
    """It waits until then, because of jitter or the back-off of a retry."""

    node: NodeId | None = None
    session: SessionId | None = None
    """The session of the node that it is bound to; ownership ends with that session."""

    epoch: int = 0
    """The epoch of its attempt; 0: this very commit bound it, and its revision is the epoch."""

    dispatched: datetime | None = None
    ended: datetime | None = None
    """When it ended; null while it has not."""

    outcome: Outcome | None = None
    """Of the last attempt."""

    earlier: tuple[Try, ...] = ()
    """Attempts before that."""

    late: tuple[Try, ...] = ()
    """Outcomes that came in after their attempts were given up; they changed nothing."""

    skipped: Skipped | None = None
    """Due times before it that did not become runs of their own."""

    of: str = ""
    """The run that this one repeats."""

    payload: Any = None
    """What the caller gave it, as JSON."""

    by: str = ""
    """Who started it by hand."""

    stop: str = ""
    """Why it is to be interrupted, if a caller asked for that."""

    why: str = ""
    """Why it is still pending, if that is known."""

    @property
    def is_bound(self) -> bool:
        """Does it belong to a node?"""
        return self.state in BOUND

    @property
    def is_over(self) -> bool:
        """Has it come to its end?"""
        return self.state in OVER

    def epoch_at(self, modified: Revision) -> Revision:
        """The epoch of its attempt, if this record was written at `modified`."""
        return Revision(self.epoch or modified)


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that a node should run, under its epoch."""

    run: str
    attempt: int
    epoch: int
    """The epoch of the attempt, which is also the run's token."""

    session: SessionId | None = None
    """The session of the node that it is bound to; another session of the node must not begin it."""

    job: str
    due: datetime | None = None
    """None if it was started by hand."""

    payload: bytes = b""
    timeout: timedelta | None = None
    mode: Mode = Mode.WARM
    argv: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str | None = None
    origin: Origin | None = None
    """Where the job comes from; None if the sending node is of an older Rota."""


def order_for(run: RunRecord, job: JobSpec, epoch: Revision, origin: Origin | None = None) -> RunOrder:
    """The order to send to the node that a run is bound to."""
    return RunOrder(
        run=run.id,
        attempt=run.attempt,
        epoch=epoch,
        session=run.session,
        job=run.job,
        due=run.due if run.cause in (Cause.SCHEDULE, Cause.BACKFILL) else None,
        payload=msgspec.json.encode(run.payload) if run.payload is not None else b"",
        timeout=job.timeout,
        mode=Mode.PROCESS if job.is_command else job.mode,
        argv=job.argv,
        env=job.env,
        cwd=job.cwd,
        origin=origin,
    )


def run_id(job: str, due: datetime, more: str = "") -> str:
    """The id of a run; without `more`, that of the due time itself, of which there is one."""
    stamp = due.astimezone(UTC).strftime(_STAMP)[:-4] + "Z"  # to the millisecond
    return f"{job}/{stamp}-{more}" if more else f"{job}/{stamp}"


def time_of(run: str) -> datetime | None:
    """The due time at the end of a run's id or key; None if it is no run's."""
    stamp = run.rpartition("/")[2].partition("-")[0]
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def job_of(run: str) -> str:
    """The job that a run's id begins with."""
    return run.partition("/")[0]
