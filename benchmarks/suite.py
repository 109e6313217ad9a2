"""The order in which things are measured, and the server they need."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import store_bench, watch_bench, wheel_bench
from benchmarks.clients import Place
from benchmarks.measure import Row
from tests.kit import obtain
from tests.kit.servers import Etcd

PARTS = ("store", "watch", "wheel")
STORES = ("sqlite", "etcd", "memory")
ROUNDS = 3

Say = Callable[[str], None]


def run(
    only: str | None = None, *, store: str | None = None, rounds: int = ROUNDS, say: Say = lambda text: None
) -> list[Row]:
    """Measure one part or all, on one store or all; `say` hears what is under way, and what is left out."""
    parts = (only,) if only else PARTS
    rows: list[Row] = []
    with _places((store,) if store else STORES, say) as places:
        for part, measure in (("store", store_bench.rows), ("watch", watch_bench.rows)):
            for name, place in places.items() if part in parts else ():
                say(f"measuring {part}, {name}")
                rows += asyncio.run(measure(name, place, rounds))
    if "wheel" in parts and (only or not store):
        say("measuring wheel")
        rows += wheel_bench.rows(rounds)
    return rows


@contextmanager
def _places(stores: Sequence[str], say: Say) -> Iterator[dict[str, Place]]:
    """Where each store can be measured; one whose server is missing is left out."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        base = Path(folder)
        places = {name: Place(base) for name in stores}
        if "etcd" in stores and (why := obtain.missing("etcd")):
            say(f"etcd is left out: {why}")
            del places["etcd"]
        if "etcd" not in places:
            yield places
            return
        with Etcd(base) as server:
            yield {**places, "etcd": Place(base, f"127.0.0.1:{server.port}")}
