"""Duties: which node does a chore that one node is enough for.

Time is cut into beats by the store's clock, and each beat of a duty can be claimed once: the record holds the number of
the beat that was claimed last, and a claim must name a later one. Before it claims, a node waits for as long as it is
busy, so that the idlest comes first.

Nothing may depend on it for safety. The node that claimed a beat may die before the chore is done, or do it long after
the next beat began; so a chore must be harmless when done twice, and one that is missed is made up at the next beat.
`fleet.leading.duties` claims.
"""

from datetime import UTC, datetime, timedelta

from rota.model.peers import DutyHeld

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_POINT = timedelta(milliseconds=10)
LONGEST_WAIT = timedelta(seconds=1)

STUCK = 3
"""Beats without a claim after which the store's clock must have been set back."""


def beat_of(now: datetime, every: timedelta) -> int:
    """The number of the beat that lasts now."""
    return (now - EPOCH) // every


def until(beat: int, now: datetime, every: timedelta) -> timedelta:
    """How long until a beat begins; zero if it has begun."""
    return max(timedelta(), EPOCH + beat * every - now)


def wait(score: float) -> timedelta:
    """How long a node with this load score leaves others the first claim."""
    return min(LONGEST_WAIT, max(0.0, score) * PER_POINT)


def claimed(held: DutyHeld | None, beat: int, unchanged: timedelta, every: timedelta) -> int | None:
    """The beat to claim; None if it has been claimed.

    A store's clock that was set back would leave the duty undone until it has caught up. A record that did not change
    for several beats, by the observer's own clock, is therefore followed by its next number, whatever the time is.
    """
    if held is None or beat > held.beat:
        return beat
    return held.beat + 1 if unchanged >= STUCK * every else None
