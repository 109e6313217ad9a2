"""Churn: exclusive tasks on real nodes, while resources go and come back, nodes are cordoned and killed.

Each task notes on the machine's monotonic clock when it begins, ten times a second that it is at work, and when it has
ended. It takes a while to stop, so a second one that begins too early is seen. `churn` does random cycles and returns
how long two tasks of one resource were at work at once; that must be never.
"""

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Cordon
from rota.store import Delete, Put, open_store
from tests.kit.fleet import Fleet
from tests.kit.waiting import eventually

NAMES = "abc"
ROBOTS = """
import asyncio, os, time

import rota

app = rota.App("robots")
NOTES = os.path.join(os.path.dirname(__file__), "notes")


def note(task, word):
    line = f"{word} {task.id} {task.epoch} {os.getpid()} {time.monotonic()}\\n"
    fd = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


async def work(task, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        note(task, "act")
        await asyncio.sleep(0.1)


@app.resource(exclusive=True, start_within="1h")
async def robot(task: rota.Task) -> None:
    note(task, "begin")
    try:
        await work(task, float("inf"))
    finally:
        await work(task, 2.0)
        note(task, "end")
"""


@dataclass(frozen=True)
class Span:
    """One life of a task: its first and its last sign of work."""

    node: str
    epoch: int
    begin: float
    end: float


@dataclass(frozen=True)
class Churn:
    """What came of some cycles."""

    done: Mapping[str, int]
    """How often each thing was done."""

    lives: int
    overlaps: list[str]
    """Each pair of tasks of one resource that were at work at once, and for how long."""


@asynccontextmanager
async def robots(folder: Path, url: str, ttl: str = "5s") -> AsyncIterator[Fleet]:
    """Three nodes, ready, that can run the exclusive kind `robot`."""
    async with open_store(url) as store:
        with Fleet(folder, url, store, NAMES, "--lease-ttl", ttl, "--drain", "2s", app=ROBOTS) as fleet:
            await fleet.ready()
            yield fleet


async def churn(fleet: Fleet, cycles: int, *, tasks: int = 3, seed: int = 0, whats: Iterable[str] = ()) -> Churn:
    """Do `cycles` random cycles, each until every task is at work again; `whats` limits what is done in them."""
    chosen, cycle = random.Random(seed), _Cycle(fleet, [str(number) for number in range(tasks)])
    possible = list(whats) or sorted(cycle.ways)
    done: Counter[str] = Counter()
    await fleet.add(cycle.ids, kind="robot")
    await cycle.until_at_work()
    for number in range(cycles):
        what = possible[number] if number < len(possible) else chosen.choice(possible)
        await cycle.ways[what](chosen.choice(cycle.ids), chosen)
        await cycle.until_at_work()
        done[what] += 1
    spans = spans_of(fleet)
    return Churn(dict(done), sum(map(len, spans.values())), overlaps(spans))


def spans_of(fleet: Fleet) -> dict[str, list[Span]]:
    """By task: when it was at work, in the order in which that began."""
    seen: defaultdict[tuple[str, str, int, str], list[float]] = defaultdict(list)
    for node in fleet.nodes.values():
        for _, task, epoch, pid, at in node.notes():
            seen[task, node.name, int(epoch), pid].append(float(at))
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for (task, name, epoch, _), times in sorted(seen.items(), key=lambda each: min(each[1])):
        found[task].append(Span(name, epoch, min(times), max(times)))
    return dict(found)


def overlaps(spans: Mapping[str, list[Span]]) -> list[str]:
    """Each task that began before the one before it had ended."""
    found = []
    for task, each in spans.items():
        for one, other in pairwise(each):
            if other.begin < one.end:
                both = min(one.end, other.end) - other.begin
                found.append(
                    f"{task}: {one.node} (epoch {one.epoch}) and {other.node} ({other.epoch}) for {both:.2f} s"
                )
    return found


class _Cycle:
    """What can be done to a fleet."""

    def __init__(self, fleet: Fleet, ids: list[str]) -> None:
        self.fleet, self.ids = fleet, ids
        self.ways: Mapping[str, Callable[[str, random.Random], Awaitable[None]]] = {
            "remove and add": self._remove_and_add,
            "remove and add elsewhere": self._elsewhere,
            "cordon and uncordon": self._cordon,
            "kill": self._kill,
        }

    async def until_at_work(self) -> None:
        """Each task is assigned to one node, and has noted that it works there."""
        await eventually(self._are_at_work, within=180)

    async def _are_at_work(self) -> bool:
        entries = (await self.fleet.store.scan(keys.ASSIGNMENTS)).entries
        if any(codec.decode(Assignment, entry.value).stopping for entry in entries):
            return False
        wanted = {entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")[2]: entry.modified for entry in entries}
        acted = {(words[1], int(words[2])) for node in self.fleet.nodes.values() for words in node.notes()}
        return len(wanted) == len(entries) == len(self.ids) and acted >= set(wanted.items())

    async def _remove_and_add(self, id: str, chosen: random.Random) -> None:
        await self.fleet.remove([id], kind="robot")
        if chosen.random() < 0.5:
            await eventually(lambda: self._is_leaving(id))
        await self.fleet.add([id], kind="robot")

    async def _is_leaving(self, id: str) -> bool:
        """Has the leader seen that the resource is gone?"""
        return await self.fleet.store.get(keys.resource_status("robot", id)) is None

    async def _elsewhere(self, id: str, chosen: random.Random) -> None:
        """Remove and add, while the node that has the task gets no new ones."""
        holder = NodeId((await self.fleet.placed())[f"robot/{id}"][0])
        await self._close(holder)
        await self.fleet.remove([id], kind="robot")
        await eventually(lambda: self._is_leaving(id))
        await self.fleet.add([id], kind="robot")
        await self.until_at_work()
        await self.fleet.store.commit(Delete(keys.cordon(holder)))

    async def _cordon(self, id: str, chosen: random.Random) -> None:
        """Cordon a node, remove and add something, and uncordon it in the middle of that."""
        closed = NodeId(chosen.choice(list(self.fleet.nodes.values())).name)
        await self._close(closed)
        await self.fleet.remove([id], kind="robot")
        await eventually(lambda: self._is_leaving(id))
        await self.fleet.store.commit(Delete(keys.cordon(closed)))
        await self.fleet.add([id], kind="robot")

    async def _kill(self, id: str, chosen: random.Random) -> None:
        """Kill a node while a resource goes and comes back, and start it again."""
        node = chosen.choice(list(self.fleet.nodes.values()))
        await self.fleet.remove([id], kind="robot")
        node.kill()
        await self.fleet.add([id], kind="robot")
        node.start()
        await node.ready()

    async def _close(self, node: NodeId) -> None:
        cordon = Cordon(node=node, since=datetime.now(UTC))
        await self.fleet.store.commit(Put(keys.cordon(node), codec.encode(cordon)))
