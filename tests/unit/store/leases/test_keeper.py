"""Keeping a lease: through failures, and not beyond what its holder knows."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from rota.kit.time import virtual
from rota.model.errors import LeaseLost, Unavailable
from rota.store import Put, Store, open_store
from rota.store.leases.keeper import LeaseKeeper
from rota.store.port import Lease
from tests.kit.virtual_trials import CLOCK

TTL = timedelta(seconds=10)


class OneWay:
    """A store to which requests get through; answers only while it is whole."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_whole = True

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            answer = await getattr(self._store, name)(*arguments)
            if not self.is_whole:
                await asyncio.Event().wait()
            return answer

        return call


async def kept(way: OneWay, lease: Lease) -> None:
    await LeaseKeeper(way, lease, CLOCK, jitter=lambda: 0.5).keep()  # type: ignore[arg-type]


def test_a_holder_that_hears_no_answers_does_not_prolong_its_lease_again_and_again() -> None:
    async def main() -> None:
        async with open_store("memory://one-way", clock=CLOCK) as store:
            lease, way = await store.grant(TTL), OneWay(store)
            await store.commit(Put("/k", b"", lease.id))
            keeping = asyncio.create_task(kept(way, lease))
            await asyncio.sleep(30)
            way.is_whole = False
            await asyncio.sleep(TTL.total_seconds() * 4 / 3 + 1)
            assert await store.get("/k") is None
            keeping.cancel()

    virtual.run(main())


def test_a_holder_that_heard_no_answers_for_a_while_keeps_its_lease() -> None:
    async def main() -> None:
        async with open_store("memory://one-way", clock=CLOCK) as store:
            lease, way = await store.grant(TTL), OneWay(store)
            await store.commit(Put("/k", b"", lease.id))
            keeping = asyncio.create_task(kept(way, lease))
            for _ in range(20):
                await asyncio.sleep(20)
                way.is_whole = False
                await asyncio.sleep(4)
                way.is_whole = True
            assert await store.get("/k")
            assert not keeping.done()
            keeping.cancel()

    virtual.run(main())


def test_a_lease_that_ended_meanwhile_is_lost() -> None:
    async def main() -> None:
        async with open_store("memory://one-way", clock=CLOCK) as store:
            lease, way = await store.grant(TTL), OneWay(store)
            keeping = asyncio.create_task(kept(way, lease))
            way.is_whole = False
            await asyncio.sleep(30)
            way.is_whole = True
            await asyncio.wait([keeping])
            assert isinstance(keeping.exception(), LeaseLost)

    virtual.run(main())


class Deaf:
    """A store that gets no answer any more, while others do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_deaf = False

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            if self.is_deaf:
                raise Unavailable("too many clients already")
            return await getattr(self._store, name)(*arguments)

        return call


class Beside:
    """Another connection to the store, by which leases are renewed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, work: Callable[[Store], Coroutine[None, None, None]]) -> None:
        await work(self._store)


def deaf_for(seconds: float) -> tuple[bool, bool]:
    """A holder whose own store is silent for a while: is the lease there then, and has the holder lost it?"""

    async def main() -> tuple[bool, bool]:
        async with open_store("memory://deaf", clock=CLOCK) as store, open_store("memory://deaf", clock=CLOCK) as other:
            lease, own = await store.grant(TTL), Deaf(store)
            await store.commit(Put("/k", b"", lease.id))
            keeper = LeaseKeeper(own, lease, CLOCK, jitter=lambda: 0.5, aside=Beside(other))  # type: ignore[arg-type]
            keeping = asyncio.create_task(keeper.keep())
            await asyncio.sleep(100)
            assert keeper.may_act
            own.is_deaf = True
            await asyncio.sleep(seconds)
            own.is_deaf = False
            is_there = await store.get("/k") is not None
            await asyncio.wait([keeping], timeout=100)
            has_lost = keeping.done() and isinstance(keeping.exception(), LeaseLost)
            keeping.cancel()
            return is_there, has_lost

    return virtual.run(main())


def test_a_holder_whose_own_store_is_silent_loses_its_lease_however_well_renewals_go() -> None:
    assert deaf_for(3.5 * TTL.total_seconds()) == (False, True)


def test_a_holder_whose_own_store_was_silent_for_a_while_keeps_its_lease() -> None:
    assert deaf_for(1.5 * TTL.total_seconds()) == (True, False)
    assert deaf_for(2.5 * TTL.total_seconds()) == (True, False), "it answers again before the lease has ended"
