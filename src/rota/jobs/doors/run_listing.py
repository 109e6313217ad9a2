"""Lists of runs: those that are not over in the order of their keys, and those that are, from the newest on."""

import heapq
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import Self

import msgspec

from rota.doors.limits import PAGE
from rota.jobs.core.records import RunRecord, RunState, job_of
from rota.jobs.doors.answers import RunPage, RunView, run_view
from rota.model import keys
from rota.model.ids import Key
from rota.store.port import Store
from rota.store.records import understood

MOST_LOOKED_AT = 2000
"""Runs that one call examines to find those in a state; the page has those found by then."""


LIVING = "living:"
"""The prefix of a token that continues among the runs that are not over; no job's name has a colon."""


class WantedRuns(msgspec.Struct, frozen=True):
    """Which runs a list should have."""

    job: str | None
    states: frozenset[RunState] = frozenset()
    """The wanted states; empty: any."""

    node: str | None = None
    since: datetime | None = None

    def has(self, run: RunRecord) -> bool:
        """Is this run wanted?"""
        if self.is_too_old(run) or (self.states and run.state not in self.states):
            return False
        return self.node is None or run.node == self.node or any(each.node == self.node for each in run.earlier)

    def is_too_old(self, run: RunRecord) -> bool:
        """Was it due before all wanted runs?"""
        return self.since is not None and run.due < self.since


async def page_of(store: Store, wanted: WantedRuns, limit: int, token: str | None) -> RunPage:
    """A page of the runs that are wanted, behind `token`: those that are not over before the others."""
    living: list[RunView] = []
    looked_at = 0
    if token is None or token.startswith(LIVING):
        living, behind, looked_at = await _living(store, wanted, limit, token and token.removeprefix(LIVING))
        if behind is not None:
            return RunPage(runs=_newest_due(living), next=f"{LIVING}{behind}", looked_at=looked_at)
        token = None
    over, after, more = await runs_over(store, wanted, limit - len(living), token, MOST_LOOKED_AT - looked_at)
    return RunPage(runs=(*_newest_due(living), *over), next=after, looked_at=looked_at + more)


async def _living(
    store: Store, wanted: WantedRuns, limit: int, behind: str | None
) -> tuple[list[RunView], str | None, int]:
    """Runs that are not over in the order of their keys, the place to continue if there may be more, and how many were
    examined."""
    found: list[RunView] = []
    looked_at = 0
    below = f"{keys.LIVE_RUNS}{wanted.job}/" if wanted.job else keys.LIVE_RUNS
    after = keys.live_run(behind) if behind else None
    while True:
        page = await store.scan(below, after=after, limit=PAGE)
        for entry in page.entries:
            run = understood(RunRecord, entry)
            looked_at += 1
            if run is not None and wanted.has(run):
                found.append(run_view(run))
            if len(found) == limit or looked_at == MOST_LOOKED_AT:
                return found, entry.key.removeprefix(keys.LIVE_RUNS), looked_at
        if not page.more:
            return found, None, looked_at
        after = page.entries[-1].key


def _newest_due(runs: list[RunView]) -> tuple[RunView, ...]:
    return tuple(sorted(runs, key=lambda run: run.due, reverse=True))


class _Head(msgspec.Struct, frozen=True):
    """A job's newest run that was not examined yet, and those behind it; the newest of all heads is the smallest."""

    run: RunRecord
    others: AsyncGenerator[RunRecord, None]

    def __lt__(self, other: Self) -> bool:
        return (self.run.due, self.run.id) > (other.run.due, other.run.id)


async def runs_over(
    store: Store, wanted: WantedRuns, limit: int, token: str | None, most: int
) -> tuple[list[RunView], str | None, int]:
    """Runs that are over, the newest first; the place to continue, behind the last one examined; and how many were
    examined.

    At most `most` runs are examined.
    """
    jobs = [wanted.job] if wanted.job is not None else await _jobs_with_runs(store)
    found: list[RunView] = []
    looked_at = 0
    async with AsyncExitStack() as stack:
        heads: list[_Head] = []
        for name in jobs:
            runs = await stack.enter_async_context(aclosing(_newest_first(store, name, token)))
            if (first := await anext(runs, None)) is not None:
                heads.append(_Head(first, runs))
        heapq.heapify(heads)
        while heads:
            if len(found) == limit or (looked_at >= most and token is not None):
                return found, token, looked_at
            head = heads[0]
            if wanted.is_too_old(head.run):  # and so are all behind it
                break
            looked_at, token = looked_at + 1, head.run.id
            if wanted.has(head.run):
                found.append(run_view(head.run))
            if (behind := await anext(head.others, None)) is not None:
                heapq.heapreplace(heads, _Head(behind, head.others))
            else:
                heapq.heappop(heads)
    return found, None, looked_at


async def _newest_first(store: Store, job: str, token: str | None) -> AsyncGenerator[RunRecord, None]:
    after = _behind(job, token) if token else None
    while True:
        page = await store.scan(keys.runs(job), after=after, limit=PAGE)
        for entry in page.entries:
            if (run := understood(RunRecord, entry)) is not None:
                yield run
        if not page.more:
            return
        after = page.entries[-1].key


def _behind(job: str, token: str) -> Key:
    """The place to continue in a job's runs, behind a run of any job: of runs due together, the last job by name came
    first."""
    if job == job_of(token):
        return keys.run(token)
    moment = keys.run(f"{job}/{token.partition('/')[2].partition('-')[0]}")
    return f"{moment}~" if job > job_of(token) else f"{moment[:-1]}Y~"  # behind all of that moment, or before them


async def _jobs_with_runs(store: Store) -> list[str]:
    """The jobs that have a history, found by jumping from one to the next."""
    found: list[str] = []
    after: Key | None = None
    while True:
        page = await store.scan(keys.RUNS, after=after, limit=1)
        if not page.entries:
            return found
        found.append(job_of(keys.run_of(page.entries[0].key)))
        after = f"{keys.runs(found[-1])}~"  # behind everything of this job
