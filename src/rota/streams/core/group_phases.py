"""The phases of a stream's group: `TABLE` says what may happen to it in each, and only `step` and `enter` set one.

A group's phase is stored; `Phase` is with the record in `streams.core.records`. The group ends when its record is
deleted, the phase None here: `leave` checks that it may be. What the table does not have is a mistake in the program:
it raises IllegalTransition before anything is written, and the stream's loop begins anew while other streams go on.
"""

from datetime import datetime
from enum import StrEnum

from rota.kit.record import replace
from rota.kit.transitions import Transitions
from rota.streams.core.records import Group, Phase


class GroupEvent(StrEnum):
    """What happens to a group."""

    BEGUN = "begun"
    """It is known where it starts."""

    END_WANTED = "end wanted"
    """Its sequence is to end, for a checkpoint or for good."""

    CHECKPOINT_AGREED = "checkpoint agreed"
    END_AGREED = "end agreed"
    PUBLISHED = "published"
    UNWANTED = "unwanted"
    """There is nothing for it to read, or it should be another one."""

    GIVEN_UP = "given up"
    """It can never publish, or did not in time."""


TABLE = Transitions[Phase | None, GroupEvent](
    {
        Phase.STANDBY: {
            GroupEvent.BEGUN: Phase.READING,
            GroupEvent.UNWANTED: None,
            GroupEvent.GIVEN_UP: None,
        },
        Phase.READING: {GroupEvent.END_WANTED: Phase.PAUSING, GroupEvent.GIVEN_UP: None},
        Phase.PAUSING: {
            GroupEvent.CHECKPOINT_AGREED: Phase.READING,
            GroupEvent.END_AGREED: Phase.PUBLISHING,
            GroupEvent.GIVEN_UP: None,
        },
        Phase.PUBLISHING: {GroupEvent.PUBLISHED: None, GroupEvent.GIVEN_UP: None},
        None: {},
    },
    first=(Phase.STANDBY, Phase.READING),
    final=(None,),
)


def enter(group: Group) -> Group:
    """A new group in its first phase: it reads if it is known where it starts, else it stands by."""
    return replace(group, phase=Phase.READING if group.starts else Phase.STANDBY)


def step(group: Group, event: GroupEvent, now: datetime, **changes: object) -> Group:
    """The group after `event`, with these other fields changed."""
    return replace(group, phase=TABLE.after(group.phase, event), since=now, **changes)


def leave(group: Group, event: GroupEvent) -> str:
    """The id of a group whose record goes because of `event`."""
    assert TABLE.after(group.phase, event) is None
    return group.id
