"""Episodes: when an event reports that something waits too long, and when that the wait is over.

Each is reported once: open episodes are in the store. At most `MOST` of a kind are open at a time, as a fleet that is
too small may have a hundred thousand resources waiting for the same reason. The longest waits come first.

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
    """The waits to report."""

    begun: tuple[str, ...]
    over: tuple[str, ...]


def step(
    reported: Collection[str], waiting: Mapping[str, OpenWait], after: timedelta, now: datetime, most: int = MOST
) -> EpisodeReport:
    """The waits longer than `after` that are not reported yet, and the reported ones that are over.

    With `after` at zero no new wait is reported, and every reported one is over.
    """
    lasting = {
        name: each for name, each in waiting.items() if after and (name in reported or now - each.since >= after)
    }
    over = tuple(sorted(name for name in reported if name not in lasting))
    new = sorted((name for name in lasting if name not in reported), key=lambda name: (lasting[name].since, name))
    return EpisodeReport(tuple(new[: max(0, most - (len(reported) - len(over)))]), over)
