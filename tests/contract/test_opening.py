"""Opening a store that breaks off: one that was reached is waited for, and one that was not is said to be out of reach.

A proxy before the real server hangs up: before the first word, after the first, after the second, until all is said.
"""

import asyncio
import importlib
from datetime import timedelta

import pytest

from rota.model.errors import BrokenOff, Unavailable
from rota.store import Put, open_store
from tests.kit.faultproxy import FaultProxy, Gate
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, StoreHarness, params
from tests.kit.servers import free_port

on_sql = pytest.mark.parametrize("harness", params([PostgresHarness, MysqlHarness]), indirect=True)
on_servers = pytest.mark.parametrize("harness", params([PostgresHarness, MysqlHarness, EtcdHarness]), indirect=True)


class CurtProxy(FaultProxy):
    """Hangs up at once at first, after one word of the server the next time, then after two, and so on."""

    times = 0

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: Gate) -> None:
        if gate is self._upward:
            await super()._pump(source, sink, gate)
            return
        words, self.times = self.times, self.times + 1
        for _ in range(words):
            sink.write(await source.read(65_536))
            await sink.drain()


@on_sql
async def test_a_store_that_breaks_off_after_every_word_in_turn_is_opened_in_the_end(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("rota.store.open")
    monkeypatch.setattr(module, "RETRY", (timedelta(milliseconds=1), timedelta(milliseconds=1)))
    assert harness.running is not None
    async with CurtProxy(harness.running.port) as proxy:
        async with open_store(harness.url(port=proxy.port), waits=True):
            times = proxy.times
        assert times > 10  # it makes its tables, one after the other
    async with open_store(harness.url(), create=False) as store:
        assert await store.commit(Put("/k", b"v")) == 1


@on_sql
async def test_who_does_not_wait_is_told_that_it_broke_off(harness: StoreHarness) -> None:
    assert harness.running is not None
    async with CurtProxy(harness.running.port) as proxy:
        for _ in range(3):
            with pytest.raises(BrokenOff):
                async with open_store(harness.url(port=proxy.port)):
                    pass


@on_servers
async def test_a_store_that_was_never_reached_is_not_waited_for(harness: StoreHarness) -> None:
    with pytest.raises(Unavailable) as caught:
        async with open_store(harness.url(port=free_port()), waits=True):
            pass
    assert not isinstance(caught.value, BrokenOff)
