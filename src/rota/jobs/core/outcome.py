"""Outcome: the steps of a run, from its binding to its end.

Each function below is a step of `run_phases.TABLE` with what changes beside the state, and returns the run as it is
afterwards; IllegalTransition if its state does not allow that. The writer expects the run's record as it was read, so
of two writers that take a step at the same time one gets a conflict.

A run that failed, timed out or was lost goes back to pending with the next attempt, as long as its job allows; the
first loss uses up no retry, because it was not the run's fault. An interrupted run is not retried. An outcome that
comes in after its attempt was given up is kept as evidence (`late`) and changes nothing.

Pure. `jobs.fleet` writes what comes out.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from rota.jobs.core.records import Outcome, RunRecord, RunState, Try
from rota.jobs.core.run_phases import ENDINGS, RunEvent, step
from rota.model.ids import NodeId, Revision, SessionId

FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(minutes=5)
"""Shortest and longest wait before the next attempt; it doubles from one to the other."""

LONGEST = 1000
"""Characters of an error that are kept."""

KEPT = 20
"""Earlier and late attempts that are kept with a run, the newest."""

RETRIED = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.LOST})


def bind(run: RunRecord, node: NodeId, session: SessionId, now: datetime) -> RunRecord:
    """The run, bound to a node; the revision of the commit that writes this is its attempt's epoch."""
    return step(run, RunEvent.BOUND, node=node, session=session, epoch=0, dispatched=now, not_before=None, why="")


def accept(run: RunRecord, epoch: Revision) -> RunRecord:
    """The run, accepted by its node, which found it in the store and not through a message."""
    return step(run, RunEvent.TAKEN, epoch=epoch)


def begin(run: RunRecord, epoch: Revision, started: datetime) -> RunRecord:
    """The run, after its attempt has been at work for a while."""
    return step(run, RunEvent.LASTED, epoch=epoch, outcome=Outcome(state=RunState.RUNNING, started=started))


def release(run: RunRecord, now: datetime, why: str) -> RunRecord:
    """The run, given back by a node that certainly did not begin it; the attempt does not count."""
    if run.stop:
        return _over(run, RunEvent.INTERRUPTED, Outcome(state=RunState.INTERRUPTED, error=run.stop), now)
    return _unbound(run, RunEvent.GIVEN_BACK, why=_cut(why))


def end(run: RunRecord, outcome: Outcome, epoch: Revision, now: datetime) -> RunRecord:
    """The run after an attempt: over, or pending with the next one."""
    run, ending = replace(run, epoch=epoch), ENDINGS[outcome.state]
    if outcome.state not in RETRIED or run.stop:
        return _over(run, ending, outcome, now)
    is_lost = outcome.state is RunState.LOST
    is_free = is_lost and run.lost_left > 0
    if not is_free and (run.retries_left == 0 or (is_lost and run.lost_left < 0)):
        return _over(run, ending, outcome, now)
    return _unbound(
        run,
        RunEvent.RETRIED,
        attempt=run.attempt + 1,
        retries_left=run.retries_left - (0 if is_free else 1),
        lost_left=run.lost_left - (1 if is_free else 0),
        not_before=None if is_free else now + wait_before(run.attempt),
        earlier=(*run.earlier, tried(run, outcome, now))[-KEPT:],
        outcome=None,
    )


def lose(run: RunRecord, epoch: Revision, now: datetime) -> RunRecord:
    """The run after its node was lost."""
    started = run.outcome.started if run.outcome else None
    lost = Outcome(state=RunState.LOST, started=started, error=f"node {run.node} was lost")
    return end(run, lost, epoch, now)


def interrupt(run: RunRecord, why: str, now: datetime) -> RunRecord:
    """The run after a request to stop it: over if it was waiting, otherwise to be stopped by its node."""
    if not run.is_bound:
        return _over(run, RunEvent.STOP_ASKED, Outcome(state=RunState.INTERRUPTED, error=_cut(why)), now)
    return step(run, RunEvent.STOP_ASKED, stop=_cut(why))


def add_late(run: RunRecord, late: Try) -> RunRecord:
    """The run with the late outcome of an attempt that was given up; recorded once, however often it arrives."""
    if any(each.epoch == late.epoch for each in run.late):
        return run
    return replace(run, late=(*run.late, late)[-KEPT:])


def tried(run: RunRecord, outcome: Outcome, now: datetime) -> Try:
    """The run's attempt and its outcome, in short."""
    assert run.node is not None
    return Try(attempt=run.attempt, epoch=run.epoch, node=run.node, outcome=_short(outcome), ended=now)


def wait_before(attempt: int) -> timedelta:
    """How long to wait after this attempt before the next one."""
    doublings: int = min(attempt - 1, 16)
    return min(FIRST_RETRY * (1 << doublings), LAST_RETRY)


def _over(run: RunRecord, event: RunEvent, outcome: Outcome, now: datetime) -> RunRecord:
    return step(run, event, outcome=_short(outcome), ended=now, not_before=None, why="")


def _unbound(run: RunRecord, event: RunEvent, **changes: object) -> RunRecord:
    return step(run, event, node=None, session=None, epoch=0, dispatched=None, **changes)


def _short(outcome: Outcome) -> Outcome:
    return outcome if len(outcome.error) <= LONGEST else replace(outcome, error=_cut(outcome.error))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
