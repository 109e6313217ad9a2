"""A multitude: very many resources in a store, real nodes that lead, and workers that are real or mere records.

The resources are there before anybody leads, so the first leader has all of them in its first plan. When half of the
tasks are placed, a node that does not lead is killed, and a worker's lease ends. `place_a_multitude` waits until every
resource has its task on a worker that is there and real workers run theirs, and returns what that took and how often a
leader was elected: once.

Workers that are records take tasks and run nothing, so that a hundred of them fit on one machine; real ones run each
task.
"""

import asyncio
import os
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from rota.model import codec, keys
from rota.model.ids import Key, LeaseId, NodeId, SessionId
from rota.model.node import Leader, Node, NodeStatus, Role
from rota.resources.core.records import KindRecord
from rota.store import Lease, Put, Store, open_store
from tests.kit.fleet import resource, stop_all
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

TOGETHER = 100
LONG = timedelta(days=1)
APP = """
import asyncio

import rota

app = rota.App("multitude")


@app.resource(replicas=1, start_within="1h")
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()
"""
KIND = KindRecord(
    name="room", app="multitude", replicas=1, exclusive=False, runs_alone=False, silent_after=LONG, start_within=LONG,
)  # fmt: skip


@dataclass(frozen=True)
class Multitude:
    """What came of it."""

    resources: int
    seconds: float
    """From the start of the nodes until every resource had its task on a worker that is there."""

    terms: int
    moved: int
    """Tasks that were placed again because their worker was gone."""

    least: int
    most: int
    """Tasks of the workers with the fewest and the most."""

    running_after: float | None
    """Seconds from the start until the real workers ran every task of theirs; None if there are none."""


async def place_a_multitude(
    folder: Path,
    url: str,
    resources: int,
    *,
    leaders: int = 3,
    records: int = 100,
    workers: int = 0,
    ttl: str = "10s",
    within: float = 1800.0,
) -> Multitude:
    """Put resources into the store, start nodes, kill two of them half way, and wait until everything is placed."""
    async with open_store(url) as store:
        slots = 2 * resources // (records + workers) + 1
        victim = await _fill(store, resources, records, slots)
        began = time.monotonic()
        with ExitStack() as up:
            nodes = [_node(folder, url, f"s{number}", ttl, "--role", "supervise") for number in range(leaders)]
            nodes += [
                _node(folder, url, f"w{number}", ttl, "--role", "work", "--slots", slots) for number in range(workers)
            ]
            for node in nodes:
                up.enter_context(node)
            up.callback(stop_all, nodes)
            async with _followed(store) as seen:
                await eventually(lambda: len(seen.on) >= resources // 2, within=within)
                await _kill_a_follower(store, nodes[:leaders])
                await store.revoke(victim.id)
                await eventually(lambda: seen.is_whole(resources), within=within)
                took = time.monotonic() - began
                if workers:
                    await eventually(lambda: _all_run(store, seen, nodes[leaders:]), within=within)
                running_after = time.monotonic() - began if workers else None
            spread = Counter(seen.on.values())
            return Multitude(
                resources, took, seen.terms, seen.moved, min(spread.values()), max(spread.values()), running_after
            )


def _node(folder: Path, url: str, name: str, ttl: str, *flags: object) -> NodeUnderTest:
    return NodeUnderTest(folder / name, "--lease-ttl", ttl, *flags, name=name, app=APP, store=url)


async def _all_run(store: Store, seen: "_Seen", workers: Iterable[NodeUnderTest]) -> bool:
    """Do real workers run every task that they have?"""
    spread = Counter(seen.on.values())
    for worker in workers:
        entry = await store.get(keys.status(NodeId(worker.name)))
        if entry is None or codec.decode(NodeStatus, entry.value).tasks_running != spread[worker.name]:
            return False
    return True


async def _kill_a_follower(store: Store, nodes: Iterable[NodeUnderTest]) -> None:
    entry = await store.get(keys.LEADER)
    assert entry is not None, "nobody leads"
    leader = codec.decode(Leader, entry.value).node
    followers = [node for node in nodes if node.name != leader]
    if followers:
        followers[0].kill()


class _Seen:
    """Where tasks are, and how often a leader was elected."""

    def __init__(self) -> None:
        self.on: dict[str, str] = {}
        self.gone: set[str] = set()
        self.terms = self.moved = 0

    def is_whole(self, resources: int) -> bool:
        """Has every resource its task, on a worker that is there?"""
        return len(self.on) == resources and bool(self.gone) and not self.gone & set(self.on.values())

    def see(self, key: Key, value: bytes | None) -> None:
        """A key was written or deleted."""
        if key == keys.LEADER:
            self.terms += value is not None
        elif key.startswith(keys.ASSIGNMENTS):
            node, _, task = key.removeprefix(keys.ASSIGNMENTS).partition("/")
            if value is not None:
                self.moved += self.on.get(task, node) != node
                self.on[task] = node
            elif self.on.get(task) == node:
                del self.on[task]
                self.moved += 1
        elif key.startswith(keys.NODES) and value is None:
            self.gone.add(key.removeprefix(keys.NODES))


@asynccontextmanager
async def _followed(store: Store) -> AsyncIterator[_Seen]:
    seen, since = _Seen(), await store.revision()

    async def follow() -> None:
        async with aclosing(store.watch("/", since)) as commits:
            async for commit in commits:
                for change in commit.changes:
                    seen.see(change.key, change.entry.value if change.entry else None)

    following = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _fill(store: Store, resources: int, records: int, slots: int) -> Lease:
    """Write resources, their kind and workers; the lease of the worker that is to go."""
    await store.commit(Put(keys.kind(KIND.name), codec.encode(KIND)))
    lease, victim = await store.grant(LONG), await store.grant(LONG)
    for number in range(records):
        held = (victim if number == 0 else lease).id
        await store.commit(*_worker(NodeId(f"r{number:04}"), held, slots))
    puts = (
        Put(keys.resource(KIND.name, id), codec.encode(resource(KIND.name, id)))
        for id in (f"{number:07}" for number in range(resources))
    )
    while batch := list(islice(puts, TOGETHER)):
        await store.commit(*batch)
    return victim


def _worker(id: NodeId, lease: LeaseId, slots: int) -> list[Put]:
    node = Node(
        id=id, session=SessionId(f"s-{id}"), lease=lease, role=Role.WORK, home=id, host=platform.node(),
        pid=os.getpid(), since=datetime.now(UTC), lease_ttl=LONG, slots=slots,
    )  # fmt: skip
    status = NodeStatus(
        app="multitude", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0,
        kinds=[KIND.name],
    )  # fmt: skip
    return [Put(keys.node(id), codec.encode(node), lease), Put(keys.status(id), codec.encode(status), lease)]
