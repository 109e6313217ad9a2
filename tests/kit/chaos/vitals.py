"""Memory and open files of agents, again and again, and whether they grow."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from tests.kit.fleet import Fleet

EVERY = 5.0
"""Seconds between two looks."""

LONG = 8 * 60.0
"""Seconds for which an agent must have lived to be judged: before that it still warms up."""

JUMP = 24 * 2**20
"""Bytes from one look to the next that are no leak: who leads for the first time loads what a leader needs."""


@dataclass(frozen=True)
class Look:
    """An agent at one moment."""

    at: float
    memory: int
    files: int


@dataclass(frozen=True)
class Growth:
    """One agent, from the middle third of its life, since it has loaded what it needs, to the last."""

    node: str
    minutes: float
    memory: tuple[float, float]
    """Medians, in MiB."""

    files: tuple[float, float]

    @property
    def memory_slope(self) -> float:
        """KiB a minute."""
        return (self.memory[1] - self.memory[0]) * 1024 / (self.minutes / 3)

    @property
    def is_judged(self) -> bool:
        """Did it live long enough to say something?"""
        return self.minutes * 60 >= LONG

    @property
    def is_flat(self) -> bool:
        """No more than a tenth of memory was added, and not ten files."""
        return self.memory[1] <= 1.1 * self.memory[0] and self.files[1] < self.files[0] + 10


def growth(node: str, looks: Sequence[Look]) -> Growth:
    """How one agent grew since it has loaded what it needs; it was looked at three times at least."""
    looks = _loaded(looks)
    middle, last = (looks[len(looks) * part // 3 : len(looks) * (part + 1) // 3] for part in (1, 2))
    memory = [median(look.memory for look in part) / 2**20 for part in (middle, last)]
    files = [float(median(look.files for look in part)) for part in (middle, last)]
    return Growth(node, (looks[-1].at - looks[0].at) / 60, (memory[0], memory[1]), (files[0], files[1]))


def _loaded(looks: Sequence[Look]) -> Sequence[Look]:
    """Those after the last jump: what grows without end does so all the time."""
    jumps = [at for at in range(1, len(looks) - 2) if looks[at].memory - looks[at - 1].memory > JUMP]
    return looks[jumps[-1] :] if jumps else looks


class Vitals:
    """Looks at the agents of a fleet, and writes down what it sees."""

    def __init__(self, fleet: Fleet, file: Path) -> None:
        self._fleet, self._file = fleet, file
        self._lives: defaultdict[tuple[str, int], list[Look]] = defaultdict(list)
        """By node and process: an agent that was started again is another one."""

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            for name, node in self._fleet.nodes.items():
                if node.is_running:
                    self._look(name, node.pid)
            await asyncio.sleep(EVERY)

    def longest(self) -> list[Growth]:
        """Of each node the agent that lived longest."""
        found: dict[str, list[Look]] = {}
        for (name, _), looks in self._lives.items():
            if len(looks) >= 3 and len(looks) > len(found.get(name, ())):
                found[name] = looks
        return [growth(name, looks) for name, looks in sorted(found.items())]

    def _look(self, name: str, pid: int) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            look = Look(time.monotonic(), process.memory_info().rss, process.num_fds())
            self._lives[name, pid].append(look)
            with self._file.open("a") as file:
                file.write(f"{name} {pid} {look.at:.1f} {look.memory} {look.files}\n")
