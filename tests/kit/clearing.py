"""Much output of runs cleared away while another process keeps a lease and writes: what that process notices."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rota.jobs.logs.port import CHUNK, LogChunk
from rota.jobs.logs.sql import SqlLogs
from rota.store import open_store
from rota.store.sql.log import LogStore
from tests.kit.process import Script
from tests.kit.waiting import eventually

RUN = 10 * 2**20
"""Bytes of output of one run: as much as is kept of an attempt by default."""

AT_ONCE = 16
"""Chunks that are appended in one go."""


@dataclass(frozen=True)
class Cleared:
    """What was cleared, and what the other process noticed of it."""

    runs: int
    seconds: float
    """How long the clearing took."""
    left: int
    """Runs whose output is still there."""
    commits: int
    """Commits of the other process meanwhile."""
    longest_write: float
    """Seconds that the slowest of them took, with its retries."""
    leases_lost: int


async def clear_beside_a_writer(url: str, size: int, folder: Path, ttl: str = "10s") -> Cleared:
    """Keep `size` bytes of output in the SQL store at `url`, then forget it while another process keeps a lease."""
    runs = [f"report/{number:06}" for number in range(max(1, size // RUN))]
    async with open_store(url) as store:
        assert isinstance(store, LogStore)
        logs = SqlLogs(store.driver)
        for run in runs:
            await _fill(logs, run)
        with Script("lease_writer", url, ttl, output=folder / "lease-writer.out") as writer:
            await eventually(lambda: _writes(writer), within=60)
            before, began = len(_writes(writer)), monotonic()
            await logs.forget(runs)
            seconds = monotonic() - began
            await eventually(lambda: len(_writes(writer)) > before + 1 or _has_lost(writer), within=120)
            noticed, lost = _writes(writer)[before:], _has_lost(writer)
            writer.kill()
        left = sum([bool(await logs.read(run, 1)) for run in runs])
    return Cleared(len(runs), seconds, left, len(noticed), max(noticed, default=0.0), int(lost))


async def _fill(logs: SqlLogs, run: str) -> None:
    data = os.urandom(CHUNK)
    chunks = [LogChunk(run, 1, place, data) for place in range(0, RUN, CHUNK)]
    for start in range(0, len(chunks), AT_ONCE):
        await logs.append(chunks[start : start + AT_ONCE])
        await asyncio.sleep(0)


def _writes(writer: Script) -> list[float]:
    return [float(line.split()[1]) for line in writer.lines() if line.startswith("wrote ")]


def _has_lost(writer: Script) -> bool:
    return "lost" in writer.lines()
