"""A clock that a test moves by hand."""

from datetime import UTC, datetime

from rota.kit.time.instant import Instant


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> Instant:
        return Instant(self.time)

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)
