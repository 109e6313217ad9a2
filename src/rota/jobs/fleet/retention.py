"""Clearing away old runs, a chore that one node does now and then.

Each visit handles some jobs and continues where the last one stopped, which may be in the middle of a job. While there
is more to do the next visit comes soon, using up to a tenth of a core.

Deleting expects no version: a run that is over is only written again to keep a late outcome, which may be lost with the
run.

Output goes just before its run, so that a visit that fails or is killed half-way is resumed by the next one. Output of
a run that was deleted by hand, or that was written after it was forgotten, goes when it is so old that its run cannot
exist any more; every node does this, because each may keep output on its own disk.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import random

from rota.jobs.core.records import job_of, run_id
from rota.jobs.core.retention import doomed
from rota.jobs.logs.port import Logs
from rota.model import keys
from rota.model.config import JobsConfig
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Key
from rota.store.port import Delete, Store

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between visits."""

PAGE = 1000
BATCH = 100
JOBS, RUNS = 1000, 50_000
"""Jobs that one visit handles at most, and runs of them after which it ends."""

SHARE = 9.0
"""While it is behind, it rests this many times as long as it worked."""

LEAST = 1.0
"""The shortest rest, in seconds."""

SLACK = 10
"""A job is cleared once it has a tenth too many runs: otherwise all of its runs would be read for each new one."""

RECOUNT = timedelta(hours=1)
"""How long a count of runs is reused."""


LEFT = timedelta(days=1)
"""How much longer than its run output may stay that was not deleted with the run."""

LOOK = 600.0
"""Seconds between two searches for such output."""

LOGS = 1000
"""Runs whose output is deleted in one call."""


Tell = Callable[..., None]
"""Reports an event: its kind, its subject, its fields."""


async def keep_runs(store: Store, logs: Logs, config: JobsConfig, tell: Tell) -> None:
    """Delete old runs and their output periodically, until stopped; also output beyond the limit."""
    old = OldRuns(store, most=config.per_job, keep=config.keep, forget=logs.forget)
    rest, clock = EVERY, asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(rest)
        begun, rest = clock(), EVERY
        try:
            await old.visit(await store.now())
            rest = pause(clock() - begun, old.is_behind)
            if logs.is_shared:
                await trim(store, logs, config.kept_bytes, tell)
        except (Unavailable, Unknown) as error:
            log.debug("old runs not cleared", extra={"why": str(error)})


def pause(took: float, is_behind: bool) -> float:
    """Seconds to rest after a visit: while there is more to do, in proportion to what the visit cost."""
    return min(EVERY, max(LEAST, took * SHARE)) if is_behind else EVERY


async def keep_logs(store: Store, logs: Logs, config: JobsConfig, tell: Tell) -> None:
    """Delete output whose run cannot exist any more, periodically, until stopped.

    Output beyond the limit goes too, where this node keeps output for itself.
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
    """Delete output older than `age`, unless its run is not over; returns the runs concerned."""
    forgotten: list[str] = []
    while True:
        old = await logs.older(age, LOGS)
        left = [run for run in old if await store.get(keys.live_run(run)) is None]
        await logs.forget(left)
        forgotten += left
        if len(left) < LOGS:
            return forgotten


async def trim(store: Store, logs: Logs, most: int, tell: Tell) -> list[str]:
    """Delete the oldest output until at most `most` bytes are held, but none of runs that are not over; returns the
    runs."""
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
    """For a node that keeps no output."""


@dataclass
class _Walk:
    """How far one job was examined, from its newest run to the oldest."""

    job: str
    newest: Key
    since: datetime
    """When its runs were counted."""

    count: int = 0
    """How many of its runs stay: of those that were examined, if all are counted, otherwise of all."""

    is_counting: bool = True
    """Are all runs examined? Otherwise only those that are too old."""

    after: Key | None = None
    """The place to continue; None: at the newest."""


class OldRuns:
    """Where the last visit stopped, and how many runs the jobs had that it saw.

    What a visit reads is bounded, also of a job with very many runs. A job that cannot have too many, by what was
    counted and what is newer than that, is not counted again: only what is past keeping is read of it. Runs that came
    in among the older ones, or that others deleted, are seen when all are counted again: every `RECOUNT`.
    """

    def __init__(
        self,
        store: Store,
        *,
        most: int,
        keep: timedelta,
        forget: Callable[[Sequence[str]], Awaitable[None]] = _no_output,
    ) -> None:
        self._store, self._most, self._keep, self._forget = store, most, keep, forget
        self._room = most + most // SLACK
        self._after: Key | None = None
        self._walk: _Walk | None = None
        self._before: dict[str, _Walk] = {}
        """Each job as the last round left it."""

        self._known: dict[str, _Walk] = {}
        """Each job as this round left it."""

        self._seen = 0
        self.is_behind = False
        """Did the last visit end before the round did?"""

    async def visit(self, now: datetime) -> list[str]:
        """Handle the next jobs; returns the ids of the deleted runs."""
        gone: list[str] = []
        self._seen, self.is_behind = 0, True
        for _ in range(JOBS):
            if self._seen >= RUNS:
                break
            self._walk = self._walk or await self._next(now)
            if self._walk is None:
                self._after, self.is_behind = None, False
                self._before, self._known = self._known, {}
                break
            gone += await self._go_on(self._walk, now)
        return gone

    async def _next(self, now: datetime) -> _Walk | None:
        """The next job, and where to begin in it; None: there are no more."""
        listing = await self._store.scan(keys.RUNS, after=self._after, limit=1)
        if not listing.entries:
            return None
        newest = listing.entries[0].key
        job = job_of(newest.removeprefix(keys.RUNS))
        known = self._before.get(job)
        if known is not None and now - known.since < RECOUNT:
            count = known.count + await self._newer(job, newest, known)
            if count <= self._room:
                old = keys.run(run_id(job, now - self._keep))
                return _Walk(job, newest, known.since, count, is_counting=False, after=old)
        return _Walk(job, newest, now)

    async def _newer(self, job: str, newest: Key, known: _Walk) -> int:
        """How many runs are newer than the newest that is known; more than there is room for are not counted."""
        if newest >= known.newest:
            return 0
        newer, after = 0, None
        while newer <= self._room - known.count:
            listing = await self._store.scan(keys.runs(job), after=after, limit=BATCH)
            self._seen += len(listing.entries)
            found = sum(entry.key < known.newest for entry in listing.entries)
            newer += found
            if found < BATCH:
                break
            after = listing.entries[-1].key
        return newer

    async def _go_on(self, walk: _Walk, now: datetime) -> list[str]:
        """Delete what is too old or too much in the rest of a job, or in as much of it as this visit may read."""
        gone: list[str] = []
        while True:
            listing = await self._store.scan(keys.runs(walk.job), after=walk.after, limit=PAGE)
            found = [entry.key for entry in listing.entries]
            self._seen += len(found)
            gone += await self._clear(walk, found, now)
            if not listing.more:
                self._known[walk.job], self._walk = walk, None
                self._after = keys.runs(walk.job) + "~"  # behind everything of this job
                return gone
            if self._seen >= RUNS:
                return gone

    async def _clear(self, walk: _Walk, found: Sequence[Key], now: datetime) -> list[str]:
        """Delete those of the next runs that are too old or too many, and note how far the job was examined."""
        left = self._most - walk.count if walk.is_counting else len(found)
        going = doomed(found, now, most=left, keep=self._keep)
        for start in range(0, len(going), BATCH):
            batch = going[start : start + BATCH]
            await self._forget([keys.run_of(key) for key in batch])
            await self._store.commit(*map(Delete, batch))
        if going:
            log.debug("runs cleared", extra={"job": walk.job, "runs": len(going)})
        walk.count += len(found) - len(going) if walk.is_counting else -len(going)
        walk.after = found[-1] if found else walk.after
        return [keys.run_of(key) for key in going]
