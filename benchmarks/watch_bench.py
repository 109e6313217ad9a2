"""How long after its commit was called for a watcher has a change in hand: p50 and p99.

Commits of one put, one every 5 ms. Writer and watcher are two handles in one process; on SQLite, where that is the
usual case, also in two. SQLite has no watch: beside it stands what one would do instead, a thread that asks for newer
rows every millisecond, and which therefore never sleeps. PostgreSQL has NOTIFY, and the bare watcher looks when it is
notified. MariaDB has nothing: the bare watcher polls every 10 ms and Rota ten times a second, so the ratio has no goal.

What has a goal on those two is the time itself while the store is idle: commits of one put some 200 ms apart, at
random, lest they fall in step with somebody's polling. The p99 is of the samples of all rounds together. The bare
watcher idles beside ours and shows how much of it is the machine's own unrest; the goal does not depend on it.

A turn opens store and watcher afresh and closes them, so that no side's watcher disturbs the other side.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic

from benchmarks import clients, measure
from benchmarks.bare_mysql import POLL, BareMysql
from benchmarks.bare_postgres import BarePostgres
from benchmarks.bare_sqlite import Poller
from benchmarks.clients import B, Client, Place
from benchmarks.measure import Goal, Row, Samples, Side, Turn
from rota.kit.record import replace
from rota.model.ids import Revision
from rota.store import Store, open_store
from tests.kit.process import Process

GOAL = Goal(at=1.5, short=3.0)
IDLE_GOALS = {"postgresql": Goal(at=20.0, short=30.0), "mysql": Goal(at=150.0, short=225.0)}
"""Milliseconds."""
PREFIX, KEY, VALUE = "/tasks/", "/tasks/task-00001", b"v" * 100
PACE = 0.005
IDLE_PACE = (0.15, 0.25)
IDLE_SAMPLES = 34
"""In a round."""
WARM_UP, SAMPLES, TURNS = 20, 100, 3
"""Three turns of a hundred samples make a round."""
PATIENCE = 1000
"""Looks, 20 ms apart, for what the watcher has not seen yet."""

Seen = Callable[[], Mapping[int, float]]
"""When each revision was seen, as far as it was."""

Pair = Callable[[], AbstractAsyncContextManager[tuple[Client, Seen]]]
"""Opens a writer and a watcher of what it writes."""

Pairs = Mapping[str, Pair]
"""The sides, by name."""

OURS = "ours"


async def paced(client: Client, seen: Seen, count: int) -> Samples:
    """Seconds from calling for each of `count` commits until it was seen."""
    start = monotonic()
    return await _timed(client, seen, [start + number * PACE for number in range(count)])


async def idle(client: Client, seen: Seen, count: int, chance: Random) -> Samples:
    """The same while hardly anything happens."""
    start = monotonic()
    return await _timed(client, seen, [start := start + chance.uniform(*IDLE_PACE) for _ in range(count)])


async def _timed(client: Client, seen: Seen, moments: Sequence[float]) -> Samples:
    called: dict[int, float] = {}
    for moment in moments:
        await asyncio.sleep(moment - monotonic())
        before = monotonic()
        called[await client.put_all((KEY,), VALUE)] = before
    await _all_seen(called, seen)
    return [seen()[revision] - before for revision, before in called.items()]


async def _all_seen(called: Mapping[int, float], seen: Seen) -> None:
    for _ in range(PATIENCE):
        if called.keys() <= seen().keys():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError(f"a watcher saw only {len(called.keys() & seen().keys())} of {len(called)} commits")


def side(pair: Pair) -> Side:
    """A writer and a watcher, opened anew for each turn; nothing is left open in between."""

    async def turn() -> Samples:
        async with pair() as (client, seen):
            await paced(client, seen, WARM_UP)
            return await paced(client, seen, SAMPLES)

    @asynccontextmanager
    async def enter() -> AsyncIterator[Turn]:
        yield turn

    return enter


@asynccontextmanager
async def port_pair(url: str) -> AsyncIterator[tuple[Client, Seen]]:
    """Two handles of one store."""
    async with clients.port(url) as client, open_store(url) as store:
        after = await client.put_all((KEY,), VALUE)
        seen: dict[int, float] = {}
        async with _running(_watch(store, after, seen)):
            yield client, lambda: seen


async def _watch(store: Store, after: int, seen: dict[int, float]) -> None:
    async with aclosing(store.watch(PREFIX, Revision(after))) as commits:
        async for commit in commits:
            seen[commit.revision] = monotonic()


@asynccontextmanager
async def bare_etcd_pair(endpoint: str, namespace: str) -> AsyncIterator[tuple[Client, Seen]]:
    """Two bare channels."""
    async with clients.bare_etcd(endpoint, namespace) as client, clients.bare_etcd(endpoint, namespace) as watcher:
        after = await client.put_all((KEY,), VALUE)
        seen: dict[int, float] = {}
        async with _running(watcher.watch(PREFIX, after, seen)):
            yield client, lambda: seen


@asynccontextmanager
async def bare_sql_pair(kind: type[B], url: str) -> AsyncIterator[tuple[Client, Seen]]:
    """Two bare connections."""
    async with clients.bare_sql(kind, url) as client, clients.bare_sql(kind, url) as watcher:
        after = await client.put_all((KEY,), VALUE)
        seen: dict[int, float] = {}
        async with _running(watcher.watch(PREFIX, after, seen)):
            yield client, lambda: seen


@asynccontextmanager
async def bare_sqlite_pair(path: Path) -> AsyncIterator[tuple[Client, Seen]]:
    """A bare writer and a polling thread."""
    async with clients.bare_sqlite(path) as client:
        poller = Poller(path, PREFIX, await client.put_all((KEY,), VALUE))
        poller.start()
        try:
            yield client, lambda: poller.seen
        finally:
            poller.stop()


@asynccontextmanager
async def process_pair(
    kind: str, target: str, place: Place, opened: AbstractAsyncContextManager[Client]
) -> AsyncIterator[tuple[Client, Seen]]:
    """A writer here and a watcher in a second process, which writes to a file so as not to wake this one."""
    async with opened as client:
        after = await client.put_all((KEY,), VALUE)
        argv = [sys.executable, "-m", "benchmarks.watcher", kind, target, PREFIX, after]
        with Process(argv, place.folder / f"{place.fresh().space}.seen") as watcher:
            yield client, partial(_told_by, watcher)
            watcher.kill()  # it has nothing to tidy up, and a polite end takes longer


def _told_by(watcher: Process) -> dict[int, float]:
    if not watcher.is_running:
        raise RuntimeError(f"the watcher ended: {watcher.complaint()}")
    words = (line.split() for line in watcher.lines())
    return {int(revision): float(when) for revision, when in words}


def sqlite(place: Place) -> dict[str, Pairs]:
    """SQLite, in one process and in two."""

    def bare_processes() -> AbstractAsyncContextManager[tuple[Client, Seen]]:
        path = place.fresh_file()
        return process_pair("bare", str(path), place, clients.bare_sqlite(path))

    def our_processes() -> AbstractAsyncContextManager[tuple[Client, Seen]]:
        url = place.fresh_url()
        return process_pair("port", url, place, clients.port(url))

    return {
        "sqlite: watch": {
            "no watch: thread polls each ms": lambda: bare_sqlite_pair(place.fresh_file()),
            OURS: lambda: port_pair(place.fresh_url()),
        },
        "sqlite: watch in a second process": {"no watch: it polls each ms": bare_processes, OURS: our_processes},
    }


def etcd(place: Place) -> dict[str, Pairs]:
    """etcd, beside its raw watch stream."""
    return {
        "etcd: watch": {
            "grpc.aio, raw Watch": lambda: bare_etcd_pair(place.endpoint, f"/{place.fresh().space}"),
            OURS: lambda: port_pair(place.fresh_url()),
        }
    }


def postgresql(place: Place) -> dict[str, Pairs]:
    """PostgreSQL, beside a watcher that looks when it is notified."""
    return {
        "postgresql: watch": {
            "asyncpg, LISTEN and SELECT": lambda: bare_sql_pair(BarePostgres, place.fresh_url()),
            OURS: lambda: port_pair(place.fresh_url()),
        }
    }


def mysql(place: Place) -> dict[str, Pairs]:
    """MariaDB, beside a watcher that polls."""
    return {
        "mysql: watch": {
            f"no watch: it polls each {POLL * 1000:g} ms": lambda: bare_sql_pair(BareMysql, place.fresh_url()),
            OURS: lambda: port_pair(place.fresh_url()),
        }
    }


def memory(place: Place) -> dict[str, Pairs]:
    """Memory, which has no bare driver."""
    return {"memory: watch": {OURS: lambda: port_pair(place.fresh_url())}}


VARIANTS = {"sqlite": sqlite, "etcd": etcd, "postgresql": postgresql, "mysql": mysql, "memory": memory}


async def rows(store: str, place: Place, rounds: int) -> list[Row]:
    """Every variant of watching one store."""
    goal = None if store == "mysql" else GOAL
    variants = VARIANTS[store](place)
    found = [row for name, pairs in variants.items() for row in await _rows(name, pairs, rounds, goal)]
    if store in IDLE_GOALS:
        found += [await _idle_row(name, pairs, rounds, IDLE_GOALS[store]) for name, pairs in variants.items()]
    return found


async def _rows(name: str, pairs: Pairs, rounds: int, goal: Goal | None) -> list[Row]:
    played = await measure.play({label: side(pair) for label, pair in pairs.items()}, rounds, TURNS)
    return [_row(f"{name}, p{percent}", percent, played, goal) for percent in (50, 99)]


def _row(name: str, percent: int, played: Sequence[Mapping[str, Samples]], goal: Goal | None) -> Row:
    figure = measure.percentile(percent)
    figures = {label: [figure(samples[label]) for samples in played] for label in played[0]}
    ours = figures.pop(OURS)
    for against, bare in figures.items():
        return measure.compare(name, "ms", against, bare, ours, goal)
    return measure.alone(name, "ms", ours)


async def _idle_row(name: str, pairs: Pairs, rounds: int, goal: Goal) -> Row:
    chance = Random(0)

    async def one(pair: Pair) -> Samples:
        async with pair() as (client, seen):
            await paced(client, seen, WARM_UP)
            return await idle(client, seen, IDLE_SAMPLES, chance)

    played = [dict(zip(pairs, await asyncio.gather(*map(one, pairs.values())), strict=True)) for _ in range(rounds)]
    together = [{label: [sample for samples in played for sample in samples[label]] for label in pairs}]
    row, whole = (_row(f"{name} while idle, p99", 99, samples, None) for samples in (played, together))
    return replace(whole, low=row.low, high=row.high, goal=f"{goal} ms", verdict=goal.verdict(whole.ours))


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
