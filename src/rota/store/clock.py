"""The store's clock, as a node knows it without asking each time.

Due times are the store's, so that nodes whose own clocks are wrong agree on them. A sample is the store's answer and
when it came: by then the store's clock shows at least that. The best sample is the one that was under way shortest;
from it on, this machine's monotonic clock counts. So the estimate is never ahead of the store, and behind it by at most
one way of a good answer.

A sample that the estimate cannot agree with means that the store's clock was set; then it alone counts.
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
"""How much a machine's clock may go wrong between samples, as a part of the time."""


class ClockSample(msgspec.Struct, frozen=True):
    """What the store's clock showed at some moment between two of ours."""

    asked: Instant
    came: Instant
    wall: datetime

    def earliest(self, now: Instant) -> datetime:
        """What it shows now, at least."""
        return self.wall + timedelta(seconds=now - self.came)

    def latest(self, now: Instant) -> datetime:
        """What it shows now, at most."""
        return self.wall + timedelta(seconds=now - self.asked)


class StoreClock:
    """The store's time, estimated."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._samples: deque[ClockSample] = deque(maxlen=SAMPLES)
        self._ahead: ClockSample | None = None
        """The one that says the latest time: it does so at any moment, and the time is asked for often."""

        self.is_known = asyncio.Event()

    def now(self) -> datetime:
        """What the store's clock shows, or a little before; only once it is known."""
        assert self._ahead is not None
        return self._ahead.earliest(self._clock.monotonic())

    async def run(self) -> None:
        """Keep it true, for ever."""
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
