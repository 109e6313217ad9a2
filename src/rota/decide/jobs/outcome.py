"""Outcome: what becomes of a run, step by step.

`TABLE` says which steps a state allows; each function below is one of them and returns the run as it is afterwards.
Whoever writes that expects the run's record as it was read, so of two that take a step at the same time one finds that
the other was there first.

A run that failed, timed out or was lost goes back to pending with the next attempt, as long as its job allows: a lost
one once for nothing, because it was not its fault. One that was interrupted is not tried again. What comes in after an
attempt was given up is kept as evidence (`late`) and changes nothing.

Pure. `control.jobs` writes what comes out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from rota.model.ids import NodeId, Revision, SessionId
from rota.model.job import OVER, Outcome, RunRecord, RunState, Try

FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(minutes=5)
"""Shortest and longest wait before the next attempt; it doubles from one to the other."""

LONGEST = 1000
"""Characters of an error that are kept."""

KEPT = 20
"""Earlier and late attempts that are kept with a run, the newest."""

_ENDS = frozenset({RunState.PENDING, *OVER - {RunState.MISSED}})
TABLE: Mapping[RunState, Mapping[str, frozenset[RunState]]] = {
    RunState.PENDING: {
        "bind": frozenset({RunState.DISPATCHED}),
        "interrupt": frozenset({RunState.INTERRUPTED}),
    },
    RunState.DISPATCHED: {
        "accept": frozenset({RunState.ACCEPTED}),
        "begin": frozenset({RunState.RUNNING}),
        "end": _ENDS,
        "release": frozenset({RunState.PENDING, RunState.INTERRUPTED}),
        "interrupt": frozenset({RunState.DISPATCHED}),
    },
    RunState.ACCEPTED: {
        "begin": frozenset({RunState.RUNNING}),
        "end": _ENDS,
        "release": frozenset({RunState.PENDING, RunState.INTERRUPTED}),
        "interrupt": frozenset({RunState.ACCEPTED}),
    },
    RunState.RUNNING: {"end": _ENDS, "interrupt": frozenset({RunState.RUNNING})},
    **{state: {} for state in OVER},
}
"""State → step → the states it may lead to. What is over has no steps: a late word does not change a state."""

RETRIED = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.LOST})


def may(run: RunRecord, step: str) -> bool:
    """Does the run's state allow this step?"""
    return step in TABLE[run.state]


def bind(run: RunRecord, node: NodeId, session: SessionId, now: datetime) -> RunRecord:
    """The run, bound to a node; the revision of the commit that writes this is its attempt's epoch."""
    return replace(
        run, state=RunState.DISPATCHED, node=node, session=session, epoch=0, dispatched=now, not_before=None, why=""
    )


def accept(run: RunRecord, epoch: Revision) -> RunRecord:
    """The run, taken by its node without having been told of it."""
    return replace(run, state=RunState.ACCEPTED, epoch=epoch)


def begin(run: RunRecord, epoch: Revision, started: datetime) -> RunRecord:
    """The run, at work for a while."""
    return replace(run, state=RunState.RUNNING, epoch=epoch, outcome=Outcome(state=RunState.RUNNING, started=started))


def release(run: RunRecord, now: datetime, why: str) -> RunRecord:
    """The run, back from a node that certainly did not begin it; the attempt does not count."""
    if run.stop:
        return _over(run, Outcome(state=RunState.INTERRUPTED, error=run.stop), now)
    return _unbound(run, why=_cut(why))


def end(run: RunRecord, outcome: Outcome, epoch: Revision, now: datetime) -> RunRecord:
    """The run after an attempt: over, or pending with the next one."""
    run = replace(run, epoch=epoch)
    if outcome.state not in RETRIED or run.stop:
        return _over(run, outcome, now)
    is_lost = outcome.state is RunState.LOST
    is_free = is_lost and run.lost_left > 0
    if not is_free and (run.retries_left == 0 or (is_lost and run.lost_left < 0)):
        return _over(run, outcome, now)
    return _unbound(
        run,
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
    """The run when somebody wants it stopped: over if it waits, else to be stopped by its node."""
    if run.state is RunState.PENDING:
        return _over(run, Outcome(state=RunState.INTERRUPTED, error=_cut(why)), now)
    return replace(run, stop=_cut(why))


def add_late(run: RunRecord, late: Try) -> RunRecord:
    """The run with the outcome of an attempt that was given up before it came in; once, however often it comes."""
    if any(each.epoch == late.epoch for each in run.late):
        return run
    return replace(run, late=(*run.late, late)[-KEPT:])


def tried(run: RunRecord, outcome: Outcome, now: datetime) -> Try:
    """The run's attempt and what came of it, in short."""
    assert run.node is not None
    return Try(attempt=run.attempt, epoch=run.epoch, node=run.node, outcome=_short(outcome), ended=now)


def wait_before(attempt: int) -> timedelta:
    """How long to wait after this attempt before the next one."""
    doublings: int = min(attempt - 1, 16)
    return min(FIRST_RETRY * (1 << doublings), LAST_RETRY)


def _over(run: RunRecord, outcome: Outcome, now: datetime) -> RunRecord:
    return replace(run, state=outcome.state, outcome=_short(outcome), ended=now, not_before=None, why="")


def _unbound(run: RunRecord, **changes: object) -> RunRecord:
    return replace(run, state=RunState.PENDING, node=None, session=None, epoch=0, dispatched=None, **changes)


def _short(outcome: Outcome) -> Outcome:
    return outcome if len(outcome.error) <= LONGEST else replace(outcome, error=_cut(outcome.error))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
