"""The order in which things are measured, and the servers they need."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
)
from benchmarks.clients import Place
from benchmarks.load import NoCompiler
from benchmarks.measure import Row
from rota.kit.record import replace
from tests.kit import obtain
from tests.kit.harness import HARNESSES
from tests.kit.servers import Etcd, MariaDB, Postgres, Server

USUAL = (
    *("store", "watch", "placement", "start", "services"),
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


@dataclass(frozen=True)
class Piece:
    """What is measured in one go: a part, or a part on one store."""

    name: str
    measure: Callable[[], Iterable[Row]]


def pieces(part: str, *, store: str | None = None, rounds: int = ROUNDS, say: Say = lambda text: None) -> list[Piece]:
    """What a part consists of, on one store or all; `say` hears what is left out."""
    if part not in MEASURES:
        return [] if _misses_server(part, say) else [Piece(part, partial(ALONE[part], rounds))]
    able = STORES if part != "scale" else scale_bench.FILLS
    there = [name for name in ((store,) if store else STORES) if name in able and not _is_left_out(name, say)]
    return [Piece(f"{part}, {name}", partial(_on_store, part, name, rounds)) for name in there]


def run(piece: Piece, part: str, say: Say = lambda text: None) -> list[Row]:
    """Measure a piece of a part; `say` hears what is under way, and what is left out."""
    say(f"measuring {piece.name}")
    try:
        return [replace(row, part=part) for row in piece.measure()]
    except (NoCompiler, obtain.ObtainError) as error:
        say(f"{piece.name} is left out: {error}")
        return []


def _on_store(part: str, store: str, rounds: int) -> Iterable[Row]:
    with _place(store) as place:
        return asyncio.run(MEASURES[part](store, place, rounds))


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
