"""The order in which things are measured, and the servers they need."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    emit_bench,
    jobs_bench,
    placement_bench,
    relay_bench,
    safety_bench,
    scale_bench,
    services_bench,
    sink_bench,
    source_bench,
    start_bench,
    store_bench,
    stream_bench,
    watch_bench,
    wheel_bench,
)
from benchmarks.clients import Place
from benchmarks.load import NoCompiler
from benchmarks.measure import Row
from tests.kit import obtain
from tests.kit.harness import HARNESSES
from tests.kit.servers import Etcd, MariaDB, Postgres, Server

USUAL = (
    *("store", "watch", "wheel", "placement", "start", "services"),
    *("sink", "relay", "emit", "source", "stream", "jobs", "safety"),
)
"""What is measured unless told otherwise: filling large stores takes its time."""
PARTS = (*USUAL, "scale")
STORES = ("sqlite", "etcd", "postgresql", "mysql", "memory")
ROUNDS = 3

KINDS = {kind.name: kind for kind in HARNESSES}
SERVERS: Mapping[str, Callable[[Path], Server]] = {"etcd": Etcd, "postgresql": Postgres, "mysql": MariaDB}
MEASURES = {"store": store_bench.rows, "watch": watch_bench.rows, "scale": scale_bench.rows}
ALONE = {
    "wheel": wheel_bench.rows,
    "placement": placement_bench.rows,
    "start": start_bench.rows,
    "services": services_bench.rows,
    "sink": sink_bench.rows,
    "relay": relay_bench.rows,
    "emit": emit_bench.rows,
    "source": source_bench.rows,
    "stream": stream_bench.rows,
    "jobs": jobs_bench.rows,
    "safety": safety_bench.rows,
}
"""What needs no store."""
NEEDS = {"sink": ("rabbitmq",), "emit": ("rabbitmq",), "jobs": ("rabbitmq", "postgresql")}
"""What needs other servers, which it starts itself."""

Say = Callable[[str], None]


def chosen(only: str | None = None, *, everything: bool = False, store: str | None = None) -> Sequence[str]:
    """The parts to measure: one, the usual ones or all; of these, those about stores if one store is asked for."""
    if only:
        return (only,)
    return [part for part in (PARTS if everything else USUAL) if part in MEASURES or not store]


def run(
    only: str | None = None, *, store: str | None = None, rounds: int = ROUNDS, say: Say = lambda text: None
) -> list[Row]:
    """Measure one part or the usual ones, on one store or all; `say` hears what is under way, and what is left out."""
    stores = [name for name in ((store,) if store else STORES) if not _is_left_out(name, say)]
    rows: list[Row] = []
    for part in chosen(only, store=store):
        if part in MEASURES:
            for name in stores if part != "scale" else [name for name in stores if name in scale_bench.FILLS]:
                say(f"measuring {part}, {name}")
                with _place(name) as place:
                    rows += _of(part, asyncio.run(MEASURES[part](name, place, rounds)))
        elif not _misses_server(part, say):
            say(f"measuring {part}")
            try:
                rows += _of(part, ALONE[part](rounds))
            except (NoCompiler, obtain.ObtainError) as error:
                say(f"{part} is left out: {error}")
    return rows


def _of(part: str, rows: Iterable[Row]) -> list[Row]:
    return [replace(row, part=part) for row in rows]


def _is_left_out(store: str, say: Say) -> bool:
    why = obtain.missing(KINDS[store].backend) if KINDS[store].backend else None
    if why:
        say(f"{store} is left out: {why}")
    return why is not None


def _misses_server(part: str, say: Say) -> bool:
    why = next(filter(None, map(obtain.missing, NEEDS.get(part, ()))), None)
    if why:
        say(f"{part} is left out: {why}")
    return why is not None


@contextmanager
def _place(store: str) -> Iterator[Place]:
    """Where a store can be measured: no other server runs meanwhile."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        base = Path(folder)
        if store not in SERVERS:
            yield Place(KINDS[store], base)
            return
        with SERVERS[store](base) as server:
            yield Place(KINDS[store], base, server)
