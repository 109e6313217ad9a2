"""The store's clock, estimated by a node without asking each time.

Due times are the store's, so that nodes whose own clocks are wrong agree on them. A sample is the store's answer and
the time it arrived: by then the store's clock shows at least that. The best sample is the one with the shortest round
trip; from it on, this machine's monotonic clock counts. So the estimate is never ahead of the store, and behind it by
at most the return trip of a good answer.

A sample that contradicts the estimate means that the store's clock was set; then that sample alone counts.
"""

import asyncio
import logging
from collections import deque
from datetime import datetime, timedelta

import msgspec

from rota.kit.time.clock import Clock
from rota.model.errors import Unavailable
from rota.model.ids import Instant
from rota.store.port import Store

log = logging.getLogger(__name__)

SAMPLES = 6
EVERY = 10.0
"""Seconds between samples; the first ones come quickly."""

DRIFT = 0.02
"""How far a machine's clock may drift between samples, as a fraction of the time."""


class ClockSample(msgspec.Struct, frozen=True):
    """A reading of the store's clock, taken between two moments of our own."""

    asked: Instant
    came: Instant
    wall: datetime

    def earliest(self, now: Instant) -> datetime:
        """The earliest time that the store's clock can show now."""
        return self.wall + timedelta(seconds=now - self.came)

    def latest(self, now: Instant) -> datetime:
        """The latest time that the store's clock can show now."""
        return self.wall + timedelta(seconds=now - self.asked)


class StoreClock:
    """The store's time, estimated."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._samples: deque[ClockSample] = deque(maxlen=SAMPLES)
        self._ahead: ClockSample | None = None
        """The best sample: the one whose estimate is the latest, at any moment."""

        self.is_known = asyncio.Event()

    def now(self) -> datetime:
        """The store's time, or slightly less; only once there is a sample."""
        assert self._ahead is not None
        return self._ahead.earliest(self._clock.monotonic())

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            try:
                self.add(await self._sample())
            except Unavailable as error:
                log.debug("the store's clock was not read", extra={"why": str(error)})
            await asyncio.sleep(EVERY if len(self._samples) == SAMPLES else EVERY / 20)

    def add(self, sample: ClockSample) -> None:
        """Take in a sample."""
        slack = timedelta(seconds=EVERY * SAMPLES * DRIFT)
        if (
            self._samples
            and not sample.earliest(sample.came) - slack <= self.now() <= sample.latest(sample.came) + slack
        ):
            log.warning("the store's clock was set", extra={"by": str(sample.wall - self.now())})
            self._samples.clear()
        self._samples.append(sample)
        self._ahead = max(self._samples, key=lambda each: each.earliest(sample.came))
        self.is_known.set()

    async def _sample(self) -> ClockSample:
        asked = self._clock.monotonic()
        wall = await self._store.now()
        return ClockSample(asked, self._clock.monotonic(), wall)
