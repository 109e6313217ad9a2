"""Who has the processors' time: other machines, if this is a virtual one, and which of our own processes.

Written down as it goes (`processors` beside the tale), so that what was slow can be told from what had no processor.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import psutil

EVERY = 15.0
"""Seconds between two looks."""

MUCH = 0.25
"""If others take a larger part than this, nothing here is on time."""

AROUND = timedelta(minutes=1)
"""How long before something was due, and after, others may have made it late."""

SERVERS = {
    "rabbitmq": ("beam", "rabbit", "erl_", "epmd"),
    "kafka": ("java",),
    "store": ("postgres", "mariadb", "mysqld", "etcd"),
}
"""Words of a process's name → whose it is."""

OURS = {"harness": "shows.", "fleet": "rota"}
"""A word of a process's command line → whose it is; nodes also name the store there."""


@dataclass(frozen=True)
class Look:
    """The time from one look to the next."""

    at: datetime
    taken: float
    """The part that others took."""

    idle: float


def was_taken(looks: Sequence[Look], due: datetime) -> bool:
    """Did others take much of the time shortly before and after something was due?"""
    around = [look.taken for look in looks if abs(look.at - due) <= AROUND]
    return bool(around) and mean(around) > MUCH


class Processors:
    """Looks again and again, and writes down what it sees."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._spent: dict[tuple[int, float], float] = {}
        self.looks: list[Look] = []

    async def run(self) -> None:
        """Look, for ever."""
        before = psutil.cpu_times()
        self._by_kind()
        while True:
            await asyncio.sleep(EVERY)
            after = psutil.cpu_times()
            look = _look(before, after)
            before = after
            self.looks.append(look)
            seconds = " ".join(f"{kind}={spent:.1f}" for kind, spent in sorted(self._by_kind().items()))
            with self._file.open("a") as file:
                file.write(f"{look.at:%H:%M:%S} others={look.taken:.0%} idle={look.idle:.0%} {seconds}\n")

    def _by_kind(self) -> dict[str, float]:
        """Seconds since the last look; what ended in between is not counted."""
        before, self._spent = self._spent, {}
        found: defaultdict[str, float] = defaultdict(float)
        for key, kind, spent in _processes():
            self._spent[key] = spent
            found[kind] += spent - before.get(key, 0.0)
        return found


def _look(before: NamedTuple, after: NamedTuple) -> Look:
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    whole = sum(spent.values()) or 1.0
    return Look(datetime.now(UTC), spent.get("steal", 0.0) / whole, (spent["idle"] + spent.get("iowait", 0.0)) / whole)


def _processes() -> Iterator[tuple[tuple[int, float], str, float]]:
    for process in psutil.process_iter(["name", "cmdline", "cpu_times", "create_time"]):
        info = process.info
        if info["cpu_times"] is not None:
            spent = info["cpu_times"].user + info["cpu_times"].system
            yield (process.pid, info["create_time"]), _kind(info["name"], info["cmdline"] or ()), spent


def _kind(name: str, argv: Sequence[str]) -> str:
    line = " ".join(argv)
    servers = (kind for kind, words in SERVERS.items() if any(word in name for word in words))
    ours = (kind for kind, word in OURS.items() if word in line)
    return next(servers, None) or next(ours, "others of ours")
