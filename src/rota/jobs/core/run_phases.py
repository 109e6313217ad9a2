"""The phases of a run: `TABLE` says what may happen to it in each, and only `step` sets one.

A run's phase is its `state`, which is stored; `RunState` is with the record in `jobs.core.records`. A run that is over
has no events: an outcome that comes in later is kept as evidence (`outcome.add_late`) and changes no state. A step that
the table does not have is a bug, and raises IllegalTransition before anything is written.
"""

from enum import StrEnum

from msgspec.structs import replace

from rota.jobs.core.records import OVER, RunRecord, RunState
from rota.kit.transitions import Transitions


class RunEvent(StrEnum):
    """What happens to a run."""

    BOUND = "bound"
    """It is bound to a node."""

    TAKEN = "taken"
    """Its node found it in the store, without a message."""

    LASTED = "lasted"
    """Its attempt has been at work for a while."""

    GIVEN_BACK = "given back"
    """Its node certainly did not begin the attempt."""

    RETRIED = "retried"
    """The attempt ended, and another one follows."""

    STOP_ASKED = "stop asked"
    """A caller wants it interrupted; a bound run continues until its node has stopped it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """The attempt ended this way, and no other follows."""

    MISSED = "missed"
    """It will never run: no node was running when it was due."""


_ENDS = {
    RunEvent.SUCCEEDED: RunState.SUCCEEDED,
    RunEvent.FAILED: RunState.FAILED,
    RunEvent.TIMED_OUT: RunState.TIMED_OUT,
    RunEvent.INTERRUPTED: RunState.INTERRUPTED,
    RunEvent.LOST: RunState.LOST,
}
ENDINGS = {state: event for event, state in _ENDS.items()}
"""The state of an attempt's outcome → what happens to the run, if no other attempt follows."""

TABLE = Transitions(
    {
        RunState.PENDING: {
            RunEvent.BOUND: RunState.DISPATCHED,
            RunEvent.STOP_ASKED: RunState.INTERRUPTED,
            RunEvent.MISSED: RunState.MISSED,
        },
        RunState.DISPATCHED: {
            RunEvent.TAKEN: RunState.ACCEPTED,
            RunEvent.LASTED: RunState.RUNNING,
            RunEvent.GIVEN_BACK: RunState.PENDING,
            RunEvent.RETRIED: RunState.PENDING,
            RunEvent.STOP_ASKED: RunState.DISPATCHED,
            **_ENDS,
        },
        RunState.ACCEPTED: {
            RunEvent.LASTED: RunState.RUNNING,
            RunEvent.GIVEN_BACK: RunState.PENDING,
            RunEvent.RETRIED: RunState.PENDING,
            RunEvent.STOP_ASKED: RunState.ACCEPTED,
            **_ENDS,
        },
        RunState.RUNNING: {
            RunEvent.RETRIED: RunState.PENDING,
            RunEvent.STOP_ASKED: RunState.RUNNING,
            **_ENDS,
        },
        **{state: {} for state in RunState if state in OVER},
    },
    first=(RunState.PENDING,),
    final=[state for state in RunState if state in OVER],
)


def may(run: RunRecord, event: RunEvent) -> bool:
    """Is this event allowed in the run's state?"""
    return TABLE.allows(run.state, event)


def step(run: RunRecord, event: RunEvent, **changes: object) -> RunRecord:
    """The run after `event`, with these other fields changed."""
    return replace(run, state=TABLE.after(run.state, event), **changes)
