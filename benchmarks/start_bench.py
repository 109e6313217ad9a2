"""The start of a worker: forked from the loader and registered, beside a new Python that imports the same.

The app imports pandas, SQLAlchemy and pyarrow. The loader has done so once; its forks share that memory. Forks are
timed in a process of their own, since a runtime is the parent of whatever it finds.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil

from benchmarks import measure
from benchmarks.measure import Goal, Row
from rota.compose.runtime import Runtime
from rota.kit.time.clock import SYSTEM
from rota.model.config import RuntimeConfig
from rota.runtime.loader.processes import LoadTarget
from rota.runtime.system import kernel

HEAVY = "import pandas, pyarrow, sqlalchemy\nimport rota\napp = rota.App('heavy')\n\n@app.job()\ndef j(run): ...\n"
APP = "heavy.py"
FORKS = 20
STARTS = Goal(at=100, short=30)
OWN = Goal(at=0.5, short=0.5)


def rows(rounds: int) -> list[Row]:
    """Every figure of workers' start."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as name:
        folder = Path(name)
        (folder / APP).write_text(HEAVY)
        _spawn(folder)  # fills the bytecode cache
        spawned, forked = zip(*((_spawn(folder), _forked(folder)) for _ in range(rounds)), strict=True)
    return [
        measure.compare(
            "start: workers one after the other",
            "/s",
            "a new python with the same imports",
            [1 / seconds for seconds in spawned],
            [1 / each["seconds"] for each in forked],
            STARTS,
        ),
        measure.compare(
            "start: memory of a worker that is its own",
            "MiB",
            "all that it sees",
            [each["memory"] for each in forked],
            [each["own"] for each in forked],
            OWN,
        ),
    ]


def _spawn(folder: Path) -> float:
    """Seconds that a new Python takes."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import heavy"], cwd=folder, check=True)
    return time.monotonic() - began


def _forked(folder: Path) -> dict[str, float]:
    """What a process that forks told: seconds of a start, and the memory of a worker."""
    argv = [sys.executable, "-m", "benchmarks.start_bench", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


async def _fork(folder: Path) -> dict[str, float]:
    """Wear executors out, and see how long the next one takes from its fork to its registration."""
    kernel.adopt_orphans()
    runtime = Runtime(LoadTarget(str(folder / APP), "fork"), RuntimeConfig(), SYSTEM, lambda *_, **__: None, folder)
    running = asyncio.create_task(runtime.run())
    await runtime.load()
    await runtime.crew.until(runtime.crew.is_settled)
    took = []
    for _ in range(FORKS):
        (worker,) = runtime.crew.workers.values()
        runtime.crew.forgive()
        worker.worn = "to be measured"
        runtime.crew.wake()
        await runtime.crew.until(partial(_is_replaced, runtime, worker.id))
        (fresh,) = runtime.crew.workers.values()
        took.append(fresh.since - fresh.born)
    memory = psutil.Process(fresh.pid).memory_full_info()
    await runtime.kill()
    running.cancel()
    return {"seconds": statistics.median(took), "memory": memory.rss / 2**20, "own": memory.uss / 2**20}


def _is_replaced(runtime: Runtime, worker: int) -> bool:
    return worker not in runtime.crew.workers and runtime.is_ready


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_fork(Path(sys.argv[1])))))
