"""Commits per second through the port, beside the bare driver doing the same transactions.

Two loads: one put of 100 bytes that expects its key unchanged (compare and set), and a batch of 100 puts. One commit
follows the other; nothing runs at once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import cycle
from time import perf_counter

from benchmarks import clients, measure
from benchmarks.clients import Client, Place, Threaded
from benchmarks.measure import Goal, Row, Samples, Side, Turn

GOAL = Goal(at=0.8, short=0.6)
KEYS = [f"/tasks/task-{number:05}" for number in range(100)]
VALUE = b"v" * 100
OURS = "ours"
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
        OURS: lambda: clients.port(f"sqlite:///{place.fresh_file()}"),
    }


def etcd(place: Place) -> dict[str, Open]:
    """The sides on etcd."""
    return {
        "grpc.aio, same Txn": lambda: clients.bare_etcd(place.endpoint, f"/{clients.fresh_name()}"),
        OURS: lambda: clients.port(f"etcd://{place.endpoint}/{clients.fresh_name()}"),
    }


def memory(place: Place) -> dict[str, Open]:
    """Memory, which has no bare driver."""
    return {OURS: lambda: clients.port("memory://")}


SIDES = {"sqlite": sqlite, "etcd": etcd, "memory": memory}
COUNTS = {"sqlite": (150, 30), "etcd": (100, 20), "memory": (1000, 50)}
"""Commits in a turn, of one put and of a hundred: enough for a tenth of a second."""


async def rows(store: str, place: Place, rounds: int) -> list[Row]:
    """Both loads on one store."""
    sides, (one, hundred) = SIDES[store](place), COUNTS[store]
    return [
        *await _rows(f"{store}: commit of 1 put, compare and set", sides, partial(singles, count=one), rounds),
        *await _rows(f"{store}: commit of 100 puts", sides, partial(batches, count=hundred), rounds),
    ]


async def _rows(name: str, sides: Mapping[str, Open], load: Load, rounds: int) -> list[Row]:
    played = await measure.play({label: side(opened, load) for label, opened in sides.items()}, rounds, TURNS)
    rates = {label: [measure.rate(samples[label]) for samples in played] for label in sides}
    ours = rates.pop(OURS)
    if not rates:
        return [measure.alone(name, "/s", ours)]
    return [measure.compare(name, "/s", against, bare, ours, GOAL) for against, bare in rates.items()]
