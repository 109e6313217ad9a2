"""Renewals in a thread of their own, on every store that several processes share: the event loop may be held."""

import asyncio
import logging
import time
from datetime import timedelta
from pathlib import Path

import pytest

from rota.kit.time.clock import SYSTEM
from rota.store import Put, open_store
from rota.store.leases.keeper import LeaseKeeper
from rota.store.leases.renewal import renewal_thread
from tests.kit.harness import HARNESSES, MemoryHarness, StoreHarness, params
from tests.kit.server_pool import ServerPool
from tests.kit.waiting import eventually

TTL = timedelta(seconds=4)
SHARED = [each for each in HARNESSES if each is not MemoryHarness]


@pytest.fixture(params=params(SHARED))
def harness(request: pytest.FixtureRequest, tmp_path: Path, servers: ServerPool) -> StoreHarness:
    kind: type[StoreHarness] = request.param
    return kind(tmp_path, servers.get(kind.server, "steady") if kind.server else None)


async def test_a_lease_outlives_a_loop_that_is_held_by_turns_and_used_in_between(
    harness: StoreHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    url = harness.url()
    async with open_store(url) as store, renewal_thread(url, SYSTEM) as aside:
        lease = await store.grant(TTL)
        await store.commit(Put("/held", b"", lease.id))
        keeper = LeaseKeeper(store, lease, SYSTEM, aside=aside)
        keeping = asyncio.create_task(keeper.keep())
        await eventually(lambda: keeper.least_left < TTL.total_seconds())
        for _ in range(3):
            time.sleep(TTL.total_seconds())  # noqa: ASYNC251  # the point: nothing else of this loop runs
            for _ in range(200):
                assert await store.get("/held")
        assert not keeping.done()
        keeping.cancel()
        await asyncio.wait([keeping])
    assert not caplog.records
