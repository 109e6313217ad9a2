"""A fleet under test: nodes on one store that run an app of resources, and what its tasks say they do."""

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from rota.model import codec, keys
from rota.model.errors import RotaError
from rota.model.node import Leader
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import ResourceRecord, ResourceStatus
from rota.store import Delete, Put, Store
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

ROOMS = """
import asyncio, os, time
from typing import TypedDict

import rota

app = rota.App("rooms")
HERE = os.path.dirname(__file__)


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.resource(replicas=2, start_within="1h")
async def room(task: rota.Task) -> None:
    note("start", task.id, task.epoch, time.monotonic())
    try:
        await asyncio.Event().wait()
    finally:
        note("stop", task.id, task.epoch, time.monotonic())


@app.resource(replicas=1, start_within="1h")
async def crawler(task: rota.Task) -> None:
    await asyncio.Event().wait()


@app.resource(exclusive=True, start_within="1h")
async def single(task: rota.Task) -> None:
    while True:
        note("act", task.id, task.epoch, time.monotonic())
        await asyncio.sleep(0.05)


@app.resource(replicas=1)
async def counter(task: rota.Task) -> None:
    count = task.saved.get("count", 0)
    note("from", task.id, count)
    while True:
        count += 1
        await task.save({"count": count})
        await asyncio.sleep(0.05)


class Spec(TypedDict):
    depth: int


@app.resource(replicas=1)
async def strict(task: rota.Task[Spec]) -> None:
    await asyncio.Event().wait()


@app.resource(replicas=1, start_within="1h", silent_after="1s")
async def quiet(task: rota.Task) -> None:
    note("start", task.id, task.epoch, time.monotonic())
    task.alive()
    await asyncio.Event().wait()
"""


class Fleet:
    """Nodes that share a store; a context manager."""

    def __init__(
        self,
        folder: Path,
        url: str,
        store: Store,
        names: Iterable[str],
        *flags: object,
        environ: Mapping[str, str] | None = None,
        app: str = ROOMS,
    ) -> None:
        self._folder, self._url, self.store, self._flags = folder, url, store, flags
        self._environ, self._app = environ, app
        self.nodes = {name: self._node(name) for name in names}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for node in self.nodes.values():
            self._stack.enter_context(node)
        return self

    def __exit__(self, *_: object) -> None:
        stop_all(self.nodes.values())
        self._stack.close()

    def add_node(
        self, name: str, *flags: object, url: str = "", environ: Mapping[str, str] | None = None
    ) -> NodeUnderTest:
        """One more node, started; `url` is the store as it sees it, `environ` what only it is told."""
        node = self.nodes[name] = self._node(name, *flags, url=url, environ=environ)
        return self._stack.enter_context(node)

    async def ready(self) -> None:
        """Every node is there, its workers too, and its kinds are known."""
        self._working = 0
        for node in self.nodes.values():
            self._working += (await node.ready())["work"] is not None
        await eventually(self._kinds_are_known)

    async def _kinds_are_known(self) -> bool:
        statuses = (await self.store.scan(keys.STATUS)).entries
        return bool((await self.store.scan(keys.KINDS)).entries) and len(statuses) >= self._working

    async def add(self, ids: Iterable[str], kind: str = "room", **fields: object) -> None:
        """Resources, as the API writes them."""
        puts = [Put(keys.resource(kind, each), codec.encode(resource(kind, each, **fields))) for each in ids]
        for start in range(0, len(puts), 100):
            await self.store.commit(*puts[start : start + 100])

    async def remove(self, ids: Iterable[str], kind: str = "room") -> None:
        """Take resources away."""
        for each in ids:
            await self.store.commit(Delete(keys.resource(kind, each)))

    async def placed(self) -> dict[str, list[str]]:
        """Resource → the nodes that it is assigned to."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        after = None
        while True:
            listing = await self.store.scan(keys.ASSIGNMENTS, after=after, limit=1000)
            for entry in listing.entries:
                node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
                codec.decode(Assignment, entry.value)
                found[task.rpartition("#")[0]].append(node)
            if not listing.more:
                return dict(found)
            after = listing.entries[-1].key

    async def spread(self) -> Counter[str]:
        """Node → how many tasks it has."""
        return Counter(node for nodes in (await self.placed()).values() for node in nodes)

    async def until_placed(
        self, resources: int, replicas: int, without: Iterable[str] = (), within: float = 60
    ) -> float:
        """Seconds until every resource has its replicas on distinct nodes, none of them on those left out."""
        began, gone = time.monotonic(), {self.nodes[name].name for name in without}

        async def is_covered() -> bool:
            placed = await self.placed()
            return len(placed) == resources and all(
                len(nodes) == len(set(nodes)) == replicas and not gone & set(nodes) for nodes in placed.values()
            )

        await eventually(is_covered, within=within)
        return time.monotonic() - began

    async def until_running(self, tasks: int, within: float = 60) -> float:
        """Seconds until that many tasks run on the nodes that answer."""
        began = time.monotonic()

        async def do_run() -> bool:
            statuses = [await node.status() for node in self.nodes.values() if node.is_running]
            return sum(status["work"]["tasks_running"] for status in statuses if status["work"]) == tasks

        await eventually(do_run, within=within, despite=(RotaError,))  # a node may be about to stop
        return time.monotonic() - began

    async def leader(self) -> str:
        """The short name of the node that leads."""
        entry = await eventually(lambda: self.store.get(keys.LEADER))
        name = codec.decode(Leader, entry.value).node
        return next(short for short, node in self.nodes.items() if node.name == name)

    async def status(self, id: str, kind: str = "room") -> ResourceStatus | None:
        """How a resource is covered."""
        entry = await self.store.get(keys.resource_status(kind, id))
        return codec.decode(ResourceStatus, entry.value) if entry else None

    def _node(
        self, name: str, *flags: object, url: str = "", environ: Mapping[str, str] | None = None
    ) -> NodeUnderTest:
        return NodeUnderTest(
            self._folder / name,
            "--role",
            "both",
            *self._flags,
            *flags,
            name=name,
            app=self._app,
            store=url or self._url,
            environ={**(self._environ or {}), **(environ or {})},
        )


def stop_all(nodes: Iterable[NodeUnderTest]) -> None:
    """Ask all to end at once: one after the other would give its tasks to the next, and wait for that."""
    for node in nodes:
        if node.is_running:
            node.send(signal.SIGTERM)


def resource(kind: str, id: str, **fields: object) -> ResourceRecord:
    """A record, as the API writes it."""
    return ResourceRecord(uid=f"{kind}-{id}", kind=kind, id=id, created=datetime.now(UTC), **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Moves:
    """What changed hands between two looks."""

    moved: int
    same: int


def moves(before: dict[str, list[str]], after: dict[str, list[str]]) -> Moves:
    """How many tasks are on other nodes than before."""
    moved = sum(len(set(before[name]) - set(after.get(name, ()))) for name in before)
    return Moves(moved, sum(map(len, before.values())) - moved)
