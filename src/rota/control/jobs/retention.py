"""Clearing away old runs, a chore that one node does now and then.

Each visit looks at some jobs and goes on where the last one stopped: at the oldest runs of a job, and at how many there
are. Deleting expects nothing: a run that is over is only ever written again to keep what came in late, and losing that
with the run is no loss.

Output goes just before its run, so that a visit that fails or is killed half-way is resumed by the next one. Output
of a run that was deleted by hand, or that was written after it was forgotten, goes when it is so old that its run
cannot be there any more; every node looks after that, for each may keep output on its own disk.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from random import random

from rota.decide.jobs.retention import doomed
from rota.model import keys
from rota.model.config import JobsConfig
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Key
from rota.model.job import job_of
from rota.store.logs.port import Logs
from rota.store.port import Delete, Store

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between visits."""

PAGE = 1000
BATCH = 100
JOBS, RUNS = 1000, 50_000
"""Jobs that one visit looks at, and runs of them after which it is enough."""


LEFT = timedelta(days=1)
"""How much longer than its run output may stay that nobody came to forget."""

LOOK = 600.0
"""Seconds between looks for such output."""

LOGS = 1000
"""Runs whose output is forgotten at a time."""


Tell = Callable[..., None]
"""Reports an event: its kind, its subject, its fields."""


async def keep_runs(store: Store, logs: Logs, config: JobsConfig, tell: Tell) -> None:
    """Clear old runs and their output away again and again, until stopped; also output that is too much."""
    old = OldRuns(store, most=config.per_job, keep=config.keep, forget=logs.forget)
    while True:
        await asyncio.sleep(EVERY)
        try:
            await old.visit(await store.now())
            if logs.is_shared:
                await trim(store, logs, config.kept_bytes, tell)
        except (Unavailable, Unknown) as error:
            log.debug("old runs not cleared", extra={"why": str(error)})


async def keep_logs(store: Store, logs: Logs, config: JobsConfig, tell: Tell) -> None:
    """Forget output whose run cannot be there any more, again and again, until stopped.

    Output that is too much goes too, where this node has a place of its own for it.
    """
    while True:
        await asyncio.sleep(LOOK * (0.5 + random()))  # not all nodes at once: most of them share their output
        try:
            await forget_left(store, logs, config.keep + LEFT)
            if not logs.is_shared:
                await trim(store, logs, config.kept_bytes, tell)
        except (Unavailable, Unknown) as error:
            log.debug("old output not cleared", extra={"why": str(error)})


async def forget_left(store: Store, logs: Logs, age: timedelta) -> list[str]:
    """Forget output that is older than `age`, unless its run still lives; of which runs it was."""
    forgotten: list[str] = []
    while True:
        old = await logs.older(age, LOGS)
        left = [run for run in old if await store.get(keys.live_run(run)) is None]
        await logs.forget(left)
        forgotten += left
        if len(left) < LOGS:
            return forgotten


async def trim(store: Store, logs: Logs, most: int, tell: Tell) -> list[str]:
    """Forget the oldest output until at most `most` bytes are held, but none of live runs; of which runs it was."""
    surplus = await logs.held() - most
    trimmed: list[str] = []
    freed = 0
    if surplus > 0:
        for run in await logs.older(timedelta(0), LOGS):
            if await store.get(keys.live_run(run)) is not None:
                continue
            size = await logs.held(run)
            await logs.forget([run])
            trimmed.append(run)
            freed += size
            if freed >= surplus:
                break
    if trimmed:
        log.warning("output dropped to make room", extra={"runs": len(trimmed), "bytes": freed, "most": most})
        tell("run.trimmed", trimmed[-1], runs=len(trimmed), bytes=freed, most=most)
    return trimmed


async def _no_output(runs: Sequence[str]) -> None:
    """Where no output is kept."""


class OldRuns:
    """Where the last visit stopped."""

    def __init__(
        self,
        store: Store,
        *,
        most: int,
        keep: timedelta,
        forget: Callable[[Sequence[str]], Awaitable[None]] = _no_output,
    ) -> None:
        self._store, self._most, self._keep, self._forget = store, most, keep, forget
        self._after: Key | None = None
        self._seen = 0

    async def visit(self, now: datetime) -> list[str]:
        """Look at the next jobs; the ids of the runs that went."""
        gone: list[str] = []
        self._seen = 0
        for _ in range(JOBS):
            if self._seen >= RUNS:
                break
            listing = await self._store.scan(keys.RUNS, after=self._after, limit=1)
            if not listing.entries:
                self._after = None
                break
            job = job_of(listing.entries[0].key.removeprefix(keys.RUNS))
            gone += await self._visit(job, now)
            self._after = keys.runs(job) + "~"  # behind everything of this job
        return gone

    async def _visit(self, job: str, now: datetime) -> list[str]:
        found: list[Key] = []
        after: Key | None = None
        while True:
            listing = await self._store.scan(keys.runs(job), after=after, limit=PAGE)
            found += [entry.key for entry in listing.entries]
            if not listing.more:
                break
            after = found[-1]
        self._seen += len(found)
        going = doomed(found, now, most=self._most, keep=self._keep)
        for start in range(0, len(going), BATCH):
            batch = going[start : start + BATCH]
            await self._forget([keys.run_of(key) for key in batch])
            await self._store.commit(*map(Delete, batch))
        if going:
            log.debug("runs cleared", extra={"job": job, "runs": len(going)})
        return [keys.run_of(key) for key in going]
