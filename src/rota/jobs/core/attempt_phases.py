"""The phases of an attempt on the node that its run is bound to: `TABLE`, and `OwnedAttempt`, which alone sets one.

An attempt begins at once or waits ahead of the executors. Only one that has not begun can be given back. Its outcome is
known some time before it is written: as its run's outcome, or as a late one if the run is no longer bound to this node.

None of this is stored: it lasts as long as the session of the node. An event after the end changes no phase (`may` says
so); an outcome is kept even then (`jobs.fleet.ends`).
"""

from dataclasses import dataclass
from enum import StrEnum

from rota.jobs.core.records import RunOrder
from rota.kit.transitions import Transitions
from rota.model.ids import Instant


class AttemptPhase(StrEnum):
    """Where an attempt is."""

    AHEAD = "ahead"
    """It waits until an executor is free."""

    BEGUN = "begun"
    STOPPING = "stopping"
    """It was asked to end."""

    ENDED = "ended"
    """Its outcome is known, and is to be written."""

    WRITTEN = "written"
    GIVEN_BACK = "given back"
    """It did not begin here, and the run may go to another node."""


class AttemptEvent(StrEnum):
    """What happens to an attempt."""

    STARTED = "started"
    HELD_UP = "held up"
    """A slow attempt is before it."""

    STOP_ASKED = "stop asked"
    ENDED = "ended"
    WRITTEN = "written"


TABLE = Transitions(
    {
        AttemptPhase.AHEAD: {
            AttemptEvent.STARTED: AttemptPhase.BEGUN,
            AttemptEvent.HELD_UP: AttemptPhase.GIVEN_BACK,
            AttemptEvent.STOP_ASKED: AttemptPhase.GIVEN_BACK,
        },
        AttemptPhase.BEGUN: {
            AttemptEvent.STOP_ASKED: AttemptPhase.STOPPING,
            AttemptEvent.ENDED: AttemptPhase.ENDED,
        },
        AttemptPhase.STOPPING: {AttemptEvent.ENDED: AttemptPhase.ENDED},
        AttemptPhase.ENDED: {AttemptEvent.WRITTEN: AttemptPhase.WRITTEN},
        AttemptPhase.WRITTEN: {},
        AttemptPhase.GIVEN_BACK: {},
    },
    first=(AttemptPhase.AHEAD,),
    final=(AttemptPhase.WRITTEN, AttemptPhase.GIVEN_BACK),
)
AT_WORK = frozenset({AttemptPhase.BEGUN, AttemptPhase.STOPPING})


@dataclass(eq=False)
class OwnedAttempt:
    """An attempt that this node was given."""

    order: RunOrder
    since: Instant
    """When it was taken on; when it began, once it has."""

    phase: AttemptPhase = AttemptPhase.AHEAD

    def may(self, event: AttemptEvent) -> bool:
        """Is this event allowed in its phase?"""
        return TABLE.allows(self.phase, event)

    def step(self, event: AttemptEvent) -> None:
        """Apply this event."""
        self.phase = TABLE.after(self.phase, event)

    def begin(self, now: Instant) -> None:
        """An executor, or a process of its own, has begun it."""
        self.step(AttemptEvent.STARTED)
        self.since = now
