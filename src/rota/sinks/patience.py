"""Patience: how long to wait before the next try; longer each time, until something has worked."""

import random
from collections.abc import Iterator
from datetime import timedelta

from rota.kit.time.backoff import delays

FIRST = timedelta(milliseconds=100)
MOST = timedelta(seconds=2)


class RetryBackoff:
    """The waits of one thing that is tried again and again."""

    def __init__(self) -> None:
        self._waits: Iterator[timedelta] | None = None

    def has_worked(self) -> None:
        """Begin with short waits again."""
        self._waits = None

    def next(self) -> float:
        """The seconds to wait now."""
        if self._waits is None:
            self._waits = delays(FIRST, MOST, random.random)
        return next(self._waits).total_seconds()
