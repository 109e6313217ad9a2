"""Every node's view of the jobs: what is to be done, up to where it is decided, and the runs that live.

It is read whole at one revision, and then kept true by one watch over everything that begins with `/job`. What this
node has written itself is taken in at once (`wrote`), and left alone when the watch brings it: it is not read a second
time, and no decision waits for it.

A write that is applied early may overtake commits that the watch still brings. That does no harm: a decision that may
be made only once expects the record it was based on, and an older version of a key that this node wrote later is
dropped.
"""

import heapq
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec

from rota.jobs.core.dispatch import is_ready
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSuccess, RunRecord, RunState
from rota.model import keys
from rota.model.ids import Key, NodeId, Revision, SessionId
from rota.store.port import Change, Entry
from rota.store.records import understood

log = logging.getLogger(__name__)

SWEEP = timedelta(seconds=10)
NEVER = datetime.min.replace(tzinfo=UTC)


class KnownJob(msgspec.Struct, frozen=True):
    """A job's record, and when it was made and last written."""

    record: JobRecord
    created: Revision
    modified: Revision


class Live(msgspec.Struct, frozen=True):
    """A run that is not over, and the revision of its record."""

    run: RunRecord
    modified: Revision

    @property
    def epoch(self) -> Revision:
        """The epoch of its attempt, if it is bound."""
        return self.run.epoch_at(self.modified)


class JobsView:
    """Jobs, cursors, successes and living runs."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next changes are the complete state."""
        self.revision = Revision(0)
        self.jobs: dict[str, KnownJob] = {}
        self.cursors: dict[str, tuple[Revision, JobCursor]] = {}
        self.successes: dict[str, tuple[Revision, JobSuccess]] = {}
        self.followers: defaultdict[str, set[str]] = defaultdict(set)
        """By job: those that come after it."""

        self.live: dict[str, Live] = {}
        self.bound: Counter[str] = Counter()
        """By job: runs that are bound."""

        self.waiting: Counter[str] = Counter()
        """By job: runs that are pending."""

        self.at: defaultdict[SessionId, dict[str, None]] = defaultdict(dict)
        """By session: the runs that are bound to it."""

        self.stopping: set[str] = set()
        """Runs that callers want stopped."""

        self.dirty: set[str] = set()
        """Jobs of which something changed."""

        self._scheduled: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """By job: pending runs of its schedule."""

        self._queues: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        """Job → its pending runs, the one due first in front; some may have been bound meanwhile."""

        self._delayed: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        """Job → its pending runs that wait for their time, likewise."""

        self._swept: dict[str, datetime] = {}
        """Job → when all its runs that wait for their time were last checked."""

        self._ahead: dict[Key, Revision] = {}

    # Changes

    def fold(self, changes: tuple[Change, ...], revision: Revision) -> None:
        """Apply what the watch brings."""
        for change in changes:
            ahead = self._ahead.get(change.key)
            if ahead is not None:
                if ahead <= revision:
                    del self._ahead[change.key]
                if ahead >= revision:  # this node wrote this version, or a later one
                    continue
            self._see(change.key, change.entry)
        self.revision = revision

    def wrote(self, key: Key, record: RunRecord | JobCursor | None, revision: Revision) -> None:
        """Apply what this node has just written, before the watch brings it."""
        if revision <= self.revision:  # the watch was faster
            return
        self._ahead[key] = revision
        if key.startswith(keys.LIVE_RUNS):
            assert record is None or isinstance(record, RunRecord)
            self._set_run(key.removeprefix(keys.LIVE_RUNS), Live(record, revision) if record else None)
        elif isinstance(record, JobCursor):
            self._set_cursor(key.removeprefix(keys.JOB_CURSORS), (revision, record))

    # Queries

    def ready(self, job: str, now: datetime, most: int) -> list[Live]:
        """The pending runs of a job that only wait for a node, the oldest first."""
        self._sweep(job, now)
        delayed, queue = self._delayed[job], self._queues[job]
        while delayed:
            live = self._pending(delayed[0][1])
            if live is not None and not is_ready(live.run, now):
                break
            heapq.heappop(delayed)
            if live is not None:
                heapq.heappush(queue, (live.run.due, live.run.id))
        found: dict[str, Live] = {}
        while queue and len(found) < most:
            live = self._pending(heapq.heappop(queue)[1])
            if live is None:
                continue
            if is_ready(live.run, now):
                found[live.run.id] = live
            else:  # it was ready by a clock that was set back since, or it waits again since this entry
                self._enqueue(live.run)
        for live in found.values():
            heapq.heappush(queue, (live.run.due, live.run.id))
        return list(found.values())

    def backlog(self, job: str, now: datetime, most: int) -> int:
        """How many runs of a job's schedule only wait for a node, `most` at most."""
        ready = (id for id in self._scheduled.get(job, ()) if is_ready(self.live[id].run, now))
        return sum(1 for _ in islice(ready, most))

    def _sweep(self, job: str, now: datetime) -> None:
        """Periodically check all runs that wait for their time: one that was timed by a clock set back since is queued
        too late."""
        if timedelta() <= now - self._swept.get(job, NEVER) < SWEEP:
            return
        self._swept[job] = now
        delayed, self._delayed[job] = self._delayed[job], []
        for at, id in delayed:
            live = self._pending(id)
            if live is not None and is_ready(live.run, now):
                heapq.heappush(self._queues[job], (live.run.due, id))
            elif live is not None:
                heapq.heappush(self._delayed[job], (at, id))

    def next_ready(self, job: str) -> datetime | None:
        """When the first of the runs that wait for their time becomes ready; None if none waits."""
        delayed = self._delayed.get(job)
        return delayed[0][0] if delayed else None

    def _pending(self, id: str) -> Live | None:
        live = self.live.get(id)
        return live if live is not None and live.run.state is RunState.PENDING else None

    def owned(self, session: SessionId) -> Iterator[Live]:
        """The runs that are bound to a session."""
        for id in list(self.at.get(session, ())):
            yield self.live[id]

    def cursor(self, job: str) -> JobCursor | None:
        """Up to where a job is decided."""
        found = self.cursors.get(job)
        return found[1] if found else None

    # How it is kept

    def _see(self, key: Key, entry: Entry | None) -> None:
        if key.startswith(keys.LIVE_RUNS):
            run = understood(RunRecord, entry, log)
            live = Live(run, entry.modified) if run is not None and entry is not None else None
            self._set_run(key.removeprefix(keys.LIVE_RUNS), live)
        elif key.startswith(keys.JOB_CURSORS):
            cursor = understood(JobCursor, entry, log)
            name = key.removeprefix(keys.JOB_CURSORS)
            self._set_cursor(name, (entry.modified, cursor) if cursor is not None and entry is not None else None)
        elif key.startswith(keys.JOB_SUCCESSES):
            self._set_success(key.removeprefix(keys.JOB_SUCCESSES), entry)
        elif key.startswith(keys.JOBS):
            self._set_job(key.removeprefix(keys.JOBS), entry)

    def _set_run(self, id: str, live: Live | None) -> None:
        old = self.live.pop(id, None)
        if live is not None and live.run.stop:
            self.stopping.add(id)
        else:
            self.stopping.discard(id)
        if old is not None:
            self._count(old.run, -1)
            self.dirty.add(old.run.job)
        if live is not None:
            self.live[id] = live
            self._count(live.run, 1)
            self.dirty.add(live.run.job)
            if live.run.state is RunState.PENDING:
                self._enqueue(live.run)

    def _enqueue(self, run: RunRecord) -> None:
        if run.not_before is None:
            heapq.heappush(self._queues[run.job], (run.due, run.id))
        else:
            heapq.heappush(self._delayed[run.job], (run.not_before, run.id))

    def _count_scheduled(self, run: RunRecord, by: int) -> None:
        if run.state is not RunState.PENDING or run.cause is not Cause.SCHEDULE:
            return
        if by > 0:
            self._scheduled[run.job][run.id] = None
        else:
            self._scheduled[run.job].pop(run.id, None)
            if not self._scheduled[run.job]:
                del self._scheduled[run.job]

    def _count(self, run: RunRecord, by: int) -> None:
        self._count_scheduled(run, by)
        counter = self.bound if run.is_bound else self.waiting
        counter[run.job] += by
        if not counter[run.job]:
            del counter[run.job]
        if run.is_bound and run.session is not None:
            if by > 0:
                self.at[run.session][run.id] = None
            else:
                self.at[run.session].pop(run.id, None)
                if not self.at[run.session]:
                    del self.at[run.session]

    def _set_cursor(self, name: str, found: tuple[Revision, JobCursor] | None) -> None:
        if found is None:
            self.cursors.pop(name, None)
        else:
            self.cursors[name] = found
        self.dirty.add(name)

    def _set_success(self, name: str, entry: Entry | None) -> None:
        success = understood(JobSuccess, entry, log)
        if success is None or entry is None:
            self.successes.pop(name, None)
        else:
            self.successes[name] = entry.modified, success
        self.dirty |= self.followers.get(name, set())

    def _set_job(self, name: str, entry: Entry | None) -> None:
        if (old := self.jobs.pop(name, None)) is not None:
            for other in old.record.spec.after:
                self.followers[other].discard(name)
        record = understood(JobRecord, entry, log)
        if record is not None and entry is not None:
            self.jobs[name] = KnownJob(record, entry.created, entry.modified)
            for other in record.spec.after:
                self.followers[other].add(name)
        self.dirty.add(name)


def is_at(live: Live | None, node: NodeId, session: SessionId, epoch: int) -> bool:
    """Is a run bound to this session of this node, under this epoch?"""
    return (
        live is not None
        and live.run.is_bound
        and live.run.node == node
        and live.run.session == session
        and live.epoch == epoch
    )
