"""Renewals in a thread: nothing on the event loop delays them, and a loop that hangs is given up in the end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rota.kit.time.clock import SYSTEM
from rota.model.errors import LeaseLost
from rota.store import Put, Store, open_store
from rota.store.leases.keeper import LeaseKeeper
from rota.store.leases.renewal import RenewalThread, renewal_thread
from tests.kit.waiting import eventually

pytestmark = pytest.mark.slow

TTL = timedelta(seconds=4)


@asynccontextmanager
async def kept(url: str) -> AsyncIterator[tuple[Store, LeaseKeeper, "asyncio.Task[None]"]]:
    """A lease with a key under it, whose renewals run aside."""
    async with open_store(url) as store, renewal_thread(url, SYSTEM) as aside:
        assert aside is not None
        lease = await store.grant(TTL)
        await store.commit(Put("/held", b"", lease.id))
        keeper = LeaseKeeper(store, lease, SYSTEM, aside=aside)
        keeping = asyncio.create_task(keeper.keep())
        await eventually(lambda: keeper.least_left < TTL.total_seconds())  # it has been renewed
        try:
            yield store, keeper, keeping
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/rota.db"


async def test_a_lease_is_renewed_while_something_holds_the_event_loop(tmp_path: Path) -> None:
    async with kept(url(tmp_path)) as (store, keeper, keeping):
        before = keeper.safe_until
        time.sleep(1.5 * TTL.total_seconds())  # noqa: ASYNC251  # the point: nothing else of this loop runs
        assert keeper.safe_until > before
        assert keeper.may_act
        await asyncio.sleep(0)
        assert not keeping.done()
        assert await store.get("/held")


async def test_the_holder_hears_of_a_renewal_on_its_own_loop(tmp_path: Path) -> None:
    async with kept(url(tmp_path)) as (_, keeper, _keeping):
        heard: list[asyncio.AbstractEventLoop] = []
        keeper.notify(lambda: heard.append(asyncio.get_running_loop()))
        await eventually(lambda: len(heard) > 2)
        assert set(heard) == {asyncio.get_running_loop()}


async def test_a_loop_that_stands_still_for_longer_is_not_renewed_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with kept(url(tmp_path)) as (_, keeper, _keeping):
        time.sleep(4 * TTL.total_seconds())  # noqa: ASYNC251
        assert not keeper.may_act
        assert "the event loop of this node stands still" in caplog.text


async def test_a_lost_lease_reaches_the_holder(tmp_path: Path) -> None:
    async with kept(url(tmp_path)) as (store, keeper, keeping):
        await store.revoke(keeper.lease)
        await asyncio.wait([keeping])
        assert isinstance(keeping.exception(), LeaseLost)


async def test_a_thread_that_has_ended_is_no_quiet_end_of_renewals(tmp_path: Path) -> None:
    async with open_store(url(tmp_path)) as store:
        aside = RenewalThread(url(tmp_path), SYSTEM)
        await aside.start()
        keeping = asyncio.create_task(LeaseKeeper(store, await store.grant(TTL), SYSTEM, aside=aside).keep())
        await asyncio.sleep(0)
        await aside.stop()
        await asyncio.wait([keeping])
        assert isinstance(keeping.exception(), RuntimeError)


async def test_work_that_an_ending_thread_never_begins_is_an_error_and_no_wait(tmp_path: Path) -> None:
    aside = RenewalThread(url(tmp_path), SYSTEM)
    await aside.start()
    loop = aside._loop
    assert loop is not None
    posted: list[object] = []
    loop.call_soon_threadsafe = lambda *what, **how: posted.append(what)  # type: ignore[method-assign,assignment,misc]
    working = asyncio.create_task(aside.run(lambda _: asyncio.sleep(0)))
    await eventually(lambda: posted)
    del loop.call_soon_threadsafe
    await aside.stop()
    with pytest.raises(RuntimeError, match="has ended"):
        await asyncio.wait_for(working, 60)


async def test_work_for_a_thread_that_has_ended_is_an_error(tmp_path: Path) -> None:
    aside = RenewalThread(url(tmp_path), SYSTEM)
    await aside.start()
    await aside.stop()
    with pytest.raises(RuntimeError, match="has ended"):
        await aside.run(lambda _: asyncio.sleep(0))


async def test_a_store_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not exist"):
        async with renewal_thread(url(tmp_path / "nowhere"), SYSTEM):
            pass


async def test_a_store_of_this_process_alone_has_no_thread() -> None:
    async with renewal_thread("memory://alone", SYSTEM) as aside:
        assert aside is None
