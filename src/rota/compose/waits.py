"""Waits: the leader reports what waits too long, and when that is over.

It covers resources that lack tasks, streams that are far behind their source, and runs that get no node. Resources are
followed; streams and runs are checked every `LOOK` seconds, `LOOKED` runs at most. An event and the record of its
episode are one commit, fenced by the term: a new leader finds what was reported already, and reports its end. How long
a resource or a stream has waited is counted by each leader anew, because the store does not record it. A run that waits
because of its job's limit needs no node, and is not reported.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import count

from rota.fleet.core.events.episode import Episode, Wait
from rota.fleet.core.events.waiting import OpenWait, step
from rota.fleet.events.event_log import event_put
from rota.fleet.leading.term import Term
from rota.jobs.core.dispatch import is_ready, ready_since
from rota.jobs.core.records import JobRecord, RunRecord, RunState
from rota.model import codec, keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.event import Value
from rota.model.ids import Key, NodeId
from rota.placement.fleet.placing import Placing
from rota.resources.core.records import ResourceStatus
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Delete, Entry, Put
from rota.store.records import understood
from rota.streams.core.records import KIND as STREAM
from rota.streams.core.records import StreamStatus

log = logging.getLogger(__name__)

LOOK = 10.0
"""Seconds between two checks."""

LOOKED = 10_000
"""Runs not over that one check reads at most."""

BEGUN = {Wait.RESOURCE: "resource.waits", Wait.STREAM: "stream.lags", Wait.RUN: "run.waits"}
OVER = {Wait.RESOURCE: "resource.wait_over", Wait.STREAM: "stream.lag_over", Wait.RUN: "run.wait_over"}

PAGE = 1000

EVER = datetime.min.replace(tzinfo=UTC)

FIRST = 700_000
"""The first number of these events; a node counts its other events from 1."""


async def report_waits(term: Term, node: NodeId, placing: Placing, *, look: float = LOOK) -> None:
    """Report what waits too long, until the term ends."""
    await _Waits(term, node, placing).run(look)


class _Waits:
    def __init__(self, term: Term, node: NodeId, placing: Placing) -> None:
        self._term, self._node, self._placing = term, node, placing
        self._pending: dict[str, str] = {}
        """Resource → why it lacks tasks."""

        self._is_read = asyncio.Event()
        self._since: dict[tuple[Wait, str], datetime] = {}
        """Since when this leader has seen each of them wait."""

        self._full: dict[str, datetime] = {}
        """Job with waiting runs → when this leader last saw it at its limit of runs."""

        self._numbers = count(FIRST)

    async def run(self, look: float) -> None:
        """Follow and check, until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="resources that wait")
            await self._is_read.wait()
            while True:
                try:
                    await self._look()
                except (Conflict, Unavailable, Unknown) as error:  # the next check reads everything again
                    log.debug("waits not reported", extra={"why": str(error)})
                await asyncio.sleep(look)

    async def _follow(self) -> None:
        async with aclosing(follow_all(self._term.store, keys.RESOURCE_STATUS)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._pending.clear()
                for change in news.changes:
                    self._see(change.key.removeprefix(keys.RESOURCE_STATUS), change.entry)
                self._is_read.set()

    def _see(self, name: str, entry: Entry | None) -> None:
        status = understood(ResourceStatus, entry, log)
        if status is not None and status.assigned < status.replicas and not name.startswith(STREAM):
            self._pending[name] = status.pending
        else:
            self._pending.pop(name, None)

    async def _look(self) -> None:
        now, config = await self._term.store.now(), self._placing.current.config
        reported = await self._reported()
        behind = await self._streams(config.lag_limit)
        await self._report(
            Wait.RESOURCE, reported, self._aged(Wait.RESOURCE, self._pending, now), config.pending_after, now
        )
        lagging = self._aged(Wait.STREAM, behind, now)
        await self._report(Wait.STREAM, reported, lagging, config.lag_after, now)
        runs = (
            await self._runs([subject for wait, subject in reported if wait is Wait.RUN], now)
            if config.run_after
            else {}
        )
        await self._report(Wait.RUN, reported, runs, config.run_after, now)

    def _aged(self, wait: Wait, found: dict[str, str], now: datetime) -> dict[str, OpenWait]:
        """What waits, and since when this leader has seen it."""
        for known in [each for each in self._since if each[0] is wait and each[1] not in found]:
            del self._since[known]
        return {name: OpenWait(self._since.setdefault((wait, name), now), why) for name, why in found.items()}

    async def _reported(self) -> dict[tuple[Wait, str], tuple[Entry, Episode]]:
        entries = (await self._term.store.scan(keys.EPISODES)).entries
        found = [(entry, understood(Episode, entry, log)) for entry in entries]
        return {(each.wait, each.subject): (entry, each) for entry, each in found if each is not None}

    async def _streams(self, limit: int) -> dict[str, str]:
        if not limit:
            return {}
        found = [understood(StreamStatus, entry) for entry in (await self._term.store.scan(keys.STREAM_STATUS)).entries]
        lagging = [each for each in found if each is not None and each.lag > limit]
        return {each.stream: f"it is {each.lag} records behind its source" for each in lagging}

    async def _runs(self, reported: Iterable[str], now: datetime) -> dict[str, OpenWait]:
        """Runs that only wait for a node, up to `LOOKED` of them, and runs that were reported."""
        found = await self._living()
        if len(found) >= LOOKED:
            known = {entry.key for entry in found}
            missing = [keys.live_run(run) for run in reported if keys.live_run(run) not in known]
            found += [entry for key in missing if (entry := await self._term.store.get(key)) is not None]
        runs = [run for entry in found if (run := understood(RunRecord, entry)) is not None]
        waiting = [run for run in runs if run.state is RunState.PENDING and is_ready(run, now)]
        bound = Counter(run.job for run in runs if run.state is not RunState.PENDING)
        await self._look_at_limits({run.job for run in waiting}, bound, now)
        return {
            run.id: OpenWait(max(ready_since(run), self._full.get(run.job, EVER)), f"ask: rota why run {run.id}")
            for run in waiting
            if self._full.get(run.job) != now
        }

    async def _look_at_limits(self, jobs: Collection[str], bound: Mapping[str, int], now: datetime) -> None:
        """Note which of these jobs are at their limit of runs."""
        self._full = {job: at for job, at in self._full.items() if job in jobs}
        for job in sorted(bound.keys() & set(jobs)):
            record = understood(JobRecord, await self._term.store.get(keys.job(job)))
            limit = record.spec.concurrency if record is not None else None
            if limit is not None and bound[job] >= limit:
                self._full[job] = now

    async def _living(self) -> list[Entry]:
        """Runs that are not over, `LOOKED` at most."""
        found: list[Entry] = []
        after: Key | None = None
        while len(found) < LOOKED:
            page = await self._term.store.scan(keys.LIVE_RUNS, after=after, limit=min(PAGE, LOOKED - len(found)))
            found += page.entries
            if not page.more:
                break
            after = page.entries[-1].key
        return found

    async def _report(
        self,
        wait: Wait,
        reported: dict[tuple[Wait, str], tuple[Entry, Episode]],
        waiting: dict[str, OpenWait],
        after: timedelta,
        now: datetime,
    ) -> None:
        """Write the events that are due, each with its episode."""
        known = {subject: each for (sort, subject), each in reported.items() if sort is wait}
        found = step(known.keys(), waiting, after, now)
        for subject in found.begun:
            since, why = waiting[subject].since, waiting[subject].why
            episode = Put(keys.episode(wait, subject), codec.encode(Episode(wait=wait, subject=subject, since=since)))
            await self._write(BEGUN[wait], subject, now - since, why, now, episode, Absent(episode.key))
        for subject in found.over:
            entry, episode_was = known[subject]
            took = now - episode_was.since
            await self._write(OVER[wait], subject, took, "", now, Delete(entry.key), At(entry.key, entry.modified))

    async def _write(
        self,
        kind: str,
        subject: str,
        took: timedelta,
        why: str,
        now: datetime,
        change: Put | Delete,
        expect: At | Absent,
    ) -> None:
        fields: dict[str, Value] = {"seconds": round(took.total_seconds()), **({"why": why} if why else {})}
        event = event_put(kind, subject, fields, node=self._node, at=now, number=next(self._numbers))
        await self._term.commit(change, event, expect=[expect, Absent(event.key)])
        level = logging.WARNING if kind in BEGUN.values() else logging.INFO
        log.log(level, kind.replace(".", " "), extra={"subject": subject, **fields})
