"""The store's clock, estimated."""

import asyncio
from datetime import UTC, datetime, timedelta

from rota.kit.time import virtual
from rota.model.ids import Instant
from rota.store import open_store
from rota.store.clock import ClockSample, StoreClock
from tests.kit.virtual_trials import CLOCK

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Clock:
    """Stands where it is put."""

    at = 100.0

    def monotonic(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> datetime:
        raise AssertionError("nobody may ask this machine for the time")


def sample(asked: float, came: float, wall: datetime) -> ClockSample:
    return ClockSample(Instant(asked), Instant(came), wall)


def test_it_goes_on_from_the_answer_that_was_under_way_shortest() -> None:
    async def story() -> None:
        clock = Clock()
        store_clock = StoreClock(None, clock)  # type: ignore[arg-type]  # it is not asked here
        store_clock.add(sample(99.0, 100.0, NOON))
        assert store_clock.now() == NOON
        clock.at = 110.0
        store_clock.add(sample(109.99, 110.0, NOON + 10.9 * SECOND))
        assert store_clock.now() == NOON + 10.9 * SECOND
        clock.at = 111.0
        store_clock.add(sample(110.0, 111.0, NOON + 11.0 * SECOND))
        assert store_clock.now() == NOON + 11.9 * SECOND, "the slow answer says less"

    virtual.run(story())


def test_a_clock_that_was_set_is_believed_at_once() -> None:
    async def story() -> None:
        clock = Clock()
        store_clock = StoreClock(None, clock)  # type: ignore[arg-type]
        store_clock.add(sample(99.0, 100.0, NOON))
        for by in (timedelta(hours=-5), timedelta(days=1)):
            store_clock.add(sample(99.9, 100.0, NOON + by))
            assert store_clock.now() == NOON + by

    virtual.run(story())


def test_it_follows_a_store() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            store_clock = StoreClock(store, CLOCK)
            running = asyncio.create_task(store_clock.run())
            await store_clock.is_known.wait()
            await asyncio.sleep(30)
            assert store_clock.now() == await store.now()
            running.cancel()

    virtual.run(story())
