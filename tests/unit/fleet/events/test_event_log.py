"""The event log on the memory store, in virtual time: never in the way, nothing twice, losses told."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from rota.fleet.events.event_log import BUFFER, EventLog, follow, read
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.errors import Invalid, Unavailable, Unknown
from rota.model.event import Event
from rota.model.ids import NodeId, Revision
from rota.sim.world import EPOCH
from rota.store import Delete, Put, Store, open_store
from rota.store.port import Expect, Write
from tests.kit.virtual_trials import CLOCK

A = NodeId("a")


class Faulty:
    """A store whose commits do what the test says: `before` may fail one, `after` may lose its answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        self.commits: list[tuple[float, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        self.before()
        revision = await self._store.commit(*writes, expect=expect)
        self.commits.append((asyncio.get_running_loop().time(), len(writes)))
        self.after()
        return revision


def play(story: Callable[[Faulty, EventLog], Any]) -> None:
    """A story with a store that can fail, and a log that runs and is stopped in the end."""

    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as real:
            store = Faulty(real)
            log = EventLog(store, A, CLOCK, lambda: 0.5)
            running = asyncio.create_task(log.run())
            await story(store, log)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    virtual.run(main())


def away() -> None:
    raise Unavailable("the store is away")


async def subjects(store: Faulty, **wanted: Any) -> list[str]:
    return [event.subject for event in (await read(store, **wanted)).events]


def test_events_are_written_soon_and_read_back() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        log.record("node.joined", "b", term=3)
        await asyncio.sleep(0.1)
        (event,) = (await read(store)).events
        assert (event.kind, event.subject, event.node, event.at) == ("node.joined", "b", "a", EPOCH)
        assert event.text == "node b joined"
        assert event.fields == {"term": 3}
        entry = await store.get(keys.event(event.id))
        assert codec.decode(Event, entry.value) == event
        assert log.unwritten == 0

    play(story)


def test_commits_have_at_most_a_hundred_events_and_come_at_most_once_a_second() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        for number in range(250):
            log.record("node.joined", str(number))
        await asyncio.sleep(10)
        assert [size for _, size in store.commits] == [100, 100, 50]
        times = [time for time, _ in store.commits]
        assert all(later - earlier >= 1 for earlier, later in pairwise(times))
        assert await subjects(store) == [str(number) for number in range(250)]

    play(story)


def test_nothing_is_lost_in_an_outage_that_the_buffer_can_hold() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        store.before = away
        for number in range(300):
            log.record("node.joined", str(number))
            await asyncio.sleep(0.1)
        store.before = lambda: None
        await asyncio.sleep(60)
        assert await subjects(store) == [str(number) for number in range(300)]
        assert log.dropped == {}

    play(story)


def test_what_the_buffer_cannot_hold_is_counted_and_told() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        store.before = away
        for number in range(BUFFER + 20):
            log.record("node.joined", str(number))
        await asyncio.sleep(30)
        assert log.dropped == {"the buffer was full": 20}
        store.before = lambda: None
        await asyncio.sleep(60)
        (lost,) = (await read(store, kinds=["events.dropped"])).events
        assert lost.text == "events of node a were lost: the buffer was full"
        assert lost.fields["count"] == 20
        assert await subjects(store, kinds=["node.*"]) == [str(number) for number in range(BUFFER)]
        assert log.dropped == {"the buffer was full": 20}

    play(story)


def test_an_event_that_is_too_large_is_counted_and_told() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        log.record("node.joined", "b", **{f"field{number}": "x" * 1000 for number in range(20)})
        await asyncio.sleep(1)
        assert log.dropped == {"it was too large": 1}
        assert [event.kind for event in (await read(store)).events] == ["events.dropped"]

    play(story)


def test_a_hundred_of_the_largest_events_fit_into_a_commit() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        for number in range(100):
            log.record("node.joined", str(number), **{f"field{each}": "x" * 1000 for each in range(9)})
        await asyncio.sleep(1)
        assert store.commits == [(0, 100)]

    play(story)


@pytest.mark.parametrize("has_happened", [True, False])
def test_an_unknown_outcome_is_tried_again_and_doubles_nothing(has_happened: bool) -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        lost = iter([True, True])

        def lose() -> None:
            if next(lost, False):
                raise Unknown("no answer")

        if has_happened:
            store.after = lose
        else:
            store.before = lose
        for number in range(3):
            log.record("node.joined", str(number))
        await asyncio.sleep(10)
        assert await subjects(store) == ["0", "1", "2"]
        assert log.unwritten == 0

    play(story)


def test_another_event_under_the_same_key_is_not_taken_for_ours() -> None:
    """The same name, the same millisecond, the same number: an earlier life whose clock was ahead."""

    async def story(store: Faulty, log: EventLog) -> None:
        earlier = EventLog(store, A, CLOCK)
        earlier.record("node.left", "x")
        await earlier.flush()
        log.record("node.joined", "y")
        log.record("node.joined", "z")
        await asyncio.sleep(1)
        assert sorted(await subjects(store)) == ["x", "y", "z"]

    play(story)


def test_an_unknown_kind_is_refused_where_it_is_recorded() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        with pytest.raises(Invalid, match="add it to KINDS"):
            log.record("node.exploded", "a")

    play(story)


def test_what_is_left_is_written_when_the_log_is_stopped() -> None:
    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            log = EventLog(store, A, CLOCK)
            running = asyncio.create_task(log.run())
            for number in range(250):
                log.record("node.joined", str(number))
            await asyncio.sleep(0.1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert len((await read(store)).events) == 250

    virtual.run(main())


def test_a_log_can_be_stopped_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as real:
            store = Faulty(real)
            store.before = away
            log = EventLog(store, A, CLOCK)
            running = asyncio.create_task(log.run())
            log.record("node.joined", "b")
            await asyncio.sleep(5)
            started = asyncio.get_running_loop().time()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert asyncio.get_running_loop().time() - started < 5
            assert running.cancelled()

    virtual.run(main())
    assert caplog.messages.count("events not written yet") == 2  # once while running, once while stopping
    assert caplog.messages[-1] == "events not written"


async def fill(store: Store, count: int, every: timedelta) -> None:
    """Events at regular times up to now."""
    log = EventLog(store, A, CLOCK)
    for number in range(count):
        log.record("worker.exited" if number % 2 else "node.joined", str(number))
        await log.flush()
        await asyncio.sleep(every.total_seconds())


def test_reading_by_time_kind_node_and_number() -> None:
    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as real:
            store = Faulty(real)
            await fill(store, 100, timedelta(hours=1))
            assert await subjects(store) == [str(number) for number in range(100)]
            assert await subjects(store, limit=3) == ["97", "98", "99"]
            assert await subjects(store, limit=2, kinds=["node.*"]) == ["96", "98"]
            assert await subjects(store, limit=0) == []
            assert await subjects(store, node="b") == []
            assert len(await subjects(store, limit=1000)) == 100
            hour = timedelta(hours=1)
            assert await subjects(store, since=EPOCH + 98 * hour) == ["98", "99"]
            assert await subjects(store, since=EPOCH + 98 * hour, limit=50) == ["98", "99"]
            assert await subjects(store, since=EPOCH + 3 * hour, until=EPOCH + 5 * hour) == ["3", "4"]
            assert await subjects(store, until=EPOCH + 5 * hour, limit=2) == ["3", "4"]

    virtual.run(main())


def test_the_newest_few_of_many_are_found_without_reading_all() -> None:
    class Counting(Faulty):
        read = 0

        async def scan(self, *args: Any, **kwargs: Any) -> Any:
            listing = await self._store.scan(*args, **kwargs)
            self.read += len(listing.entries)
            return listing

    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as real:
            store = Counting(real)
            await fill(store, 3000, timedelta(minutes=1))
            assert await subjects(store, limit=5) == [str(number) for number in range(2995, 3000)]
            assert store.read < 50

    virtual.run(main())


def test_reading_an_empty_store() -> None:
    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            assert (await read(store)).events == ()
            assert (await read(store, limit=5)).events == ()

    virtual.run(main())


def test_an_event_of_a_newer_release_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        await store.commit(Put("/events/000000000000001-000001-z", b'{"v":99}'))
        log.record("node.joined", "b")
        await asyncio.sleep(1)
        assert await subjects(store) == ["b"]

    play(story)
    assert "record not understood" in caplog.messages


async def collect(store: Any, after: Revision, into: list[str], **wanted: Any) -> None:
    async with aclosing(follow(store, after, jitter=lambda: 0.5, **wanted)) as coming:
        async for event in coming:
            into.append(event.subject)


def test_following_goes_on_where_reading_ended() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        log.record("node.joined", "0")
        await asyncio.sleep(2)
        reading = await read(store)
        seen: list[str] = []
        following = asyncio.create_task(collect(store, reading.revision, seen, kinds=["node.*"]))
        for number in range(1, 5):
            log.record("node.joined", str(number))
            log.record("worker.exited", "w")
            await asyncio.sleep(2)
        assert seen == ["1", "2", "3", "4"]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    play(story)


def test_following_survives_a_compaction_without_a_gap_or_a_double() -> None:
    class Slow(Faulty):
        """Its watch stands still until it is let go."""

        def __init__(self, store: Store) -> None:
            super().__init__(store)
            self.may_go = asyncio.Event()
            self.may_go.set()

        async def watch(self, prefix: str, after: Revision) -> Any:
            await self.may_go.wait()
            async with aclosing(self._store.watch(prefix, after)) as commits:
                async for commit in commits:
                    yield commit
                    if not self.may_go.is_set():
                        raise Unavailable("cut")

    async def main() -> None:
        async with open_store("memory://", clock=CLOCK) as real:
            store = Slow(real)
            log = EventLog(store, A, CLOCK)
            seen: list[str] = []
            following = asyncio.create_task(collect(store, await store.revision(), seen))
            log.record("node.joined", "0")
            await log.flush()
            await asyncio.sleep(1)
            store.may_go.clear()
            for number in range(1, 6):
                log.record("node.joined", str(number))
                await log.flush()
                await asyncio.sleep(1)
            await store.compact(await store.revision())
            store.may_go.set()
            await asyncio.sleep(5)
            log.record("node.joined", "6")
            await log.flush()
            await asyncio.sleep(5)
            assert seen == [str(number) for number in range(7)]
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    virtual.run(main())


def test_a_deletion_is_no_event() -> None:
    async def story(store: Faulty, log: EventLog) -> None:
        log.record("node.joined", "0")
        await asyncio.sleep(1)
        reading = await read(store)
        seen: list[str] = []
        following = asyncio.create_task(collect(store, reading.revision, seen))
        await store.commit(Delete(keys.event(reading.events[0].id)))
        log.record("node.joined", "1")
        await asyncio.sleep(2)
        assert seen == ["1"]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    play(story)
