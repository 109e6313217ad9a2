"""Restart: when a process that fell may be started again, and when its falls are a crash loop.

A slot's `Falls` are those since it last stood long enough. The first restart comes almost at once, each further one
waits twice as long, up to a limit; from the fifth on the slot is in a crash loop, which is shown to operators. Restarts
never stop: the cause may be fixed from outside.

Time arrives as an argument; nothing here reads a clock or waits.
"""

from datetime import timedelta

import msgspec

from rota.kit.time.instant import Instant


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before a process that fell is restarted."""

    first: timedelta = timedelta(milliseconds=100)
    """Wait before the first restart; it doubles with each further fall."""

    most: timedelta = timedelta(seconds=30)
    """The longest wait."""

    settled_after: timedelta = timedelta(seconds=30)
    """A process that has stood for this long has left its earlier falls behind."""

    loop_after: int = 5
    """Falls in a row that make a crash loop."""


class Falls(msgspec.Struct, frozen=True):
    """The falls of one slot in a row."""

    count: int = 0
    last: Instant = msgspec.field(default=Instant(0.0))
    why: str = ""

    def add(self, now: Instant, stood: timedelta, why: str, policy: RestartPolicy) -> "Falls":
        """One more fall, of something that had stood for `stood`."""
        return Falls(1 if stood >= policy.settled_after else self.count + 1, now, why)

    def start_at(self, policy: RestartPolicy) -> Instant:
        """When the next start may be tried."""
        if self.count == 0:
            return self.last
        doublings = min(self.count - 1, 32)
        return Instant(self.last + min(policy.first * 2**doublings, policy.most).total_seconds())

    def is_crash_loop(self, policy: RestartPolicy) -> bool:
        """Have there been so many falls in a row that an operator should look?"""
        return self.count >= policy.loop_after
