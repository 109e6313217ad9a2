"""Commits per second through the port, beside the bare driver doing the same transactions.

Three loads: one put of 100 bytes that expects its key unchanged (compare and set); a batch of 100 puts; and 32 who
make such single commits at once, each on a key of its own, all on one handle. In the first two one commit follows the
other. On SQL the bare driver has a connection where one transaction follows the other, and in a further row several of
them; Rota groups the commits, so its 32 must also be much faster than one alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import NamedTuple

from benchmarks import clients, measure
from benchmarks.bare_mysql import BareMysql
from benchmarks.bare_postgres import BarePostgres
from benchmarks.clients import Client, Place, Threaded
from benchmarks.measure import Goal, Row, Samples, Side, Turn

GOAL = Goal(at=0.8, short=0.6)
GROUP_GOAL = Goal(at=3.0, short=2.0)
GROUPING = {"sqlite", "postgresql", "mysql"}
"""Stores that commit in groups."""
KEYS = [f"/tasks/task-{number:05}" for number in range(100)]
VALUE = b"v" * 100
OURS, ALONE = "ours", "ours, one at a time"
CROWD = 32
POOL = 8
"""Connections of the bare driver's pool."""
TURNS = 6
"""Turns of each side in a round."""

Open = Callable[[], AbstractAsyncContextManager[Client]]
Load = Callable[[Client], Awaitable[Turn]]


async def singles(client: Client, *, count: int) -> Turn:
    """Turns of `count` commits of one put each, which expect the key as it was left."""
    revisions = dict.fromkeys(KEYS, await client.put_all(KEYS, VALUE))
    keys = cycle(KEYS)

    async def turn() -> Samples:
        samples, before = [], perf_counter()
        for _ in range(count):
            key = next(keys)
            revisions[key] = await client.put_if(key, VALUE, revisions[key])
            samples.append(-before + (before := perf_counter()))
        return samples

    return turn


async def batches(client: Client, *, count: int) -> Turn:
    """Turns of `count` commits of 100 puts each."""
    await client.put_all(KEYS, VALUE)

    async def turn() -> Samples:
        samples, before = [], perf_counter()
        for _ in range(count):
            await client.put_all(KEYS, VALUE)
            samples.append(-before + (before := perf_counter()))
        return samples

    return turn


async def crowds(client: Client, *, count: int) -> Turn:
    """Turns in which many at once make `count` commits of one put each; a sample is one commit's share of the turn."""
    revisions = dict.fromkeys(KEYS, await client.put_all(KEYS, VALUE))

    async def one(key: str) -> None:
        for _ in range(count):
            revisions[key] = await client.put_if(key, VALUE, revisions[key])

    async def turn() -> Samples:
        before = perf_counter()
        await asyncio.gather(*map(one, KEYS[:CROWD]))
        return [(perf_counter() - before) / (CROWD * count)] * (CROWD * count)

    return turn


def side(opened: Open, load: Load) -> Side:
    """A client under a load."""

    @asynccontextmanager
    async def enter() -> AsyncIterator[Turn]:
        async with opened() as client:
            yield await load(client)

    return enter


def sqlite(place: Place) -> dict[str, Open]:
    """The sides on SQLite."""
    return {
        "sqlite3, blocking": lambda: clients.bare_sqlite(place.fresh_file()),
        "sqlite3 in to_thread": lambda: clients.bare_sqlite(place.fresh_file(), Threaded),
        OURS: lambda: clients.port(place.fresh_url()),
    }


def etcd(place: Place) -> dict[str, Open]:
    """The sides on etcd."""
    return {
        "grpc.aio, same Txn": lambda: clients.bare_etcd(place.endpoint, f"/{place.fresh().space}"),
        OURS: lambda: clients.port(place.fresh_url()),
    }


def postgresql(place: Place) -> dict[str, Open]:
    """The sides on PostgreSQL."""
    return {
        "asyncpg, one connection": lambda: clients.bare_sql_pool(BarePostgres, place.fresh_url()),
        OURS: lambda: clients.port(place.fresh_url()),
    }


def mysql(place: Place) -> dict[str, Open]:
    """The sides on MariaDB."""
    return {
        "asyncmy, one connection": lambda: clients.bare_sql_pool(BareMysql, place.fresh_url()),
        OURS: lambda: clients.port(place.fresh_url()),
    }


def memory(place: Place) -> dict[str, Open]:
    """Memory, which has no bare driver."""
    return {OURS: lambda: clients.port(place.fresh_url())}


def pools(store: str, place: Place) -> dict[str, Open]:
    """What else one can do without Rota when many want to commit at once."""
    if store == "postgresql":
        return {f"asyncpg, {POOL} connections": lambda: clients.bare_sql_pool(BarePostgres, place.fresh_url(), POOL)}
    if store == "mysql":
        return {f"asyncmy, {POOL} connections": lambda: clients.bare_sql_pool(BareMysql, place.fresh_url(), POOL)}
    return {}


SIDES = {"sqlite": sqlite, "etcd": etcd, "postgresql": postgresql, "mysql": mysql, "memory": memory}


class Counts(NamedTuple):
    """Commits in a turn: enough for about a tenth of a second."""

    single: int
    batch: int
    crowd: int
    """Of each one in the crowd."""


COUNTS = {
    "sqlite": Counts(150, 30, 20),
    "etcd": Counts(100, 20, 10),
    "postgresql": Counts(50, 10, 6),
    "mysql": Counts(50, 10, 6),
    "memory": Counts(1000, 50, 100),
}


async def rows(store: str, place: Place, rounds: int) -> list[Row]:
    """Every load on one store."""
    sides, counts = SIDES[store](place), COUNTS[store]
    single, batch = partial(singles, count=counts.single), partial(batches, count=counts.batch)
    return [
        *await _rows(f"{store}: commit of 1 put, compare and set", sides, single, rounds),
        *await _rows(f"{store}: commit of 100 puts", sides, batch, rounds),
        *await _crowd_rows(store, {**pools(store, place), **sides}, counts, rounds),
    ]


async def _rows(name: str, sides: Mapping[str, Open], load: Load, rounds: int) -> list[Row]:
    rates = await _rates({label: side(opened, load) for label, opened in sides.items()}, rounds)
    return _beside(name, rates.pop(OURS), rates)


async def _crowd_rows(store: str, sides: Mapping[str, Open], counts: Counts, rounds: int) -> list[Row]:
    crowd = partial(crowds, count=counts.crowd)
    loaded = {label: side(opened, crowd) for label, opened in sides.items()}
    alone = side(sides[OURS], partial(singles, count=counts.single))
    rates = await _rates({**loaded, ALONE: alone}, rounds)
    ours, singly = rates.pop(OURS), rates.pop(ALONE)
    name, goal = f"{store}: {CROWD} at once, 1 put each", GROUP_GOAL if store in GROUPING else None
    return [*_beside(name, ours, rates), measure.compare(name, "/s", ALONE, singly, ours, goal)]


async def _rates(sides: Mapping[str, Side], rounds: int) -> dict[str, list[float]]:
    """Each side's rate in each round."""
    played = await measure.play(sides, rounds, TURNS)
    return {label: [measure.rate(samples[label]) for samples in played] for label in sides}


def _beside(name: str, ours: Sequence[float], rates: Mapping[str, Sequence[float]]) -> list[Row]:
    if not rates:
        return [measure.alone(name, "/s", ours)]
    return [measure.compare(name, "/s", against, bare, ours, GOAL) for against, bare in rates.items()]
