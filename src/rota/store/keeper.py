"""Keeping a lease: renew it at a third of its ttl, and know until when its holder may act.

The store ends a lease no sooner than one ttl after the last renewal was *asked for*; the keeper stops its holder a
fifth of the ttl before that (`safe_until`), so whoever comes next finds nobody acting. While the store is out of
reach the keeper goes on asking, also past that point: if the lease is still there when the store returns, so is the
session, and nothing had to move. Only `LeaseLost` ends it.

A network may lose answers alone. Every renewal then prolongs a lease whose holder has long stopped, and nobody can take
its place. So after a renewal that failed the keeper first reads something, and renews only once that is answered. One
renewal may go unheard, and with it a third of a ttl.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import random
from typing import TypeVar

from rota.kit.backoff import delays
from rota.kit.clock import Clock
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Instant, LeaseId
from rota.store.port import Lease, Store

log = logging.getLogger(__name__)

T = TypeVar("T")


class Keeper:
    """Holds one lease."""

    def __init__(self, store: Store, lease: Lease, clock: Clock, jitter: Callable[[], float] = random) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock
        self._jitter = jitter
        self._deadline = lease.deadline
        self._renewed = asyncio.Event()
        self._heed: Callable[[], None] = _nobody

    def tell(self, heed: Callable[[], None]) -> None:
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
        """When the holder must have stopped, unless the lease is renewed before."""
        return Instant(self._deadline - self._lease.ttl.total_seconds() / 5)

    @property
    def may_act(self) -> bool:
        """Is it certain that nobody else holds what this lease protects?"""
        return self._clock.monotonic() < self.safe_until

    async def until_it_may_act(self) -> None:
        """Wait for a renewal that came in time."""
        while not self.may_act:
            self._renewed.clear()
            await self._renewed.wait()

    async def keep(self) -> None:
        """Renew for ever; LeaseLost when the lease has ended."""
        ttl = self._lease.ttl
        retries = delays(ttl / 50, ttl / 10, self._jitter)
        wait, is_renewed = self._until_next, True
        while True:
            await asyncio.sleep(wait)
            if (is_renewed or await self._is_heard()) and await self._try():
                is_renewed = True
                wait, retries = self._until_next, delays(ttl / 50, ttl / 10, self._jitter)
            else:
                is_renewed = False
                wait = next(retries).total_seconds()

    @property
    def _until_next(self) -> float:
        """Seconds until a third of the ttl has passed since the last renewal was asked for."""
        asked = self._deadline - self._lease.ttl.total_seconds()
        return max(0.0, asked + self._lease.ttl.total_seconds() / 3 - self._clock.monotonic())

    async def _is_heard(self) -> bool:
        """Does the store answer?"""
        return await self._answer(self._store.revision()) is not None

    async def _try(self) -> bool:
        deadline = await self._answer(self._store.renew(self._lease))
        if deadline is None:
            return False
        self._deadline = deadline
        self._renewed.set()
        self._heed()
        return True

    async def _answer(self, call: Awaitable[T]) -> T | None:
        """What a call returns; None if it fails."""
        try:
            # A store may take longer to give up than the lease lasts; a second try in time is worth more than its word.
            async with asyncio.timeout(self._lease.ttl.total_seconds() / 4):
                return await call
        except (Unavailable, Unknown, TimeoutError) as error:
            left = round(self.safe_until - self._clock.monotonic(), 1)
            log.warning(
                "lease not renewed", extra={"lease": self.lease, "safe_for_s": left, "why": str(error) or "no answer"}
            )
            return None


def _nobody() -> None:
    """Nobody wants to know."""
