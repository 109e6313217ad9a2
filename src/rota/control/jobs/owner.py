"""Owner: what a node does with the runs that are bound to it.

Being bound is owning: a node that is told of a run begins it without another write. One that finds a run bound to it
of which nobody told it for a while takes it by itself, but writes that first (`accepted`), because whoever bound it may
be about to give it to somebody else, and of the two writes one is refused.

When an attempt ends, the run moves to the history, or waits for its next attempt, in one commit that expects its record
as it was. If that record is not ours any more, the outcome came late: it is kept with the run as evidence and changes
nothing. That an attempt is at work is only written when it lasts longer than a second: a short one costs its node one
commit, shared with others.

Outcomes wait in a queue that outlives sessions: what a node did while it was cut off is told by its next session.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec.structs import replace

from rota.control.jobs.clock import StoreClock
from rota.control.jobs.view import JobsView, Live, is_at
from rota.control.jobs.writing import Record, Step, Writer, at
from rota.decide.jobs import outcome as steps
from rota.decide.jobs.run_phases import RunEvent, may
from rota.kit.clock import Clock
from rota.model import keys
from rota.model.errors import Unavailable
from rota.model.ids import Instant, Key, NodeId, Revision, SessionId
from rota.model.job import JobSuccess, Mode, Outcome, RunOrder, RunRecord, RunState, Try, order_for
from rota.store.port import At, Entry
from rota.store.records import understood

log = logging.getLogger(__name__)

UNTOLD = 2.0
"""Seconds after which a node takes a run that is bound to it, and of which nobody told it."""

LASTING = 1.0
"""Seconds after which an attempt is written down as running."""

AHEAD = 0.2
"""Seconds of work that a node takes on beyond its free executors, as long as its runs are short enough for that."""

MOST_AHEAD = 256
PORTIONS = 4
"""What is taken on ahead comes in so many portions: one commit binds many, and there is still something to do."""

UNWRITTEN = 500
"""Outcomes that wait to be written: with more of them, a node takes nothing new."""

STUCK = 1.0
"""Seconds after which what was taken on ahead is given back: something slow is before it."""

TICK = 0.25
ENDS = 40
"""Outcomes that are written together; each takes two or three writes."""

LINGER = 0.02
"""Seconds for which outcomes wait for others that may come; while nothing else is at work here they do not."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT})
Tell = Callable[..., None]


class Runs(Protocol):
    """What runs attempts on this node."""

    @property
    def executors(self) -> int:
        """How many attempts run at a time."""

    @property
    def free(self) -> int:
        """How many more attempts would be accepted."""

    def start_many(self, orders: Sequence[RunOrder], ended: Callable[[RunOrder, Outcome], None]) -> list[str]:
        """Begin attempts, each once for each epoch: for each the reason if it is refused, else nothing."""

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        """End an attempt; False if it does not run here."""


class Ended(msgspec.Struct, frozen=True):
    """An attempt that is over, and under which session it was begun."""

    order: RunOrder
    session: SessionId
    outcome: Outcome


class Outcomes:
    """What attempts came to, until it is written; lives as long as the node."""

    def __init__(self) -> None:
        self.waiting: deque[Ended] = deque()
        self.news = asyncio.Event()
        self.settled = asyncio.Event()
        """Is everything written?"""

        self.settled.set()
        self.heed: Callable[[Ended], None] = _nobody
        """Called with each, while a session listens."""

    def add(self, ended: Ended) -> None:
        """One more."""
        self.waiting.append(ended)
        self.settled.clear()
        self.news.set()
        self.heed(ended)


@dataclass
class _Mine:
    """An attempt that was begun here."""

    order: RunOrder
    since: Instant | None = None
    """When it began; None while it waits for an executor."""

    is_over: bool = False
    """Has it ended, and only its end is to be written?"""

    is_marked: bool = False
    is_stopping: bool = False


class Owner:
    """The runs of one session of a node."""

    def __init__(
        self,
        node: NodeId,
        session: SessionId,
        runs: Runs,
        outcomes: Outcomes,
        writer: Writer,
        view: JobsView,
        store_clock: StoreClock,
        clock: Clock,
        may_act: Callable[[], bool],
        tell: Tell,
    ) -> None:
        self._may_act = may_act
        self._node, self._session, self._runs, self._outcomes = node, session, runs, outcomes
        self._writer, self._view, self._store_clock, self._clock, self._tell = writer, view, store_clock, clock, tell
        self._mine: dict[str, _Mine] = {}
        self._ahead: deque[tuple[RunOrder, Instant]] = deque()
        self._refused: list[tuple[RunOrder, str]] = []
        self._pace = 1.0
        """Seconds that runs of this node take, about."""

        self.has_room: Callable[[], None] = lambda: None
        """Called when an attempt has ended."""

        self.tick = TICK
        """Seconds between looks at what is bound here."""

        self._untold: dict[tuple[str, Revision], Instant] = {}
        self._quiet: dict[str, tuple[Revision, JobSuccess]] = {}
        """By job: its newest success that was written when no job was known to come after it, and when that was."""

        self._given_up: set[tuple[str, Revision]] = set()
        """Runs and epochs that this node gives back, or tried to: nobody may begin them here by being told."""

    @property
    def free(self) -> int:
        """How many more attempts would begin at once; none while too many ends are to be written."""
        return self._runs.free if len(self._outcomes.waiting) < UNWRITTEN else 0

    @property
    def spare(self) -> int:
        """How many more would be taken on ahead; none until it is a portion that is worth a commit."""
        room = self._most_ahead - len(self._ahead)
        is_portion = room > 0 and room * PORTIONS >= self._most_ahead
        return room if is_portion and len(self._outcomes.waiting) < UNWRITTEN else 0

    @property
    def _most_ahead(self) -> int:
        return min(MOST_AHEAD, int(AHEAD * self._runs.executors / self._pace))

    def begin(self, told: Sequence[RunOrder]) -> list[str]:
        """Begin attempts that are bound to this session, now or soon: for each why it is refused, or nothing."""
        reasons = [self._objection(order) for order in told]
        fresh = [order for order, why in zip(told, reasons, strict=True) if not why and not self._has(order)]
        refused, now = (
            dict(zip((order.run for order in fresh), self._start(fresh), strict=True)),
            self._clock.monotonic(),
        )
        for order in fresh:
            # Twice what was offered, for runs may have become slower since: what was refused would cost a second.
            if refused[order.run] and self._runs.free < 1 and len(self._ahead) < 2 * self._most_ahead:
                self._ahead.append((order, now))
                refused[order.run] = ""
                self._mine[order.run] = _Mine(order)
            elif not refused[order.run]:
                self._mine[order.run] = _Mine(order, now)
        return [why or refused.get(order.run, "") for order, why in zip(told, reasons, strict=True)]

    def _has(self, order: RunOrder) -> bool:
        mine = self._mine.get(order.run)
        return mine is not None and mine.order.epoch == order.epoch

    def _objection(self, order: RunOrder) -> str:
        live, is_seen = self._view.live.get(order.run), self._view.revision >= order.epoch
        if order.session != self._session or (is_seen and not is_at(live, self._node, self._session, order.epoch)):
            return "it is not bound to this node any more"
        if (order.run, order.epoch) in self._given_up:
            return "this node has given it back"
        return "" if self._may_act() else f"node {self._node} does not know whether its lease still lasts"

    def _start(self, orders: Sequence[RunOrder]) -> list[str]:
        if not self._may_act():
            return ["the lease may be over"] * len(orders)
        outcomes, session = self._outcomes, self._session
        return self._runs.start_many(orders, lambda order, outcome: outcomes.add(Ended(order, session, outcome)))

    def _ended(self, ended: Ended) -> None:
        """An attempt has ended: its executor gets the next one."""
        seconds, mine = ended.outcome.seconds, self._mine.get(ended.order.run)
        if mine is not None and mine.order.epoch == ended.order.epoch:
            mine.is_over = True
            if mine.since is not None and ended.order.mode is Mode.PROCESS:  # its process took time to come and go
                seconds = self._clock.monotonic() - mine.since
        self._pace += 0.1 * (max(seconds, 0.0005) - self._pace)
        while self._ahead and not self._start([self._ahead[0][0]])[0]:
            begun = self._mine.get(self._ahead.popleft()[0].run)
            if begun is not None:
                begun.since = self._clock.monotonic()
        if self.free or self.spare:
            self.has_room()

    async def run(self) -> None:
        """Look after them, until the session ends."""
        self._outcomes.heed = self._ended
        await self._store_clock.is_known.wait()
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._write_outcomes(), name="outcomes of runs")
                parts.create_task(self._look_after(), name="runs")
        finally:
            self._outcomes.heed = _nobody

    # What is bound to us

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(self.tick)
            self._forget_given()
            await self._take_untold()
            self._stop_what_should()
            await self._give_back()
            await self._mark_running()
            await self._tell_followers()

    async def _take_untold(self) -> None:
        now = self._clock.monotonic()
        ids = self._view.at.get(self._session, {}).keys() - self._mine.keys()
        untold = {(id, live.epoch): live for id in sorted(ids) for live in (self._view.live[id],)}
        self._untold = {key: self._untold.get(key, now) for key in untold}
        ripe = [live for key, live in untold.items() if now - self._untold[key] >= UNTOLD]
        if not ripe:
            return
        takes = [_step(live, steps.accept(live.run, live.epoch)) for live in ripe if self._may_take(live)]
        for step in await self._writer.write(takes):
            self._given_up.discard((step.about.run.id, step.about.epoch))  # what was written decides
            self._begin_taken(step.about)
        await self.release([(live, self._why_not(live)) for live in ripe if not self._may_take(live)])

    def _may_take(self, live: Live) -> bool:
        return not self._why_not(live) and may(live.run, RunEvent.TAKEN)

    def _why_not(self, live: Live) -> str:
        if live.run.stop:
            return live.run.stop
        return "" if live.run.job in self._view.jobs else "its job is gone"

    def _begin_taken(self, live: Live) -> None:
        known = self._view.jobs.get(live.run.job)
        if known is not None:
            (why,) = self.begin([order_for(live.run, known.record.spec, live.epoch, known.record.origin)])
            if why:
                log.info("run not taken", extra={"run": live.run.id, "why": why})

    async def release(self, refused: Sequence[tuple[Live, str]]) -> None:
        """Give back runs that certainly were not begun, with the reasons.

        If the answer gets lost, they may be somebody else's already: they stay given up here as long as they seem ours.
        """
        if not refused:
            return
        now = self._store_clock.now()
        given = [(live, why) for live, why in refused if self._may_release(live)]
        self._given_up |= {(live.run.id, live.epoch) for live, _ in given}
        await self._writer.write([_move(live, steps.release(live.run, now, why)) for live, why in given])

    def _may_release(self, live: Live) -> bool:
        mine = self._mine.get(live.run.id)
        is_ours = mine is not None and mine.order.epoch == live.epoch
        return not is_ours and may(live.run, RunEvent.GIVEN_BACK)

    def _forget_given(self) -> None:
        """Forget what was given back, once that is seen."""
        self._given_up = {
            (id, epoch)
            for id, epoch in self._given_up
            if self._view.revision < epoch or is_at(self._view.live.get(id), self._node, self._session, epoch)
        }

    async def _give_back(self) -> None:
        """Give back what was taken on ahead and cannot begin, or waits behind something slow."""
        now = self._clock.monotonic()
        while self._ahead and now - self._ahead[0][1] >= STUCK:
            told, _ = self._ahead.popleft()
            self._refused.append((told, f"node {self._node} was slower than it thought"))
            self._pace = 1.0
        refused, self._refused = self._refused, []
        found = []
        for told, why in refused:
            self._mine.pop(told.run, None)
            live = self._view.live.get(told.run)
            if live is not None and is_at(live, self._node, self._session, told.epoch):
                found.append((live, why))
        await self.release(found)

    def _stop_what_should(self) -> None:
        for id in sorted(self._view.stopping & self._mine.keys()):
            live, mine = self._view.live[id], self._mine[id]
            if live.epoch == mine.order.epoch and not mine.is_stopping:
                mine.is_stopping = True
                if not self._take_out(mine.order, live.run.stop):
                    self._runs.interrupt(live.run.id, mine.order.attempt, live.run.stop)

    def _take_out(self, told: RunOrder, why: str) -> bool:
        """Take a run out again that was taken on ahead; False if it has begun."""
        for queued in self._ahead:
            if queued[0] is told:
                self._ahead.remove(queued)
                self._refused.append((told, why))
                return True
        return False

    async def _mark_running(self) -> None:
        now, wall = self._clock.monotonic(), self._store_clock.now()
        lasting = [
            live
            for id, mine in self._mine.items()
            if mine.since is not None
            and now - mine.since >= LASTING
            and not (mine.is_marked or mine.is_over)
            and is_at(live := self._view.live.get(id), self._node, self._session, mine.order.epoch)
            and live is not None
            and may(live.run, RunEvent.LASTED)
        ]
        marks = [_step(live, steps.begin(live.run, live.epoch, wall)) for live in lasting]
        for step in await self._writer.write(marks):
            if (mine := self._mine.get(step.about.run.id)) is not None:
                mine.is_marked = True

    # What came of it

    async def _write_outcomes(self) -> None:
        queue = self._outcomes
        while True:
            await queue.news.wait()
            if len(queue.waiting) < min(ENDS, len(self._mine)):
                await asyncio.sleep(LINGER)
            batch = [queue.waiting.popleft() for _ in range(min(ENDS * 4, len(queue.waiting)))]
            if not queue.waiting:
                queue.news.clear()
            try:
                left = await self._end(batch)
                batch = [ended for ended in left if not await self._settle(ended)]
            except Unavailable as error:
                log.debug("outcomes not written yet", extra={"why": str(error)})
            except BaseException:
                queue.waiting.extendleft(reversed(batch))
                queue.news.set()  # the next session has to know of them
                raise
            else:
                if not batch:
                    if not queue.waiting:
                        queue.settled.set()
                    continue
            queue.waiting.extendleft(reversed(batch))
            queue.news.set()
            await asyncio.sleep(RETRY)

    async def _end(self, batch: Iterable[Ended]) -> list[Ended]:
        """Write what the view shows to be ours; the rest comes back."""
        now, left, moves = self._store_clock.now(), [], []
        for ended in batch:
            live = self._view.live.get(ended.order.run)
            if live is not None and is_at(live, self._node, ended.session, ended.order.epoch):
                moves.append(self._ending(live, ended, steps.end(live.run, ended.outcome, live.epoch, now)))
            else:
                left.append(ended)
        written = await self._writer.write(moves)
        for move in moves:
            if move in written:
                self._forget(move.about)
                self._tell_failed(move)
                self._note_quiet(move, written[move])
            else:
                left.append(move.about)
        return left

    def _note_quiet(self, move: Step, revision: Revision) -> None:
        """Remember a success that nobody seemed to follow, until the view has come as far as it was written."""
        runs = [run for run in move.writes.values() if isinstance(run, RunRecord)]
        for run in runs:
            if run.state is RunState.SUCCEEDED and run.ended and keys.job_success(run.job) not in move.writes:
                self._quiet[run.job] = revision, JobSuccess(run=run.id, at=run.ended)

    async def _tell_followers(self) -> None:
        """Write successes that a job follows which was made before them, and of which this node did not know then."""
        found, view = list[Step](), self._view
        for job, (revision, success) in list(self._quiet.items()):
            followers = view.followers.get(job, set())
            if any(view.jobs[name].created < revision for name in followers):
                key, seen = keys.job_success(job), view.successes.get(job)
                if seen is None or seen[0] < revision:
                    found.append(Step({key: success}, (at(key, seen[0] if seen else None),), job))
                    continue
            elif view.revision < revision:
                continue
            del self._quiet[job]
        for step in await self._writer.write(found):
            self._quiet.pop(step.about, None)

    def _ending(self, live: Live, ended: Ended, after: RunRecord) -> Step:
        move = _move(live, after, ended)
        if after.state is not RunState.SUCCEEDED or not self._view.followers.get(after.job):
            return move
        assert after.ended is not None
        success: dict[Key, Record | None] = {keys.job_success(after.job): JobSuccess(run=after.id, at=after.ended)}
        return Step({**move.writes, **success}, move.expect, ended)

    def _tell_failed(self, move: Step) -> None:
        for run in move.writes.values():
            if isinstance(run, RunRecord) and run.state in FAILURES and run.outcome is not None:
                why = run.outcome.error
                self._tell("run.failed", run.id, state=run.state.value, attempt=run.attempt, node=run.node, why=why)

    def _forget(self, ended: Ended) -> None:
        mine = self._mine.get(ended.order.run)
        if mine is not None and mine.order.epoch == ended.order.epoch:
            del self._mine[ended.order.run]

    async def _settle(self, ended: Ended) -> bool:
        """Look at the store itself: end the run, or keep the outcome as late, or find that it is written."""
        store, told = self._writer.store, ended.order
        entry = await store.get(keys.live_run(told.run))
        if entry is not None:
            found = understood(RunRecord, entry, log)
            if found is None:  # a newer Rota's: nothing of ours
                return True
            live = Live(found, entry.modified)
            if is_at(live, self._node, ended.session, told.epoch):
                after = steps.end(live.run, ended.outcome, live.epoch, self._store_clock.now())
                move = self._ending(live, ended, after)
                written = await self._writer.write([move])
                if is_done := move in written:
                    self._tell_failed(move)
                    self._note_quiet(move, written[move])
            elif any(
                each.epoch == told.epoch and each.outcome.state is ended.outcome.state for each in live.run.earlier
            ):
                is_done = True  # it was written, and its answer got lost
            else:
                is_done = await self._keep_late(entry, live.run, ended)
        else:
            entry = await store.get(keys.run(told.run))
            run = understood(RunRecord, entry, log)
            is_written = run is not None and run.epoch == told.epoch and run.state is ended.outcome.state
            is_done = is_written or run is None or entry is None or await self._keep_late(entry, run, ended)
        if is_done:
            self._forget(ended)
        return is_done

    async def _keep_late(self, entry: Entry, run: RunRecord, ended: Ended) -> bool:
        told = ended.order
        late = Try(
            attempt=told.attempt,
            epoch=told.epoch,
            node=self._node,
            outcome=ended.outcome,
            ended=self._store_clock.now(),
        )
        kept = steps.add_late(run, late)
        if kept is run:
            return True
        if run.is_bound:
            kept = replace(kept, epoch=run.epoch_at(entry.modified))
        if not await self._writer.write([Step({entry.key: kept}, (At(entry.key, entry.modified),))]):
            return False
        self._tell("run.late", told.run, state=ended.outcome.state.value, attempt=told.attempt, final=run.state.value)
        return True


def _step(live: Live, after: RunRecord) -> Step:
    """Another state of a run that lives on."""
    key = keys.live_run(live.run.id)
    return Step({key: after}, (at(key, live.modified),), live)


def _move(live: Live, after: RunRecord, about: object = None) -> Step:
    """A run's next state, in the place where it belongs."""
    key = keys.live_run(live.run.id)
    writes: dict[Key, Record | None] = {key: None, keys.run(after.id): after} if after.is_over else {key: after}
    return Step(writes, (at(key, live.modified),), about if about is not None else live)


def _nobody(ended: Ended) -> None:
    """Nobody listens."""
