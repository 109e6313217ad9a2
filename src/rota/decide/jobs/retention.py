"""Retention of runs: which of a job's old runs go.

Deleting a run never makes its due time due again: that is the cursor's business, which stays.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.ids import Key
from rota.model.job import time_of


def doomed(oldest: Sequence[Key], count: int, now: datetime, *, most: int, keep: timedelta) -> list[Key]:
    """Which of a job's oldest runs go, of `count` in all: the surplus, and those whose due time is past keeping."""
    return [key for place, key in enumerate(oldest) if place < count - most or _is_past(key, now - keep)]


def _is_past(key: Key, horizon: datetime) -> bool:
    at = time_of(key)
    return at is not None and at < horizon
