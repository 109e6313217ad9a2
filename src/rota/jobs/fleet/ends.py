"""Ends: the outcomes of attempts, written to the store: as the end of their run, or as a late outcome that changes
nothing.

When an attempt ends, the run moves to the history, or waits for its next attempt, in one commit that expects its record
as it was. If that record does not belong to this attempt any more, the outcome came late: it is kept with the run as
evidence and changes nothing.

Outcomes wait in a queue that outlives sessions: what a node did while it was cut off is written by its next session.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from rota.jobs.core import outcome as steps
from rota.jobs.core.records import JobSuccess, Outcome, RunOrder, RunRecord, RunState, Try
from rota.jobs.fleet.view import JobsView, Live, is_at
from rota.jobs.fleet.writing import Record, Step, StepWriter, at, moved
from rota.model import keys
from rota.model.errors import Unavailable
from rota.model.ids import Key, NodeId, Revision, SessionId
from rota.store.clock import StoreClock
from rota.store.port import At, Entry
from rota.store.records import understood

log = logging.getLogger(__name__)

TOGETHER = 40
"""Outcomes that are written together; each takes two or three writes."""

LINGER = 0.02
"""Seconds for which outcomes wait for more to be written together; they do not wait if no other attempt is running
here."""

RETRY = 0.5
"""Seconds between retries while the store is out of reach."""

FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT})
Tell = Callable[..., None]


class EndedAttempt(msgspec.Struct, frozen=True):
    """An attempt that is over, and the session that began it."""

    order: RunOrder
    session: SessionId
    outcome: Outcome


class PendingOutcomes:
    """Outcomes of attempts that are not written yet; lives as long as the node."""

    def __init__(self) -> None:
        self.waiting: deque[EndedAttempt] = deque()
        self.news = asyncio.Event()
        self.settled = asyncio.Event()
        """Is everything written?"""

        self.settled.set()
        self.heed: Callable[[EndedAttempt], None] = unheeded
        """Called with each new outcome while a session listens."""

    def add(self, ended: EndedAttempt) -> None:
        """Add an outcome."""
        self.waiting.append(ended)
        self.settled.clear()
        self.news.set()
        self.heed(ended)


class Ends:
    """The ends of one session's attempts, and of those that earlier sessions have not written."""

    def __init__(
        self,
        node: NodeId,
        outcomes: PendingOutcomes,
        writer: StepWriter,
        view: JobsView,
        store_clock: StoreClock,
        tell: Tell,
        under_way: Callable[[], int],
        written: Callable[[EndedAttempt], None],
    ) -> None:
        """`under_way` counts this session's attempts without an end in the store; `written` is called when one is
        written."""
        self._node, self._outcomes, self._writer, self._view = node, outcomes, writer, view
        self._store_clock, self._tell, self._under_way, self._written = store_clock, tell, under_way, written
        self._quiet: dict[str, tuple[Revision, JobSuccess]] = {}
        """Job → its newest success written while no job was known to come after it, and the revision of that write."""

    async def write(self) -> None:
        """Write outcomes as they come, until cancelled."""
        queue = self._outcomes
        while True:
            await queue.news.wait()
            if len(queue.waiting) < min(TOGETHER, self._under_way()):
                await asyncio.sleep(LINGER)
            batch = [queue.waiting.popleft() for _ in range(min(TOGETHER * 4, len(queue.waiting)))]
            if not queue.waiting:
                queue.news.clear()
            try:
                left = await self._end(batch)
                batch = [ended for ended in left if not await self._settle(ended)]
            except Unavailable as error:
                log.debug("outcomes not written yet", extra={"why": str(error)})
            except BaseException:
                queue.waiting.extendleft(reversed(batch))
                queue.news.set()  # the next session has to write them
                raise
            else:
                if not batch:
                    if not queue.waiting:
                        queue.settled.set()
                    continue
            queue.waiting.extendleft(reversed(batch))
            queue.news.set()
            await asyncio.sleep(RETRY)

    async def _end(self, batch: Iterable[EndedAttempt]) -> list[EndedAttempt]:
        """Write the outcomes of runs that the view shows as this session's; returns the others."""
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
                self._written(move.about)
                self._report_failed(move)
                self._note_quiet(move, written[move])
            else:
                left.append(move.about)
        return left

    def _note_quiet(self, move: Step, revision: Revision) -> None:
        """Remember a success that no job seemed to follow, until the view has caught up with its write."""
        runs = [run for run in move.writes.values() if isinstance(run, RunRecord)]
        for run in runs:
            if run.state is RunState.SUCCEEDED and run.ended and keys.job_success(run.job) not in move.writes:
                self._quiet[run.job] = revision, JobSuccess(run=run.id, at=run.ended)

    async def write_followed(self) -> None:
        """Write successes of jobs with a follower that was added before them and that this node did not know then."""
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

    def _ending(self, live: Live, ended: EndedAttempt, after: RunRecord) -> Step:
        move = moved(live, after, ended)
        if after.state is not RunState.SUCCEEDED or not self._view.followers.get(after.job):
            return move
        assert after.ended is not None
        success: dict[Key, Record | None] = {keys.job_success(after.job): JobSuccess(run=after.id, at=after.ended)}
        return Step({**move.writes, **success}, move.expect, ended)

    def _report_failed(self, move: Step) -> None:
        for run in move.writes.values():
            if isinstance(run, RunRecord) and run.state in FAILURES and run.outcome is not None:
                why = run.outcome.error
                self._tell("run.failed", run.id, state=run.state.value, attempt=run.attempt, node=run.node, why=why)

    async def _settle(self, ended: EndedAttempt) -> bool:
        """Read the run from the store: end it, or keep the outcome as late, or find it written already."""
        store, order = self._writer.store, ended.order
        entry = await store.get(keys.live_run(order.run))
        if entry is not None:
            found = understood(RunRecord, entry, log)
            if found is None:  # a newer Rota wrote it, so it is no run of this session
                return True
            live = Live(found, entry.modified)
            if is_at(live, self._node, ended.session, order.epoch):
                after = steps.end(live.run, ended.outcome, live.epoch, self._store_clock.now())
                move = self._ending(live, ended, after)
                written = await self._writer.write([move])
                if is_done := move in written:
                    self._report_failed(move)
                    self._note_quiet(move, written[move])
            elif any(
                each.epoch == order.epoch and each.outcome.state is ended.outcome.state for each in live.run.earlier
            ):
                is_done = True  # it was written, and the store's answer got lost
            else:
                is_done = await self._keep_late(entry, live.run, ended)
        else:
            entry = await store.get(keys.run(order.run))
            run = understood(RunRecord, entry, log)
            is_written = run is not None and run.epoch == order.epoch and run.state is ended.outcome.state
            is_done = is_written or run is None or entry is None or await self._keep_late(entry, run, ended)
        if is_done:
            self._written(ended)
        return is_done

    async def _keep_late(self, entry: Entry, run: RunRecord, ended: EndedAttempt) -> bool:
        order = ended.order
        late = Try(
            attempt=order.attempt,
            epoch=order.epoch,
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
        self._tell("run.late", order.run, state=ended.outcome.state.value, attempt=order.attempt, final=run.state.value)
        return True


def unheeded(ended: EndedAttempt) -> None:
    """What is done with an outcome while no session listens: nothing, it waits."""
