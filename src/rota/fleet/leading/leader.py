"""Leading: stand for election, run a term while it lasts, step down, begin again.

`LeaderCandidate.run` goes on for as long as its session does. It watches the leader key, asks
`fleet.core.leading.election` for its stance after every change, and carries it out. A term ends when the key is no
longer ours, when the lease gets too close to its end, or when what runs in it fails; then everything of the term is
cancelled before the next look.

A store that was restored in the meantime is in another incarnation. Then the session is over too, and `run` raises
LeaseLost: the lease was given by a store that is gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from random import random
from typing import Any, NoReturn

from rota.fleet.core.leading.election import Follow, Lead, LeaderKeyState, Rest, Stance, Stand, stance
from rota.fleet.leading.term import Term
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, LeaseLost, TermOver, Unavailable, Unknown
from rota.model.ids import NodeId, SessionId, TermNumber
from rota.model.node import Leader
from rota.store.follow import follow
from rota.store.leases.keeper import LeaseKeeper
from rota.store.port import Absent, At, Entry, Put, Store

log = logging.getLogger(__name__)

RETRY = timedelta(milliseconds=100), timedelta(seconds=2)
"""Shortest and longest wait after a failed try."""

STEP_DOWN = 5.0
"""Seconds that what runs in a term has to stop."""


class LeaderCandidate:
    """A session that stands for election and leads when it wins."""

    def __init__(
        self,
        store: Store,
        keeper: LeaseKeeper,
        incarnation: At,
        node: NodeId,
        session: SessionId,
        clock: Clock,
        lead: Callable[[Term], Awaitable[None]],
        jitter: Callable[[], float] = random,
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._incarnation = incarnation
        self._node = node
        self._session = session
        self._clock = clock
        self._lead = lead
        self._jitter = jitter
        self._seen: LeaderKeyState | None = None
        self._has_looked = False
        self._news = asyncio.Event()
        self._shown: Stance | None = None

    @property
    def stance(self) -> Stance:
        """What to do about the leader key as last seen."""
        if not self._has_looked:
            return Rest("the leader key was not read yet")
        return stance(self._seen, self._session, may_act=self._keeper.may_act)

    async def run(self) -> None:
        """Follow, stand and lead, until cancelled or until the lease is lost."""
        async with asyncio.TaskGroup() as parts:
            watching = parts.create_task(self._watch(), name="leader key")
            try:
                await self._act()
            finally:
                watching.cancel()

    async def _act(self) -> None:
        waits = delays(*RETRY, self._jitter)
        while True:
            self._news.clear()
            now = self.stance
            self._show(now)
            match now:
                case Lead(term):
                    if await self._run_term(term):
                        waits = delays(*RETRY, self._jitter)
                    else:
                        await self._wait(next(waits))
                case Stand():
                    await self._stand()
                    await self._wait(next(waits))
                case Follow():
                    await self._news.wait()
                case Rest() if self._has_looked:
                    await self._keeper.until_it_may_act()
                case Rest():
                    await self._news.wait()

    async def _stand(self) -> None:
        """Try to create the leader key. The watch shows the result, even of an unknown outcome."""
        record = Leader(node=self._node, session=self._session, since=self._clock.wall())
        put = Put(keys.LEADER, codec.encode(record), self._keeper.lease)
        try:
            await self._store.commit(put, expect=[Absent(keys.LEADER), self._incarnation])
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("not elected", extra={"node": self._node, "why": str(error)})
            if isinstance(error, Conflict) and self._incarnation.key in error.keys:
                self._end_session()

    async def _run_term(self, number: TermNumber) -> bool:
        """Lead for as long as the stance holds; False if what ran in the term gave up by itself."""
        term = Term(number, self._store, self._keeper, self._incarnation)
        work = asyncio.ensure_future(self._lead(term))
        try:
            while self.stance == Lead(number) and not work.done():
                self._news.clear()
                left = self._keeper.safe_until - self._clock.monotonic()
                await self._first_of(work, timeout=left)
        finally:
            has_ended_by_itself = work.done()
            await _cancel(work)
            log.info("term ended", extra={"node": self._node, "term": number})
        self._explain(number, work)
        if term.is_orphaned:
            self._end_session()
        return not has_ended_by_itself

    def _end_session(self) -> NoReturn:
        log.warning("store restored", extra={"node": self._node, "session": self._session})
        raise LeaseLost(self._keeper.lease)

    def _explain(self, number: TermNumber, work: asyncio.Future[None]) -> None:
        """Log why a term ended if the store is away or the term is over; any other failure is a bug and is raised."""
        if not work.done() or work.cancelled():
            return
        try:
            work.result()
        except* (TermOver, Conflict, Unavailable, Unknown) as errors:
            why = "; ".join(str(error) for error in errors.exceptions)
            log.warning("term given up", extra={"node": self._node, "term": number, "why": why})

    async def _first_of(self, work: asyncio.Future[None], timeout: float) -> None:
        news: asyncio.Future[Any] = asyncio.ensure_future(self._news.wait())
        try:
            # Never wait for zero seconds: with a remainder below the clock's resolution this would spin.
            await asyncio.wait([work, news], timeout=max(timeout, 0.001), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    async def _wait(self, longest: timedelta) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self._news.wait()

    async def _watch(self) -> None:
        """Keep `_seen` up to date until cancelled."""
        async with aclosing(follow(self._store, keys.LEADER, self._jitter)) as entries:
            async for entry in entries:
                self._see(_seen(entry))

    def _see(self, seen: LeaderKeyState | None) -> None:
        self._seen, self._has_looked = seen, True
        self._news.set()

    def _show(self, now: Stance) -> None:
        if now == self._shown or not self._has_looked:
            return
        self._shown = now
        match now:
            case Lead(term):
                log.info("leading", extra={"node": self._node, "term": term})
            case Follow(leader, term):
                log.info("following", extra={"node": self._node, "leader": leader, "term": term})
            case Rest(why):
                log.info("resting", extra={"node": self._node, "why": why})


def _seen(entry: Entry | None) -> LeaderKeyState | None:
    if entry is None:
        return None
    try:
        return LeaderKeyState(codec.decode(Leader, entry.value), TermNumber(entry.created))
    except Invalid as error:  # a newer Rota leads: it is not known which node, only that it is not this one
        log.warning("leader not understood", extra={"why": str(error)})
        unknown = Leader(node=NodeId("unknown"), session=SessionId("unknown"), since=datetime.min.replace(tzinfo=UTC))
        return LeaderKeyState(unknown, TermNumber(entry.created))


async def _cancel(work: asyncio.Future[None]) -> None:
    """Cancel `work` and wait until it has ended, even if cancelled meanwhile: no task of a term may outlive the
    term."""
    work.cancel()
    hurried = False
    end = asyncio.get_running_loop().time() + STEP_DOWN
    while not work.done() and (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([work], timeout=left)
        except asyncio.CancelledError:
            hurried = True
    if not work.done():
        log.error("term does not stop; its writes will be refused")
    elif not work.cancelled() and (error := work.exception()):
        log.debug("term failed while it was stopped", extra={"why": repr(error)})
    if hurried:
        raise asyncio.CancelledError
