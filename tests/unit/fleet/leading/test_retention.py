"""Retention: old history goes, however often the leader changes; on the memory store in virtual time."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from unittest.mock import Mock

import pytest

from rota.fleet.leading.retention import clear_away
from rota.fleet.leading.term import Term
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.config import RetentionConfig
from rota.model.errors import Compacted
from rota.model.history import HistoryNotes
from rota.model.ids import Revision, TermNumber
from rota.store import At, Put, Store, open_store
from tests.kit.virtual_trials import CLOCK

CONFIG = RetentionConfig(keep=timedelta(minutes=10), every=timedelta(minutes=1))


async def lead(store: Store, seconds: float) -> None:
    """A term of so many seconds; of its duties only the one that is tried."""
    term = Term(TermNumber(1), store, Mock(may_act=True), At(keys.INCARNATION, Revision(1)))
    term.fence = ()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await clear_away(term, CONFIG)


async def write(store: Store, seconds: float) -> None:
    """Something each second."""
    for second in range(int(seconds)):
        await store.commit(Put("/x", b"%d" % second))
        await asyncio.sleep(1)


async def is_kept(store: Store, revision: int) -> bool:
    try:
        await store.scan("/x", at=Revision(revision))
    except Compacted:
        return False
    return True


@pytest.mark.parametrize("term", [30.0, 3600.0])
def test_history_is_cleared_however_short_the_terms_are(term: float) -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(write(store, 1200))
                while asyncio.get_running_loop().time() < 1200:
                    await lead(store, min(term, 1200))
            newest = await store.revision()
            assert not await is_kept(store, newest - 12 * 61)
            assert await is_kept(store, newest - 9 * 60)

    virtual.run(story())


def test_a_quiet_fleet_is_hardly_written_to() -> None:
    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            first = await store.commit(Put("/x", b"1"))
            last = await store.commit(Put("/x", b"2"))
            await lead(store, 3600)
            assert not await is_kept(store, first)
            entry = await store.get(keys.HISTORY)
            assert entry is not None
            assert (
                await store.revision() == entry.modified <= last + 7
            )  # in an hour: one for each `keep`, and the first
            assert len(codec.decode(HistoryNotes, entry.value).notes) <= 1

    virtual.run(story())
