"""Episodes: when people are told that something waits too long, and when that it is over.

Each once: what is open is in the store. At most `MOST` of a sort are open at a time, for a fleet that is too small may
have a hundred thousand resources that wait for the same reason. The longest come first.

Pure: time arrives as an argument.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import msgspec

MOST = 50
"""Episodes of a sort that are open at a time."""


class OpenWait(msgspec.Struct, frozen=True):
    """Something waits now."""

    since: datetime
    why: str


class EpisodeReport(msgspec.Struct, frozen=True):
    """What is to be told."""

    begun: tuple[str, ...]
    over: tuple[str, ...]


def step(
    told: Collection[str], waiting: Mapping[str, OpenWait], after: timedelta, now: datetime, most: int = MOST
) -> EpisodeReport:
    """Which of those that wait have done so for `after` and are not told yet, and which of those told wait no more.

    With `after` at zero nothing is told any more, and what was told is over.
    """
    lasting = {name: each for name, each in waiting.items() if after and (name in told or now - each.since >= after)}
    over = tuple(sorted(name for name in told if name not in lasting))
    new = sorted((name for name in lasting if name not in told), key=lambda name: (lasting[name].since, name))
    return EpisodeReport(tuple(new[: max(0, most - (len(told) - len(over)))]), over)
