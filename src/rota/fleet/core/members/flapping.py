"""Flapping: how long a node that left and came back is given no tasks for the sake of balance.

The first return within `FORGET` costs `FIRST`, each further one twice as long. A node that falls again and again would
otherwise get tasks each time, and each time they would have to be started elsewhere. Pure: the leader remembers, by its
own clock.
"""

from datetime import timedelta

import msgspec

from rota.kit.time.instant import Instant

FIRST = timedelta(seconds=15)
LONGEST = timedelta(minutes=10)

FORGET = timedelta(minutes=20)
"""After this long without another return, earlier ones no longer count."""


class Returns(msgspec.Struct, frozen=True):
    """How often a node came back lately, and when it last did."""

    count: int
    at: Instant

    @property
    def rests_until(self) -> Instant:
        """Until when it is given nothing for the sake of balance."""
        return Instant(self.at + min(LONGEST, FIRST * (1 << min(self.count, 16) - 1)).total_seconds())


def returned(before: Returns | None, now: Instant) -> Returns:
    """The node's record, now that it came back once more."""
    is_recent = before is not None and now - before.at < FORGET.total_seconds()
    return Returns(before.count + 1 if before is not None and is_recent else 1, now)
