"""Retention of events: which go, and that the leader lets them go."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rota.fleet.events.event_log import EventLog, read
from rota.fleet.events.retention import doomed, keep_events
from rota.fleet.leading.term import Term
from rota.model import event, keys
from rota.model.config import EventsConfig
from rota.model.ids import Key, NodeId
from rota.sim.world import EPOCH
from rota.store import Delete, Store
from tests.kit.elections import play
from tests.kit.virtual_trials import CLOCK

A = NodeId("a")


def key(hours: float, number: int = 1) -> Key:
    """The key of an event so many hours after the beginning."""
    return keys.event(event.identify(EPOCH + timedelta(hours=hours), number, A))


@pytest.mark.parametrize(
    ("oldest", "count", "expected"),
    [
        pytest.param([], 0, [], id="nothing there"),
        pytest.param([key(9), key(10)], 2, [], id="young and few"),
        pytest.param([key(1), key(2), key(9)], 3, [key(1), key(2)], id="too old"),
        pytest.param([key(8), key(9), key(10)], 5, [key(8), key(9)], id="too many"),
        pytest.param([key(1), key(9), key(10)], 4, [key(1)], id="old and too many are not added up"),
        pytest.param(["/events/what"], 1, ["/events/what"], id="no event"),
    ],
)
def test_which_events_go(oldest: list[Key], count: int, expected: list[Key]) -> None:
    config = EventsConfig(keep=timedelta(hours=5), entries=3)
    assert doomed(oldest, count, EPOCH + timedelta(hours=10), config) == expected


def tended(config: EventsConfig) -> Callable[[Term], Awaitable[None]]:
    """What a leader does that only looks after events."""
    return lambda term: keep_events(term, config)


async def record(store: Store, first: int, count: int) -> None:
    log = EventLog(store, A, CLOCK)
    for number in range(first, first + count):
        log.record("node.joined", str(number))
    await log.flush()


async def kept(store: Store) -> list[str]:
    return [each.subject for each in (await read(store)).events]


def test_the_leader_clears_away_what_is_too_old() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        await record(store, 0, 250)
        node("a", tended(EventsConfig(keep=timedelta(hours=1))))
        await asyncio.sleep(3000)
        await record(store, 250, 10)
        assert len(await kept(store)) == 260
        await asyncio.sleep(700)
        assert await kept(store) == [str(number) for number in range(250, 260)]

    play(story)


def test_the_leader_clears_away_what_is_too_much() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        await record(store, 0, 500)
        node("a", tended(EventsConfig(entries=200)))
        await asyncio.sleep(70)
        assert await kept(store) == [str(number) for number in range(300, 500)]
        await record(store, 500, 100)
        await asyncio.sleep(70)
        assert await kept(store) == [str(number) for number in range(400, 600)]
        for gone in (await read(store)).events[:150]:
            await store.commit(Delete(keys.event(gone.id)))
        await record(store, 600, 100)
        await asyncio.sleep(70)
        assert await kept(store) == [str(number) for number in range(550, 700)]

    play(story)


def test_the_count_survives_a_compaction() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        node("a", tended(EventsConfig(entries=20)))
        for first in range(0, 100, 10):
            await record(store, first, 10)
            await store.compact(await store.revision())
            await asyncio.sleep(20)
        await asyncio.sleep(70)
        assert await kept(store) == [str(number) for number in range(80, 100)]

    play(story)
