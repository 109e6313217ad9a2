"""The table, and what one must know of the machine to read it."""

import os
import platform
import re
import sqlite3
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import psutil

from benchmarks.measure import Row
from tests.kit import obtain
from tests.kit.process import ROOT

HEADINGS = ("what", "beside", "theirs", "ours", "", "ratio", "min–max", "goal", "verdict")
LEFT = {0, 1, 4, 8}
"""The columns of words."""

DRIVERS = ("grpcio", "asyncpg", "asyncmy", "aio-pika", "pika", "confluent-kafka")


RIVALS = ("burst", "netkit", "gunicorn", "uvicorn")
PEERS = ROOT / "requirements"
"""Where peers are named (`peers.in`), and their versions (`peers.txt`)."""


def facts() -> dict[str, str]:
    """What was measured on."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "rota": f"{version('rota')}, commit {_commit()}",
        "machine": f"{_processor()}, {psutil.virtual_memory().total / 2**30:.0f} GiB, Linux {platform.release()}",
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "python": f"{platform.python_version()} on {platform.machine()}, asyncio's own loop",
        "sqlite": sqlite3.sqlite_version,
        **{name: "not there" if obtain.missing(name) else obtain.obtain(of) for name, of in obtain.BACKENDS.items()},
        "drivers": ", ".join(f"{name} {version(name)}" for name in DRIVERS),
        "beside": ", ".join((*(f"{name} {version(name)}" for name in RIVALS), *peers())),
        "load average": ", ".join(f"{load:.1f}" for load in os.getloadavg()),
        "disk": f"{sync_milliseconds():.2f} ms to append and sync 4 KiB (median of 50)",
    }


def peers() -> list[str]:
    """The job queues and stream processors that stand beside ours, with their versions."""
    wanted = {re.match(r"[\w-]*", line)[0] for line in (PEERS / "peers.in").read_text().splitlines()}  # type: ignore[index]
    pinned = re.findall(r"^([\w-]+)==([\w.]+)", (PEERS / "peers.txt").read_text(), re.MULTILINE)
    return [f"{name} {number}" for name, number in pinned if name in wanted]


def _commit() -> str:
    argv = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.processor() or "a processor that does not tell its name"


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text() if file.exists() else ""


def sync_milliseconds() -> float:
    """What the disk under the temporary files takes to make 4 KiB durable."""
    samples = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            before = perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fsync(file.fileno())
            samples.append(perf_counter() - before)
    return statistics.median(samples) * 1000


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(line, widths) for line in lines)


def _line(line: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text.ljust(width) if column in LEFT else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def cells(row: Row) -> tuple[str, ...]:
    """A row, column by column."""
    bare = "–" if row.bare is None else _number(row.bare)
    ratio = "–" if row.ratio is None else f"{row.ratio:.3f}"
    span = f"{_number(row.low)}–{_number(row.high)}"
    return row.name, row.against or "none", bare, _number(row.ours), row.unit, ratio, span, row.goal, row.verdict


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" if figure < 0.1 else f"{figure:.2f}"
