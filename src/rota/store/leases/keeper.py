"""Keeping a lease: renew it at a third of its ttl, and know until when its holder may act.

The store ends a lease no sooner than one ttl after the last renewal was *requested*; the keeper stops its holder a
fifth of the ttl before that (`safe_until`), so the next holder never acts at the same time. While the store is out of
reach the keeper goes on trying, even past that point: if the lease still exists when the store returns, so does the
session, and nothing had to move. Only `LeaseLost` ends it.

A network may lose only the answers. Every renewal would then prolong a lease whose holder has long stopped, and no
other node could take its place. So after a failed renewal the keeper first reads something, and renews only once that
is answered. One renewal may be lost, and with it a third of a ttl.

With `aside` (`store.leases.renewal`) the renewals run in a thread of their own, so that nothing on the holder's event
loop delays them. `keep` still runs on that loop, and shows the thread that the loop turns. A loop that stands still for
longer than `LONGEST_STILL` of a ttl is no longer renewed for: its node does nothing, and others take its place.

The thread has a connection of its own, which says nothing about the holder's connection. So `keep` also reads from the
holder's store now and then. If the holder gets no answer for that long, its lease is not renewed either: it can do
nothing, even if the thread is connected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import random
from typing import Protocol, TypeVar

from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Instant, LeaseId
from rota.store.port import Lease, Store

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_STILL = 2.0
"""Ttls for which a lease is renewed although the holder's event loop shows no sign of life, or its store is silent."""


class RenewalRunner(Protocol):
    """A place beside the event loop with a store of its own."""

    async def run(self, work: Callable[[Store], Coroutine[None, None, None]]) -> None:
        """Do `work` there, to its end; cancelled there if it is cancelled here."""


class LeaseKeeper:
    """Holds one lease."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        clock: Clock,
        jitter: Callable[[], float] = random,
        aside: RenewalRunner | None = None,
    ) -> None:
        self._store = store
        self._aside = aside
        self._alive = self._reached = clock.monotonic()
        self._least_left = lease.ttl.total_seconds()
        self._lease = lease
        self._clock = clock
        self._jitter = jitter
        self._deadline = lease.deadline
        self._renewed = asyncio.Event()
        self._heed: Callable[[], None] = _nobody

    def notify(self, heed: Callable[[], None]) -> None:
        """Call `heed` now and after each renewal, when `safe_until` has moved."""
        self._heed = heed
        heed()

    @property
    def lease(self) -> LeaseId:
        """The lease, for writes under it."""
        return self._lease.id

    @property
    def ttl(self) -> timedelta:
        """How long the lease outlives its last renewal."""
        return self._lease.ttl

    @property
    def safe_until(self) -> Instant:
        """The time by which the holder must have stopped, unless the lease is renewed before."""
        return Instant(self._deadline - self._lease.ttl.total_seconds() / 5)

    @property
    def may_act(self) -> bool:
        """Is it certain that no other process holds what this lease protects?"""
        return self._clock.monotonic() < self.safe_until

    @property
    def least_left(self) -> float:
        """The fewest seconds that were left of the lease when a renewal succeeded."""
        return self._least_left

    async def until_it_may_act(self) -> None:
        """Wait for a renewal that came in time."""
        while not self.may_act:
            self._renewed.clear()
            await self._renewed.wait()

    async def keep(self) -> None:
        """Renew until cancelled; LeaseLost when the lease has ended."""
        if self._aside is None:
            await self._renew(self._announce, self._store)
            return
        loop = asyncio.get_running_loop()
        self._alive = self._reached = self._clock.monotonic()
        announce = partial(_call_on, loop, self._announce)
        renewing = asyncio.ensure_future(self._aside.run(partial(self._renew, announce)))
        asking = asyncio.ensure_future(self._ask_own_store())
        try:
            while not (renewing.done() or asking.done()):
                self._alive = self._clock.monotonic()
                timeout = self._lease.ttl.total_seconds() / 10
                await asyncio.wait([renewing, asking], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if renewing.cancelled():
                raise RuntimeError("the thread that renews the lease has ended")
            (renewing if renewing.done() else asking).result()
        finally:
            renewing.cancel()
            asking.cancel()

    async def _ask_own_store(self) -> None:
        """Note when the holder's own store answers; raises an error that is permanent."""
        ttl = self._lease.ttl.total_seconds()
        while True:
            pause = ttl / 10
            with suppress(Unavailable, Unknown, TimeoutError):
                async with asyncio.timeout(ttl / 4):
                    await self._store.revision()
                self._reached, pause = self._clock.monotonic(), ttl / 3
            await asyncio.sleep(pause)

    async def _renew(self, announce: Callable[[], None], store: Store) -> None:
        """Renew with `store`, and call `announce` after each renewal."""
        ttl = self._lease.ttl
        retries = delays(ttl / 50, ttl / 10, self._jitter)
        wait, is_renewed = self._until_next, True
        while True:
            await asyncio.sleep(wait)
            if (still := self._still_for) > LONGEST_STILL * ttl.total_seconds():
                log.error(
                    "lease not renewed: the event loop of this node stands still",
                    extra={"lease": self.lease, "still_s": round(still, 1)},
                )
                wait, is_renewed = ttl.total_seconds() / 3, False
            elif (silent := self._silent_for) > LONGEST_STILL * ttl.total_seconds():
                if await self._is_heard(store):  # otherwise the store is away for all
                    log.error(
                        "lease not renewed: other calls of this node to the store fail too",
                        extra={"lease": self.lease, "silent_s": round(silent, 1)},
                    )
                wait, is_renewed = ttl.total_seconds() / 10, False
            elif (is_renewed or await self._is_heard(store)) and await self._try(store):
                announce()
                is_renewed = True
                wait, retries = self._until_next, delays(ttl / 50, ttl / 10, self._jitter)
            else:
                is_renewed = False
                wait = next(retries).total_seconds()

    @property
    def _still_for(self) -> float:
        """Seconds since the holder's event loop showed that it turns; 0 if it does the renewing itself."""
        return 0.0 if self._aside is None else self._clock.monotonic() - self._alive

    @property
    def _silent_for(self) -> float:
        """Seconds since the holder's own store answered; 0 if that does the renewing itself."""
        return 0.0 if self._aside is None else self._clock.monotonic() - self._reached

    @property
    def _until_next(self) -> float:
        """Seconds until a third of the ttl has passed since the last renewal was asked for."""
        asked = self._deadline - self._lease.ttl.total_seconds()
        return max(0.0, asked + self._lease.ttl.total_seconds() / 3 - self._clock.monotonic())

    async def _is_heard(self, store: Store) -> bool:
        """Does the store answer?"""
        return await self._answer(store.revision()) is not None

    async def _try(self, store: Store) -> bool:
        deadline = await self._answer(store.renew(self._lease))
        if deadline is None:
            return False
        self._least_left = min(self._least_left, self._deadline - self._clock.monotonic())
        self._deadline = deadline
        return True

    def _announce(self) -> None:
        """On the holder's loop: `safe_until` has moved."""
        self._renewed.set()
        self._heed()

    async def _answer(self, call: Awaitable[T]) -> T | None:
        """What a call returns; None if it fails."""
        try:
            # A store may take longer to fail than the lease lasts; a second attempt in time is better than waiting for
            # the error.
            async with asyncio.timeout(self._lease.ttl.total_seconds() / 4):
                return await call
        except (Unavailable, Unknown, TimeoutError) as error:
            left = round(self.safe_until - self._clock.monotonic(), 1)
            log.warning(
                "lease not renewed", extra={"lease": self.lease, "safe_for_s": left, "why": str(error) or "no answer"}
            )
            return None


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Have another thread's loop call something; nothing if that loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _nobody() -> None:
    """Do nothing: no callback was given."""
