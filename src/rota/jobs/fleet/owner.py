"""Owner: what a node does with the runs that are bound to it.

Being bound is owning: a node that gets a start message for a run begins it without another write. A node that finds a
run bound to it, and no message after `UNTOLD` seconds, takes the run by itself. It writes that first (`accepted`),
because the node that bound the run may be about to give it to another node, and of the two writes one is refused.

Attempts beyond the free executors wait in `ahead`; outcomes are written by `ends`. That an attempt is running is only
written when it lasts longer than a second: a short one costs its node one commit, shared with others.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rota.jobs.core import outcome as steps
from rota.jobs.core.attempt_phases import AT_WORK, AttemptEvent, AttemptPhase, OwnedAttempt
from rota.jobs.core.records import Mode, Outcome, RunOrder, order_for
from rota.jobs.core.run_phases import RunEvent, may
from rota.jobs.fleet.ahead import Ahead
from rota.jobs.fleet.ends import EndedAttempt, Ends, PendingOutcomes, Tell, unheeded
from rota.jobs.fleet.view import JobsView, Live, is_at
from rota.jobs.fleet.writing import StepWriter, moved
from rota.kit.time.clock import Clock
from rota.model.ids import Instant, NodeId, Revision, SessionId
from rota.store.clock import StoreClock

log = logging.getLogger(__name__)

UNTOLD = 2.0
"""Seconds after which a node takes a run that is bound to it without having got a start message."""

LASTING = 1.0
"""Seconds after which an attempt is written down as running."""

UNWRITTEN = 500
"""Unwritten outcomes above which a node takes nothing new."""

TICK = 0.25


class AttemptRunner(Protocol):
    """Runs attempts on this node."""

    @property
    def executors(self) -> int:
        """How many attempts run at a time."""

    @property
    def free(self) -> int:
        """How many more attempts would be accepted."""

    def start_many(self, orders: Sequence[RunOrder], ended: Callable[[RunOrder, Outcome], None]) -> list[str]:
        """Begin attempts, each once per epoch; returns for each the reason if it is refused, or an empty string."""

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        """End an attempt; False if it does not run here."""


class RunOwner:
    """The runs of one session of a node."""

    def __init__(
        self,
        node: NodeId,
        session: SessionId,
        runs: AttemptRunner,
        outcomes: PendingOutcomes,
        writer: StepWriter,
        view: JobsView,
        store_clock: StoreClock,
        clock: Clock,
        may_act: Callable[[], bool],
        tell: Tell,
    ) -> None:
        self._may_act = may_act
        self._node, self._session, self._runs, self._outcomes = node, session, runs, outcomes
        self._writer, self._view, self._store_clock, self._clock = writer, view, store_clock, clock
        self._mine: dict[str, OwnedAttempt] = {}
        self._ahead = Ahead(lambda: runs.executors)
        self._ends = Ends(node, outcomes, writer, view, store_clock, tell, lambda: len(self._mine), self._forget)
        self.has_room: Callable[[], None] = lambda: None
        """Called when an attempt has ended."""

        self.tick = TICK
        """Seconds between two checks of what is bound here."""

        self._untold: dict[tuple[str, Revision], Instant] = {}
        self._given_up: set[tuple[str, Revision]] = set()
        """Runs and epochs that this node gives back, or tried to: a start message must not begin them here."""

        self._over: set[tuple[str, Revision]] = set()
        """Runs and epochs whose ends are in the store, and which the view still shows as bound here: a repeated start
        does nothing."""

    @property
    def free(self) -> int:
        """How many more attempts would begin at once; 0 while too many ends are to be written."""
        return self._runs.free if len(self._outcomes.waiting) < UNWRITTEN else 0

    @property
    def spare(self) -> int:
        """How many more would be taken on ahead; 0 while that is less than a portion, which is worth a commit."""
        return self._ahead.spare if len(self._outcomes.waiting) < UNWRITTEN else 0

    def begin(self, orders: Sequence[RunOrder]) -> list[str]:
        """Begin attempts that are bound to this session, now or soon; returns for each why it is refused, or an empty
        string."""
        reasons = [self._objection(order) for order in orders]
        fresh = [order for order, why in zip(orders, reasons, strict=True) if not why and not self._is_known(order)]
        refused = dict(zip((order.run for order in fresh), self._start(fresh), strict=True))
        now = self._clock.monotonic()
        for order in fresh:
            attempt = OwnedAttempt(order, now)
            if not refused[order.run]:
                attempt.begin(now)
            elif self._runs.free < 1 and self._ahead.put(attempt):
                refused[order.run] = ""
            else:
                continue
            self._mine[order.run] = attempt
        return [why or refused.get(order.run, "") for order, why in zip(orders, reasons, strict=True)]

    def _attempt(self, order: RunOrder) -> OwnedAttempt | None:
        """The attempt that this session took on for a start, if it did."""
        mine = self._mine.get(order.run)
        return mine if mine is not None and mine.order.epoch == order.epoch else None

    def _is_known(self, order: RunOrder) -> bool:
        """Has this session taken the attempt on, or ended it already?"""
        return self._attempt(order) is not None or (order.run, order.epoch) in self._over

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
        return self._runs.start_many(orders, lambda order, outcome: outcomes.add(EndedAttempt(order, session, outcome)))

    def _ended(self, ended: EndedAttempt) -> None:
        """An attempt has ended: its executor gets the next one."""
        seconds, mine = ended.outcome.seconds, self._attempt(ended.order)
        if mine is not None and mine.may(AttemptEvent.ENDED):
            mine.step(AttemptEvent.ENDED)
            if ended.order.mode is Mode.PROCESS:  # starting and ending its process took part of the time
                seconds = self._clock.monotonic() - mine.since
        self._ahead.note(seconds)
        self._ahead.begin(lambda order: not self._start([order])[0], self._clock.monotonic)
        if self.free or self.spare:
            self.has_room()

    async def run(self) -> None:
        """Handle the session's runs, until the session ends."""
        self._outcomes.heed = self._ended
        await self._store_clock.is_known.wait()
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._ends.write(), name="outcomes of runs")
                parts.create_task(self._look_after(), name="runs")
        finally:
            self._outcomes.heed = unheeded

    # What is bound to this session

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(self.tick)
            self._given_up, self._over = self._still_ours(self._given_up), self._still_ours(self._over)
            await self._take_untold()
            self._stop_what_should()
            await self._give_back()
            await self._mark_running()
            await self._ends.write_followed()

    async def _take_untold(self) -> None:
        now = self._clock.monotonic()
        ids = self._view.at.get(self._session, {}).keys() - self._mine.keys()
        untold = {(id, live.epoch): live for id in sorted(ids) for live in (self._view.live[id],)}
        self._untold = {key: self._untold.get(key, now) for key in untold}
        ripe = [live for key, live in untold.items() if now - self._untold[key] >= UNTOLD]
        if not ripe:
            return
        takes = [moved(live, steps.accept(live.run, live.epoch)) for live in ripe if self._may_take(live)]
        for step in await self._writer.write(takes):
            self._given_up.discard((step.about.run.id, step.about.epoch))  # the write decides
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

        If the store's answer gets lost, they may be bound to another node already: they stay given up as long as the
        view shows them here.
        """
        if not refused:
            return
        now = self._store_clock.now()
        given = [(live, why) for live, why in refused if self._may_release(live)]
        self._given_up |= {(live.run.id, live.epoch) for live, _ in given}
        await self._writer.write([moved(live, steps.release(live.run, now, why)) for live, why in given])

    def _may_release(self, live: Live) -> bool:
        mine = self._mine.get(live.run.id)
        is_ours = mine is not None and mine.order.epoch == live.epoch
        return not is_ours and may(live.run, RunEvent.GIVEN_BACK)

    def _still_ours(self, known: Iterable[tuple[str, Revision]]) -> set[tuple[str, Revision]]:
        """Those of these runs that the view shows as bound here, or not yet; for the others no start message can come
        any more."""
        return {
            (id, epoch)
            for id, epoch in known
            if self._view.revision < epoch or is_at(self._view.live.get(id), self._node, self._session, epoch)
        }

    async def _give_back(self) -> None:
        """Give back attempts taken on ahead that cannot begin, or that wait behind a slow one."""
        found, slow = [], f"node {self._node} was slower than it thought"
        for attempt, why in self._ahead.leaving(self._clock.monotonic(), slow):
            order = attempt.order
            if self._mine.get(order.run) is attempt:
                del self._mine[order.run]
            live = self._view.live.get(order.run)
            if live is not None and is_at(live, self._node, self._session, order.epoch):
                found.append((live, why))
        await self.release(found)

    def _stop_what_should(self) -> None:
        for id in sorted(self._view.stopping & self._mine.keys()):
            live, mine = self._view.live[id], self._mine[id]
            if live.epoch == mine.order.epoch and mine.may(AttemptEvent.STOP_ASKED):
                mine.step(AttemptEvent.STOP_ASKED)
                if mine.phase is AttemptPhase.GIVEN_BACK:
                    self._ahead.take_out(mine, live.run.stop)
                else:
                    self._runs.interrupt(live.run.id, mine.order.attempt, live.run.stop)

    async def _mark_running(self) -> None:
        now, wall = self._clock.monotonic(), self._store_clock.now()
        lasting = [
            live
            for id, mine in self._mine.items()
            if mine.phase in AT_WORK
            and now - mine.since >= LASTING
            and is_at(live := self._view.live.get(id), self._node, self._session, mine.order.epoch)
            and live is not None
            and may(live.run, RunEvent.LASTED)
        ]
        await self._writer.write([moved(live, steps.begin(live.run, live.epoch, wall)) for live in lasting])

    def _forget(self, ended: EndedAttempt) -> None:
        """The end of an attempt is in the store."""
        if (mine := self._attempt(ended.order)) is not None:
            self._over.add((ended.order.run, Revision(ended.order.epoch)))
            if mine.may(AttemptEvent.ENDED):  # it came before this session listened
                mine.step(AttemptEvent.ENDED)
            mine.step(AttemptEvent.WRITTEN)
            del self._mine[ended.order.run]
