"""The scheduler: makes runs of due times, gives them to nodes, and takes them back from nodes that are lost.

Every node has one; they are equal. One of them, the feeder, acts at once, the others a little later and only on what is
still to be done then (`jobs.core.turn`). Correctness does not depend on that: a due time becomes a run in a commit that
moves the job's cursor, a run is bound in a commit that expects it as it was, and the second of two commits is refused.

A turn of the loop takes what is due, what waits and which nodes there are, decides all of it (`jobs.core`), writes it
in few commits, and notifies the nodes. What was refused is decided again in the next turn, from the state then.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from random import random

import msgspec

from rota.jobs.core import outcome as outcomes
from rota.jobs.core import turn
from rota.jobs.core.dispatch import BindRun, EligibleNode, dispatch, is_ready
from rota.jobs.core.due import BACKLOG, DueClaim, due, follow_up, next_due
from rota.jobs.core.records import JobCursor, JobSpec, Origin, RunRecord, RunState, order_for
from rota.jobs.fleet.members import PREFIXES, Members
from rota.jobs.fleet.notify import Bound, Notifier
from rota.jobs.fleet.owner import RunOwner
from rota.jobs.fleet.view import JobsView, Live
from rota.jobs.fleet.writing import Record, Step, StepWriter, at, moved
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import keys
from rota.model.errors import Unavailable
from rota.model.ids import Instant, Key, NodeId, Revision, SessionId
from rota.model.node import Node
from rota.store.clock import StoreClock
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Expect, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

MOST = 1000
"""Runs that one turn binds at most: deciding them holds up the event loop."""

TOGETHER = 40
"""Runs of a job with a limit that are bound in one commit, because they share its cursor."""

IDLE, CALM = 1.0, 15.0
"""Seconds between turns without events: while something waits, because no event reports that a node has room again; and
while nothing waits."""

RETRY = 0.2
"""Seconds before a failed write is retried."""

Tell = Callable[..., None]


class NodeStandings(msgspec.Struct, frozen=True):
    """What the rest of the node knows about other nodes, and about itself."""

    barred: Callable[[NodeId], str] = lambda _: ""
    """Why a node gets nothing: it is stopping, or cannot be reached."""

    share: Callable[[NodeId], float] = lambda _: 1.0
    """Which part of its executors a node may be given: one that has just come back gets less. The rest is a reserve."""


class _StepReport(msgspec.Struct, frozen=True):
    """The events and messages to send when a step is written."""

    bound: tuple[RunRecord, ...] = ()
    job: JobSpec | None = None
    """The job of these runs."""

    claim: DueClaim | None = None
    lost: RunRecord | None = None
    is_over: bool = False
    """Is the lost run over?"""


class Scheduler:
    """One node's part in the scheduling."""

    def __init__(
        self,
        store: Store,
        me: Node,
        view: JobsView,
        writer: StepWriter,
        owner: RunOwner,
        notifier: Notifier,
        store_clock: StoreClock,
        clock: Clock,
        tell: Tell,
        standing: NodeStandings | None = None,
        jitter: Callable[[], float] = random,
    ) -> None:
        self._jitter = jitter
        self._store, self._me, self._view, self._writer, self._owner = store, me, view, writer, owner
        self._notifier, self._store_clock, self._clock, self._tell = notifier, store_clock, clock, tell
        self._standing = standing or NodeStandings()
        self.members = Members()
        self._news, self._heard = notifier.news, 0
        self._next: dict[str, datetime] = {}
        """When each job is due next."""

        self._decided: dict[str, tuple[Revision, Revision | None]] = {}
        """Job → the record and the cursor from which its next due time was computed."""

        self._following: set[str] = set()
        """Jobs that come after others, of which something changed: they may be due."""

        self._served: dict[str, int] = {}
        """Job → the turn in which a run of it was last bound."""

        self._bindings_decided = 0

        self._ripening: dict[Key, Instant] = {}
        self._retry = IDLE

    async def run(self) -> None:
        """Follow, decide, commit and notify, until the session ends."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow_jobs(), name="follow jobs")
            for prefix in PREFIXES:
                parts.create_task(self._follow_members(prefix), name=f"follow {prefix}")
            await self._store_clock.is_known.wait()
            try:
                while True:
                    if not await self._turn():
                        await self._wait()
            finally:
                await self._notifier.close()

    # Following

    async def _follow_jobs(self) -> None:
        async with aclosing(follow_all(self._store, keys.JOBS_FOLLOWED, self._jitter)) as coming:
            async for news in coming:
                if news.is_whole:
                    before = set(self._view.jobs)
                    self._view.clear()
                    self._view.dirty |= before  # some jobs may be gone
                self._view.fold(news.changes, news.revision)
                self._news.ring()

    async def _follow_members(self, prefix: Key) -> None:
        async with aclosing(follow_all(self._store, prefix, self._jitter)) as coming:
            async for news in coming:
                if self.members.fold(prefix, news):
                    self._news.ring()

    async def _wait(self) -> None:
        """Wait until something has changed, or is due."""
        now = self._store_clock.now()
        coming = [*self._next.values(), *filter(None, map(self._view.next_ready, self._view.waiting))]
        seconds = turn.STEP.total_seconds() if self._ripening else self._retry
        if soonest := min((each for each in coming if each > now), default=None):
            seconds = min(seconds, (soonest - now).total_seconds())
        if await self._news.wait(self._heard, seconds) == self._heard:
            return
        if self._my_wait(now):  # waiting a little leaves less to do, because other nodes act meanwhile
            await asyncio.sleep(turn.STEP.total_seconds())

    # Deciding

    async def _turn(self) -> bool:
        """Do everything there is to do; returns whether something was written, so that there may be more."""
        self._heard = self._news.count
        if not self._view.revision or not self.members.is_known:
            return False
        now = self._store_clock.now()
        taken_back, self._notifier.refused = self._notifier.refused, []
        await self._owner.release(taken_back)
        self._look()
        if self._is_calm(now):  # true in most turns
            self._ripening, self._retry = {}, CALM
            return False
        steps = [*self._gone(now), *self._bindings(list(self._claims(now)), now), *await self._losses(now)]
        if not steps:
            self._ripening, self._retry = {}, IDLE
            return False
        ripe = self._ripe(steps, self._my_wait(now))
        written = await self._writer.write(ripe, self._report_all)  # those of the first commit begin at once
        self._retry = IDLE if len(written) == len(ripe) else RETRY
        return bool(written)

    def _is_calm(self, now: datetime) -> bool:
        """Is nothing due or waiting, and does every node with a run live? Then there is nothing to decide."""
        return (
            not self._view.waiting
            and not self._following
            and not any(at_ <= now for at_ in self._next.values())
            and self._view.at.keys() <= self.members.sessions.keys()
        )

    def _look(self) -> None:
        """Compute the next due times of the jobs of which something changed."""
        dirty, self._view.dirty = self._view.dirty, set()
        for name in sorted(dirty):
            known, cursor = self._view.jobs.get(name), self._view.cursors.get(name)
            if known is None:
                self._next.pop(name, None)
                self._decided.pop(name, None)
                self._following.discard(name)
                self._served.pop(name, None)
                continue
            if known.record.spec.after:
                self._following.add(name)
            by = known.modified, cursor[0] if cursor else None
            if self._decided.get(name) != by:
                self._decided[name] = by
                coming = next_due(known.record, cursor[1] if cursor else None)
                if coming is None:
                    self._next.pop(name, None)
                else:
                    self._next[name] = coming

    def _claims(self, now: datetime) -> Iterator[DueClaim]:
        view = self._view
        for name, at_ in self._next.items():
            if at_ > now:
                continue
            waiting = view.backlog(name, now, BACKLOG)
            if claim := due(view.jobs[name].record, view.cursor(name), now, waiting):
                yield claim
        for name in sorted(self._following):
            known = view.jobs[name]
            if claim := follow_up(known.record, known.created, view.cursor(name), view.successes, now):
                yield claim  # and again in the next turn, unless its cursor shows that it was written
            else:
                self._following.remove(name)

    def _bindings(self, claims: list[DueClaim], now: datetime) -> Iterator[Step]:
        """The runs to make and the runs to bind, grouped by job."""
        if not claims and not self._view.waiting:
            return  # true in most turns, and then the nodes need not be examined
        members = self._members()
        room = min(MOST, sum(member.room for member in members))
        share = max(TOGETHER, room // max(1, len(self._view.waiting)))
        made = {claim.job: claim for claim in claims}
        runs = [run for claim in claims for run in claim.runs if run.state is RunState.PENDING and is_ready(run, now)]
        waiting = {
            live.run.id: live for name in self._view.waiting for live in self._ready(name, now, min(room, share))
        }
        candidates = [*runs, *(live.run for live in waiting.values())]
        if not claims and (not room or not candidates):
            return
        jobs = {
            name: self._view.jobs[name].record.spec for name in {run.job for run in candidates} & self._view.jobs.keys()
        }
        plan = dispatch(candidates, jobs, self._view.bound, members, now, self._served)
        binds: dict[str, list[BindRun]] = {}
        for bind in plan.binds:
            binds.setdefault(bind.run.job, []).append(bind)
        self._bindings_decided += 1
        self._served |= dict.fromkeys(binds, self._bindings_decided)
        for name in dict.fromkeys((*made, *binds)):
            yield from self._job_steps(name, made.get(name), binds.get(name, []), waiting, now)

    def _ready(self, name: str, now: datetime, room: int) -> list[Live]:
        known = self._view.jobs.get(name)
        if known is None:
            return []
        limit = known.record.spec.concurrency
        most = room if limit is None else min(room, limit - self._view.bound[name], TOGETHER)
        return self._view.ready(name, now, most) if most > 0 else []

    def _job_steps(
        self, name: str, claim: DueClaim | None, binds: list[BindRun], waiting: Mapping[str, Live], now: datetime
    ) -> Iterator[Step]:
        known = self._view.jobs[name]
        bound = {bind.run.id: outcomes.bind(bind.run, bind.member.node, bind.member.session, now) for bind in binds}
        if claim is None and known.record.spec.concurrency is None:
            for run in bound.values():  # nothing keeps these together
                key = keys.live_run(run.id)
                yield Step({key: run}, (At(key, waiting[run.id].modified),), _StepReport((run,), known.record.spec))
            return
        cursor = self._view.cursors.get(name)
        writes: dict[Key, Record | None] = {}
        expect: list[Expect] = [at(keys.job_cursor(name), cursor[0] if cursor else None)]
        if claim is not None:
            expect.append(At(keys.job(name), known.modified))
            for run in claim.runs:
                key = keys.run(run.id) if run.is_over else keys.live_run(run.id)
                writes[key] = bound.get(run.id, run)
        for run in bound.values():
            if run.id in waiting:
                writes[keys.live_run(run.id)] = run
                expect.append(At(keys.live_run(run.id), waiting[run.id].modified))
        writes[keys.job_cursor(name)] = claim.cursor if claim else (cursor[1] if cursor else JobCursor())
        yield Step(writes, expect, _StepReport(tuple(bound.values()), known.record.spec, claim))

    def _gone(self, now: datetime) -> Iterator[Step]:
        """Runs whose job was deleted before they began."""
        for name in sorted(self._view.waiting.keys() - self._view.jobs.keys()):
            for live in self._view.ready(name, datetime.max.replace(tzinfo=now.tzinfo), 50):
                yield moved(live, outcomes.interrupt(live.run, "its job was deleted", now), _StepReport())

    def _members(self) -> list[EligibleNode]:
        at = self._view.at

        def taken(session: SessionId) -> int:
            return len(at.get(session, ()))

        return [
            replace(member, free=self._owner.free, spare=self._owner.spare, reserve=0)
            if member.session == self._me.session
            else member
            for member in self.members.members(taken, self._barred, self._standing.share)
        ]

    def _barred(self, node: NodeId) -> str:
        return self._notifier.barred(node) or self._standing.barred(node)

    def _my_wait(self, now: datetime) -> timedelta:
        return turn.wait(self._me.id, self.members.scores, self.members.feeder, now)

    def _ripe(self, steps: list[Step], wait: timedelta) -> list[Step]:
        """The work whose turn has come for this node; the rest is left to the nodes before it for a while."""
        now = self._clock.monotonic()
        named = {next(iter(step.writes)): step for step in steps}  # more work may have come meanwhile
        self._ripening = {name: self._ripening.get(name, now) for name in named} if wait else {}
        return [step for name, step in named.items() if now - self._ripening.get(name, now) >= wait.total_seconds()]

    # Reporting

    def _report_all(self, written: Mapping[Step, Revision]) -> None:
        here: list[Bound] = []
        elsewhere: list[Bound] = []
        for step, revision in written.items():
            report: _StepReport = step.about
            for run in report.bound:
                assert report.job is not None
                known = self._view.jobs.get(run.job)
                origin = known.record.origin if known is not None else Origin.API  # gone: the least trusted origin
                bound = Bound(Live(run, revision), order_for(run, report.job, revision, origin))
                (here if run.session == self._me.session else elsewhere).append(bound)
            if report.claim is not None:
                _report_missed(self._tell, report.claim)
            if report.lost is not None:
                run = report.lost
                self._tell("run.lost", run.id, attempt=run.attempt, lost_on=run.node, again=not report.is_over)
        for bound, why in zip(here, self._owner.begin([bound.order for bound in here]), strict=True):
            if why:
                self._notifier.take_back(self._me.id, bound, why)
        self._notifier.notify(elsewhere)

    # Taking back

    async def _losses(self, now: datetime) -> list[Step]:
        """Runs whose node's session has ended. This is read from the store itself, because the view may be behind."""
        living, found = self.members.sessions, []
        for session in [each for each in self._view.at if each not in living]:
            runs = list(self._view.owned(session))
            if runs and (fence := await self._has_ended(runs[0].run.node, session)):
                found += [_loss(live, fence, now) for live in runs]
        return found

    async def _has_ended(self, node: NodeId | None, session: SessionId) -> Expect | None:
        """The expectation that proves that a session has ended; None if it has not, or if that is unknown."""
        assert node is not None
        key = keys.node(node)
        try:
            entry = await self._store.get(key)
        except Unavailable:
            return None
        if entry is None:
            return Absent(key)
        there = understood(Node, entry, log)
        return At(key, entry.modified) if there is not None and there.session != session else None


def _loss(live: Live, fence: Expect, now: datetime) -> Step:
    after = outcomes.lose(live.run, live.epoch, now)
    return moved(live, after, _StepReport(lost=live.run, is_over=after.is_over), fence)


def _report_missed(tell: Tell, claim: DueClaim) -> None:
    for run in claim.runs:
        if run.skipped is not None:
            skipped = run.skipped
            tell(
                "job.missed",
                claim.job,
                count=skipped.count,
                first=skipped.first.isoformat(),
                last=skipped.last.isoformat(),
            )
