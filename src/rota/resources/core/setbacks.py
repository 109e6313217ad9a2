"""Setbacks: how often each task failed on this node in a row, also under earlier placements.

A task that is given back may be placed on the same node again if no node is better. Then it waits, longer with each
failure in a row, and one more failure is enough to give it back. They count for the same spec and the same generation
of the app only, so that what was fixed starts at once, and are forgotten after `REMEMBER`.

Pure: time arrives as an argument.
"""

from collections.abc import Collection
from datetime import timedelta

import msgspec

from rota.kit.time.instant import Instant
from rota.runtime.core.restart import Falls, RestartPolicy

REMEMBER = timedelta(minutes=30)
"""How long the failures of a task count after the last one."""


class Version(msgspec.Struct, frozen=True):
    """What a task ran with."""

    spec: bytes
    generation: int


class Setbacks:
    """The failures of tasks, by task."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._known: dict[str, tuple[Version, Falls]] = {}

    def __contains__(self, task: str) -> bool:
        """Did the task fail here lately, in whatever version?"""
        return task in self._known

    def tasks(self) -> Collection[str]:
        """The tasks that failed here lately."""
        return self._known.keys()

    def of(self, task: str, version: Version, now: Instant) -> Falls:
        """The failures in a row that count for a task in this version; none if there are none."""
        known, falls = self._known.get(task, (version, Falls()))
        return falls if known == version and _is_recent(falls, now) else Falls()

    def add(self, task: str, version: Version, now: Instant, stood: timedelta, why: str) -> Falls:
        """The failures in a row with this one, of a task that had run for `stood`."""
        falls = self.of(task, version, now).add(now, stood, why, self._policy)
        self._known[task] = version, falls
        return falls

    def forget(self, now: Instant, but: Collection[str]) -> None:
        """Drop what is too old to count, but for these tasks."""
        self._known = {task: known for task, known in self._known.items() if task in but or _is_recent(known[1], now)}


def _is_recent(falls: Falls, now: Instant) -> bool:
    return now - falls.last < REMEMBER.total_seconds()
