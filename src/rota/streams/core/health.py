"""How a stream is: healthy, unhealthy, idle. Pure.

One failure says little, and neither does one success: only several in a row change what is shown.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from rota.kit.record import replace
from rota.streams.core.records import StreamState, StreamTaskStatus, StreamWishes

TROUBLED = timedelta(seconds=30)
"""How long a task may be unable to read or publish before its stream is unhealthy."""

THRESHOLD = 3
"""Failures in a row that make a stream unhealthy, and successes in a row that make it healthy again."""


class Streak(msgspec.Struct, frozen=True):
    """Successes and failures of one sort, as far as they count."""

    failures: int = 0
    successes: int = 0
    is_bad: bool = False

    def add(self, *, is_good: bool) -> "Streak":
        """The streak after one more result."""
        failures, successes = (0, self.successes + 1) if is_good else (self.failures + 1, 0)
        is_bad = successes < THRESHOLD if self.is_bad else failures >= THRESHOLD
        return Streak(failures, successes, is_bad)


class StreamHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What a leader has seen of a stream."""

    looks: Streak = Streak()
    """At the source, the output and the groups, as a whole."""

    tasks: Streak = Streak()
    """A task that was dismissed is a failure; what a group has published, and as a rule agreed on, is a success."""

    troubled: datetime | None = None
    """Since when a task cannot read or publish, without a break."""

    has_looked: bool = False
    """Has one check passed without any failure?"""

    def looked(self, *, is_good: bool) -> "StreamHealth":
        """The health after source, output and groups were checked."""
        return replace(self, looks=self.looks.add(is_good=is_good), has_looked=self.has_looked or is_good)

    def saw_trouble(self, trouble: str, now: datetime) -> "StreamHealth":
        """After hearing why a task cannot read or publish at the moment, or that all can."""
        return replace(self, troubled=(self.troubled or now) if trouble else None)

    def is_troubled(self, now: datetime) -> bool:
        """Has a task been unable to read or publish for too long?"""
        return self.troubled is not None and now - self.troubled >= TROUBLED

    def tasked(self, *, failures: int, agreements: int, publishes: int) -> "StreamHealth":
        """The health after tasks failed or groups published. While a task is in trouble, an agreement is no success."""
        tasks, successes = self.tasks, publishes + (0 if self.troubled else agreements)
        for is_good in (*[False] * failures, *[True] * successes):
            tasks = tasks.add(is_good=is_good)
        return replace(self, tasks=tasks)


def state(
    health: StreamHealth, wishes: StreamWishes, *, is_idle: bool, is_complete: bool = False, is_troubled: bool = False
) -> StreamState:
    """The state to show: the first one below that applies."""
    shown = {
        StreamState.STOPPING: wishes.is_terminated,
        StreamState.UNHEALTHY_SUPERVISOR: health.looks.is_bad,
        StreamState.UNHEALTHY_TASKS: health.tasks.is_bad or is_troubled,
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
        """Has no record arrived for `after`?"""
        return after is not None and self.since is not None and now - self.since >= after


def dropped(groups: Collection[str], tasks: Iterable[StreamTaskStatus]) -> Counter[str]:
    """Records of these groups that made no rows, by reason; in each group the task that counted most is used."""
    most: dict[tuple[str, str], int] = {}
    for task in tasks:
        if task.group in groups:
            for reason, count in task.dropped.items():
                most[task.group, reason] = max(count, most.get((task.group, reason), 0))
    found: Counter[str] = Counter()
    for (_, reason), count in most.items():
        found[reason] += count
    return found
