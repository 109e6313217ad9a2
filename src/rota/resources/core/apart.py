"""Apart: which of many tasks in one host process is the one that ends it.

A segmentation fault, `os._exit` or a lack of memory ends the whole host, and nothing says which of its tasks it was.
Tasks whose host died twice within `WITHIN` are suspects. They leave the host, in portions of about the same size, each
in a process of its own. When the process of a portion dies, the portion is divided again, until it is one task: that
one is at fault, and waits and is given back like any task that fails. A portion that lives twice as long as the host
did is innocent, and returns. Divided by eight each time, 10,000 tasks take five rounds.

Pure: time arrives as an argument; `resources.node.tasks` carries it out.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

import msgspec

from rota.kit.record import replace
from rota.kit.time.instant import Instant
from rota.runtime.core.restart import RestartPolicy

PORTIONS = 8
"""Into how many portions suspects are divided."""

PROCESSES = 32
"""Portions that run at a time; the tasks of further ones wait."""

WITHIN = timedelta(minutes=10)
"""Two deaths of a host with a task in it, at most this far apart, make the task a suspect."""

REMEMBER = timedelta(minutes=30)
"""How long a task that was found at fault starts in a process of its own, after it was last seen to be."""


class Portion(msgspec.Struct, frozen=True):
    """Suspects in one process."""

    tasks: tuple[str, ...]
    patience: float
    """Seconds to live, after which they are innocent."""

    since: Instant
    """When its process began, or died last."""


class Apart:
    """The suspects of a node."""

    def __init__(self, policy: RestartPolicy, most: int = PROCESSES) -> None:
        self.portions: dict[int, Portion] = {}
        """Those that have a process, by a number that is never used twice."""

        self._policy, self._most = policy, most
        self._waiting: list[Portion] = []
        self._deaths: dict[str, Instant] = {}
        self._guilty: dict[str, Instant] = {}
        self._last = 0

    def placed(self) -> dict[str, int]:
        """The number of the portion that each suspect is in."""
        return {task: number for number, portion in self.portions.items() for task in portion.tasks}

    def held(self) -> set[str]:
        """Suspects that wait for a process."""
        return {task for portion in self._waiting for task in portion.tasks}

    def host_died(self, tasks: Iterable[str], stood: timedelta, now: Instant) -> list[str]:
        """A shared host died after `stood` with these tasks in it; those of them that are suspects from now on."""
        tasks = sorted(tasks)
        known = {*self.placed(), *self.held()}
        before = now - WITHIN.total_seconds()
        suspects = [task for task in tasks if task not in known and self._deaths.get(task, before) > before]
        self._deaths |= dict.fromkeys(tasks, now)
        self._divide(suspects, self._patience(stood), now)
        return suspects

    def portion_died(self, number: int, stood: timedelta, now: Instant) -> str | None:
        """The process of a portion died after `stood`; the task at fault, if it is known by now."""
        portion = self.portions.get(number)
        if portion is None:
            return None
        patience = max(portion.patience, self._patience(stood))
        if len(portion.tasks) == 1:
            (task,) = portion.tasks
            self.portions[number] = replace(portion, since=now, patience=patience)
            self._guilty[task] = now
            return task
        del self.portions[number]
        self._divide(portion.tasks, patience, now)
        return None

    def keep(self, ordered: Collection[str], now: Instant) -> None:
        """Only these tasks are there; one that was found at fault before starts apart at once."""
        self.portions = {
            number: replace(portion, tasks=tasks)
            for number, portion in self.portions.items()
            if (tasks := _only(portion.tasks, ordered))
        }
        self._waiting = [
            replace(portion, tasks=tasks) for portion in self._waiting if (tasks := _only(portion.tasks, ordered))
        ]
        self._deaths = _recent(self._deaths, now, WITHIN)
        self._guilty = _recent(self._guilty, now, REMEMBER)
        known = {*self.placed(), *self.held()}
        patience = self._policy.settled_after.total_seconds()
        self._waiting += [
            Portion((task,), patience, now) for task in sorted(self._guilty) if task in ordered and task not in known
        ]
        self._fill(now)

    def clear(self, now: Instant, running: Collection[int]) -> list[str]:
        """The suspects that are innocent by now; only portions whose process is `running` count."""
        for number, portion in self.portions.items():
            if number not in running:
                self.portions[number] = replace(portion, since=now)
        over = [number for number, each in self.portions.items() if now - each.since >= each.patience]
        innocent = [task for number in over for task in self.portions.pop(number).tasks]
        for task in innocent:
            self._deaths.pop(task, None)
            self._guilty.pop(task, None)
        self._fill(now)
        return innocent

    def _patience(self, stood: timedelta) -> float:
        return max(self._policy.settled_after, 2 * min(stood, WITHIN)).total_seconds()

    def _divide(self, tasks: Collection[str], patience: float, now: Instant) -> None:
        """Make portions of about the same size; those of a portion that was divided go first."""
        parts = min(PORTIONS, len(tasks))
        ordered = list(tasks)
        self._waiting[:0] = [Portion(tuple(ordered[each::parts]), patience, now) for each in range(parts)]
        self._fill(now)

    def _fill(self, now: Instant) -> None:
        while self._waiting and len(self.portions) < self._most:
            self._last += 1
            self.portions[self._last] = replace(self._waiting.pop(0), since=now)


def _only(tasks: tuple[str, ...], ordered: Collection[str]) -> tuple[str, ...]:
    return tuple(task for task in tasks if task in ordered)


def _recent(known: Mapping[str, Instant], now: Instant, limit: timedelta) -> dict[str, Instant]:
    return {task: at for task, at in known.items() if now - at < limit.total_seconds()}
