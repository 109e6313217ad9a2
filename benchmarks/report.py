"""The table, and what one must know of the machine to read it."""

import os
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from time import perf_counter

from benchmarks.measure import Row
from tests.kit import obtain

HEADINGS = ("what", "beside", "theirs", "ours", "", "ratio", "min–max", "goal", "verdict")
LEFT = {0, 1, 4, 8}
"""The columns of words."""

DRIVERS = ("grpcio", "asyncpg", "asyncmy", "aio-pika", "pika", "confluent-kafka")


def facts() -> dict[str, str]:
    """What was measured on."""
    return {
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}, asyncio's own loop",
        "sqlite": sqlite3.sqlite_version,
        **{name: "not there" if obtain.missing(name) else obtain.obtain(of) for name, of in obtain.BACKENDS.items()},
        "drivers": ", ".join(f"{name} {version(name)}" for name in DRIVERS),
        "load average": ", ".join(f"{load:.1f}" for load in os.getloadavg()),
        "disk": f"{sync_milliseconds():.2f} ms to append and sync 4 KiB (median of 50)",
    }


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
    cells = [HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(line, widths) for line in cells)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text.ljust(width) if column in LEFT else text.rjust(width)
        for column, (text, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    bare = "–" if row.bare is None else _number(row.bare)
    ratio = "–" if row.ratio is None else f"{row.ratio:.3f}"
    span = f"{_number(row.low)}–{_number(row.high)}"
    return row.name, row.against or "none", bare, _number(row.ours), row.unit, ratio, span, row.goal, row.verdict


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" if figure < 0.1 else f"{figure:.2f}"
