"""Why: what holds back a run, or the runs of a job.

The reasons come from the decisions that hold them back: `dispatch` says why a run has no node, `due` how many runs may
wait, `follow_up` which jobs have to succeed first. So they hold for the moment of the question, and for what was read
then. Pure: nothing here reads the store.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from rota.jobs.core.dispatch import SET_BACK, UNKNOWN_JOB, is_ready
from rota.jobs.core.due import BACKLOG, LATE, decided, lacking, next_due
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSuccess, RunRecord
from rota.model.ids import Revision

NOTHING = "nothing holds it back: it gets a node when one of the nodes next looks"


class HoldReason(msgspec.Struct, frozen=True):
    """The reasons that hold something back."""

    says: str
    """The answer in a sentence."""

    reasons: tuple[str, ...] = ()
    """Each thing that holds it back, or that it waits for."""


def why_run(run: RunRecord, job: JobRecord | None, now: datetime, waiting: str | None, ahead: int = 0) -> HoldReason:
    """Why a run is as it is; `waiting` is what `dispatch` says of it, `ahead` counts runs of its job due before it."""
    if run.is_over:
        error = run.outcome.error if run.outcome else ""
        return HoldReason(f"it is over: {run.state}", (f"its error: {error}",) if error else ())
    stop = (f"it is to be interrupted: {run.stop}",) if run.stop else ()
    if run.is_bound:
        return HoldReason(f"it is {run.state} on {run.node}, attempt {run.attempt}", stop)
    reasons = [*stop]
    if not is_ready(run, now) and run.not_before is not None:
        reasons.append(f"{_delay(run)} until {_shown(run.not_before)}")
    elif waiting is not None or job is None:
        reasons.append(waiting or UNKNOWN_JOB)
    if reasons and ahead:
        reasons.append(f"{ahead} runs of its job were due before it")
    if now < run.created - SET_BACK:
        reasons.append("the store's clock was set back since it was made")
    return HoldReason("it waits" if reasons else NOTHING, tuple(reasons))


def _delay(run: RunRecord) -> str:
    if run.attempt > 1:
        error = run.earlier[-1].outcome.error if run.earlier else ""
        return f"attempt {run.attempt} is held back after {error or 'the one before'}"
    return "its jitter holds it back" if run.cause is Cause.SCHEDULE else "it is held back"


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job and of its runs, as far as it was read."""

    record: JobRecord
    created: Revision
    cursor: JobCursor | None
    successes: Mapping[str, tuple[Revision, JobSuccess]]
    bound: int
    pending: int
    backlog: int
    """Pending runs of its schedule that only wait for a node."""

    refused: str
    """Why `dispatch` would give one more run no node; empty if it would."""


def why_job(seen: JobSeen, now: datetime) -> HoldReason:
    """Why a job has the runs that it has, and when there will be more."""
    record, spec = seen.record, seen.record.spec
    reasons = []
    if not record.enabled:
        reasons.append(f"it is disabled, so only runs by hand are made; enable it with: rota jobs enable {spec.name}")
    elif missing := lacking(record, seen.created, seen.cursor, seen.successes):
        reasons.append(f"it comes after {', '.join(missing)}, which has to succeed first")
    elif not spec.is_timed and not spec.after:
        reasons.append("it has no schedule, so only runs by hand are made")
    if record.enabled and seen.backlog >= BACKLOG:
        reasons.append(
            f"{seen.backlog} runs of its schedule wait for a node, so no more are made; "
            f"due times that pass meanwhile fall under misfire={spec.misfire}"
        )
    upto = decided(record, seen.cursor)
    due = next_due(record, seen.cursor)
    if due is not None and due < now - LATE:
        reasons.append(f"its due times since {_shown(upto)} are not decided yet; late ones fall under {spec.misfire}")
    if seen.refused:
        reasons.append(f"a run of it gets no node now: {seen.refused}")
    next_time = f"; next due {_shown(due)}" if due is not None and due >= now else ""
    return HoldReason(f"{seen.bound} runs have a node, {seen.pending} wait{next_time}", tuple(reasons))


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"
