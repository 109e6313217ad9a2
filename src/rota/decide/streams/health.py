"""How a stream is: healthy, unhealthy, idle. Pure.

One failure says little, and neither does one success: only several in a row change what is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from rota.model.stream import StreamState, StreamWishes

THRESHOLD = 3
"""Failures in a row that make a stream unhealthy, and successes in a row that make it healthy again."""


@dataclass(frozen=True)
class Streak:
    """Successes and failures of one sort, as far as they count."""

    failures: int = 0
    successes: int = 0
    is_bad: bool = False

    def add(self, *, is_good: bool) -> "Streak":
        """After one more."""
        failures, successes = (0, self.successes + 1) if is_good else (self.failures + 1, 0)
        is_bad = successes < THRESHOLD if self.is_bad else failures >= THRESHOLD
        return Streak(failures, successes, is_bad)


@dataclass(frozen=True, kw_only=True)
class Health:
    """What a leader has seen of a stream."""

    looks: Streak = Streak()
    """At the source, the output and the groups, as a whole."""

    tasks: Streak = Streak()
    """A task that was dismissed is a failure, and what a group has agreed or published is a success."""

    has_looked: bool = False
    """Was there one look without any failure?"""

    def looked(self, *, is_good: bool) -> "Health":
        """After a look."""
        return replace(self, looks=self.looks.add(is_good=is_good), has_looked=self.has_looked or is_good)

    def tasked(self, *, failures: int, successes: int) -> "Health":
        """After what became of tasks."""
        tasks = self.tasks
        for is_good in (*[False] * failures, *[True] * successes):
            tasks = tasks.add(is_good=is_good)
        return replace(self, tasks=tasks)


def state(health: Health, wishes: StreamWishes, *, is_idle: bool, is_complete: bool = False) -> StreamState:
    """What is shown: the first of these that it is."""
    shown = {
        StreamState.STOPPING: wishes.is_terminated,
        StreamState.UNHEALTHY_SUPERVISOR: health.looks.is_bad,
        StreamState.UNHEALTHY_TASKS: health.tasks.is_bad,
        StreamState.PENDING: not health.has_looked,
        StreamState.COMPLETED: is_complete,
        StreamState.SUSPENDED: wishes.is_suspended,
        StreamState.IDLE: is_idle,
    }
    return next((state for state, is_so in shown.items() if is_so), StreamState.RUNNING)


@dataclass
class Quiet:
    """Since when nothing has come."""

    ends: dict[int, int] = field(default_factory=dict)
    since: datetime | None = None

    def look(self, ends: Mapping[int, int], lag: int, now: datetime) -> None:
        """Note where the source ends, and how much of it is not published."""
        if lag or self.since is None or dict(ends) != self.ends:
            self.ends, self.since = dict(ends), now

    def is_idle(self, after: timedelta | None, now: datetime) -> bool:
        """Has nothing come for so long?"""
        return after is not None and self.since is not None and now - self.since >= after
