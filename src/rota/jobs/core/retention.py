"""Retention of runs: which of a job's old runs go.

Deleting a run never makes its due time due again: the cursor decides that, and it stays.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.jobs.core.records import time_of
from rota.model import keys
from rota.model.ids import Key


def doomed(newest: Sequence[Key], now: datetime, *, most: int, keep: timedelta) -> list[Key]:
    """The runs of a job to delete, of `newest`, newest first: those beyond the limit, and those due too long ago."""
    return [key for place, key in enumerate(newest) if place >= most or _is_past(key, now - keep)]


def _is_past(key: Key, horizon: datetime) -> bool:
    at = time_of(keys.run_of(key))
    return at is not None and at < horizon
