"""How much of the store's history may go. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from rota.model.history import HistoryNote
from rota.model.ids import Revision

MOST = 100
"""Notes that are kept: they are written anew each time."""


class Clearing(msgspec.Struct, frozen=True):
    """What to do with the history now."""

    before: Revision | None
    """Forget what is older than this revision; None: nothing is old enough."""

    notes: tuple[HistoryNote, ...]
    """What is noted from now on."""


def until_next(notes: Sequence[HistoryNote], now: datetime, every: timedelta, keep: timedelta) -> timedelta:
    """How long to wait before the next check; zero if the last one was long ago."""
    apart = max(every, keep / MOST)
    if not notes or notes[-1].at > now:  # the clock was set back
        return timedelta(0)
    return max(timedelta(0), notes[-1].at + apart - now)


def clearing(notes: Sequence[HistoryNote], newest: Revision, now: datetime, keep: timedelta) -> Clearing:
    """What is old enough to go, and the notes for the next time.

    Notes from the future (a clock was set back) and revisions that the store does not have (it was replaced) are
    ignored.
    """
    true = [note for note in notes if note.at <= now and note.revision <= newest]
    old = [note for note in true if note.at <= now - keep]
    before = old[-1].revision if old else None
    return Clearing(before, (*true[len(old) :], HistoryNote(at=now, revision=newest)))
