"""The laws of sources, on every adapter: the numbers are those of `rota.sources.port.Source`.

What only a real Kafka does, or only a log, is in `test_kafka_source_only.py` and `tests/unit/sources/log`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.model.errors import Invalid, NotFound, Unavailable
from rota.sources import Bounds, Gap, Reader, Source, Vanished, open_source
from tests.kit.server_pool import ServerPool
from tests.kit.sources import HARNESSES, SourceHarness, at, new, news, numbers, offsets, params, read_to, take
from tests.kit.waiting import eventually


@pytest.fixture(params=params(HARNESSES))
def place(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SourceHarness]:
    """A place for records, on every adapter."""
    yield from _place(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.can_change))
def changing(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SourceHarness]:
    """A place where records are deleted and partitions added."""
    yield from _place(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.can_leave_gaps))
def gappy(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SourceHarness]:
    """A place where offsets may have no record."""
    yield from _place(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.can_fail))
def shaky(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SourceHarness]:
    """A place that can be taken away."""
    yield from _place(request.param, servers, tmp_path)


def _place(kind: type[SourceHarness], servers: ServerPool, folder: Path) -> Iterator[SourceHarness]:
    place = kind(folder, servers.get(kind.server, "steady") if kind.server else None)
    try:
        yield place
    finally:
        place.close()


@asynccontextmanager
async def reading(place: SourceHarness, positions: dict[int, int]) -> AsyncIterator[tuple[Source, Reader]]:
    """A source, and a reader of it."""
    async with open_source(place.url()) as source, asyncio.timeout(60):
        reader = await source.reader(positions)
        try:
            yield source, reader
        finally:
            await reader.close()


# Law 1: in order, each once, nothing left out silently


async def test_law_1_each_partition_is_read_in_order_and_whole(place: SourceHarness) -> None:
    place.append(0, news(1500))
    place.append(1, news(700, first=5000))
    async with reading(place, {0: 0, 1: 0}) as (_, reader):
        taken = await take(reader, 2200, most=333)
        assert numbers(taken.of(0)) == list(range(1500))
        assert numbers(taken.of(1)) == list(range(5000, 5700))
        assert [record.offset for record in taken.of(0)] == list(range(1500))
        assert max(len(batch.records) for batch in taken.batches) <= 333
        assert not [gap for batch in taken.batches for gap in batch.gaps]
        assert reader.positions == {0: 1500, 1: 700}


async def test_law_1_a_record_is_as_it_was_appended(place: SourceHarness) -> None:
    sent = new(7, key=b"k\x00", headers=(("a", b"1"), ("a", b"\xff"), ("b", b"")))
    place.append(0, [sent, new(8, value=None, key=b"gone")])
    async with reading(place, {0: 0}) as (_, reader):
        first, second = (await take(reader, 2)).of(0)
        assert (first.offset, first.time_ms, first.key, first.value) == (0, sent.time_ms, sent.key, sent.value)
        assert first.headers == sent.headers
        assert (second.key, second.value, second.headers) == (b"gone", None, ())


async def test_law_1_offsets_without_a_record_are_told(gappy: SourceHarness) -> None:
    gappy.append(0, news(3))
    gappy.leave_gap(0)
    gappy.append(0, news(3, first=3))
    gappy.leave_gap(0)
    async with open_source(gappy.url()) as source:
        end = (await source.bounds([0]))[0].end
    async with reading(gappy, {0: 0}) as (_, reader):
        taken = await read_to(reader, {0: end})
    assert numbers(taken.of(0)) == list(range(6))
    gaps = [gap for batch in taken.batches for gap in batch.gaps]
    seen = sorted(
        [record.offset for record in taken.of(0)] + [o for gap in gaps for o in range(gap.first, gap.last + 1)]
    )
    assert seen == list(range(end))
    assert end > 6


# Law 2: another reader goes on where one stopped


async def test_law_2_a_batch_says_where_the_next_reader_begins(place: SourceHarness) -> None:
    place.append(0, news(500))
    async with reading(place, {0: 123}) as (_, first):
        batches = await first.read(50)
    async with reading(place, {0: batches[-1].next}) as (_, second):
        rest = await take(second, 500 - 123 - len(offsets(batches)))
    assert offsets(batches) + offsets(rest.batches) == list(range(123, 500))


async def test_law_2_readers_do_not_see_each_other(place: SourceHarness) -> None:
    place.append(0, news(200))
    async with reading(place, {0: 0}) as (source, first):
        second = await source.reader({0: 0})
        one, two = await asyncio.gather(take(first, 200, most=7), take(second, 200, most=60))
        await second.close()
    assert offsets(one.batches) == offsets(two.batches) == list(range(200))


# Law 3: at the end it waits


async def test_law_3_a_reader_at_the_end_gives_what_is_appended(place: SourceHarness) -> None:
    place.append(0, news(10))
    async with reading(place, {0: 10, 1: 0}) as (_, reader):
        waiting = asyncio.create_task(take(reader, 5))
        await asyncio.to_thread(place.append, 0, news(3, first=10))
        await asyncio.to_thread(place.append, 1, news(2))
        taken = await waiting
        assert numbers(taken.of(0)) == [10, 11, 12]
        assert numbers(taken.of(1)) == [0, 1]


# Law 4: what is gone is told, with its offsets


async def test_law_4_deleted_records_raise_until_told_where_to_go_on(changing: SourceHarness) -> None:
    changing.append(0, news(300))
    changing.append(1, news(5))
    changing.delete(0, 120)
    async with reading(changing, {0: 20, 1: 0}) as (_, reader):
        for _ in range(2):
            with pytest.raises(Vanished) as caught:
                await take(reader, 300)
            assert (caught.value.partition, caught.value.gap) == (0, Gap(20, 119))
            assert caught.value.bounds == Bounds(120, 300)
            assert "offsets 20 to 119 cannot be read" in str(caught.value)
        position = reader.positions[1]
        assert reader.positions[0] == 20
        await reader.assign({0: 120, 1: position})
        taken = await take(reader, 180 + 5 - position)
        assert [record.offset for record in taken.of(0)] == list(range(120, 300))


async def test_law_4_a_source_that_is_shorter_than_it_was_is_told(place: SourceHarness) -> None:
    place.append(0, news(10))
    async with reading(place, {0: 25}) as (_, reader):
        with pytest.raises(Vanished) as caught:
            await reader.read()
        assert (caught.value.gap, caught.value.bounds) == (Gap(10, 24), Bounds(0, 10))
        await reader.assign({0: 10})
        await asyncio.to_thread(place.append, 0, news(1, first=10))
        assert offsets((await take(reader, 1)).batches) == [10]


# Law 5: bounds


async def test_law_5_bounds_tell_what_can_be_read(place: SourceHarness) -> None:
    async with open_source(place.url()) as source:
        assert await source.bounds([0, 1]) == {0: Bounds(0, 0), 1: Bounds(0, 0)}
        await asyncio.to_thread(place.append, 1, news(250))
        assert await source.bounds([1, 0]) == {0: Bounds(0, 0), 1: Bounds(0, 250)}
        assert await source.bounds([]) == {}


async def test_law_5_bounds_after_deleting(changing: SourceHarness) -> None:
    changing.append(0, news(300))
    async with open_source(changing.url()) as source:
        changing.delete(0, 170)
        assert await source.bounds([0]) == {0: Bounds(170, 300)}
        changing.delete(0, 300)
        assert await source.bounds([0]) == {0: Bounds(300, 300)}


# Law 6: times


async def test_law_6_the_offset_of_a_time_is_the_first_that_is_as_late(changing: SourceHarness) -> None:
    changing.append(0, [new(second) for second in (10, 20, 15, 30, 30, 25)])
    async with open_source(changing.url()) as source:
        found = {second: await source.offset_at(0, at(second)) for second in (0, 10, 11, 20, 21, 30, 31)}
        assert found == {0: 0, 10: 0, 11: 1, 20: 1, 21: 3, 30: 3, 31: 6}
        assert await source.offset_at(1, at(0)) == 0
        changing.delete(0, 2)
        assert await source.offset_at(0, at(0)) == 2


# Law 7: partitions


async def test_law_7_added_partitions_are_noticed(changing: SourceHarness) -> None:
    async with reading(changing, {0: 0}) as (source, reader):
        assert await source.partitions() == (0, 1)
        await asyncio.to_thread(changing.grow, 4)
        await eventually(lambda: _has(source, 4), within=30)
        await asyncio.to_thread(changing.append, 3, news(2))
        await reader.assign({0: 0, 3: 0})
        assert numbers((await take(reader, 2)).of(3)) == [0, 1]


async def _has(source: Source, partitions: int) -> bool:
    return await source.partitions() == tuple(range(partitions))


async def test_law_7_a_partition_that_is_not_there_is_not_found(place: SourceHarness) -> None:
    async with open_source(place.url()) as source:
        with pytest.raises(NotFound, match="has no partition 7; it has 2"):
            await source.bounds([0, 7])
        with pytest.raises(NotFound, match="has no partition 7; it has 2"):
            await source.reader({7: 0})


async def test_law_7_a_source_that_is_not_there_is_not_found(changing: SourceHarness) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        async with open_source(changing.nowhere()):
            pass


# Law 9: cancelling loses nothing


async def test_law_9_a_cancelled_read_loses_nothing(place: SourceHarness) -> None:
    place.append(0, news(2000))
    async with reading(place, {0: 0}) as (_, reader):
        seen: list[int] = []
        while len(seen) < 2000:
            read = asyncio.create_task(reader.read(100))
            await asyncio.sleep(0)  # it has begun
            read.cancel()
            await asyncio.wait([read])
            if not read.cancelled():
                seen += offsets(read.result())
            seen += offsets(await reader.read(100))
        assert seen == list(range(2000))


async def test_law_9_positions_count_what_was_given(place: SourceHarness) -> None:
    place.append(0, news(50))
    place.append(1, news(50))
    async with reading(place, {0: 0, 1: 0}) as (_, reader):
        cancelled = asyncio.create_task(reader.read(10))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        given = {} if cancelled.cancelled() else {batch.partition: batch.next for batch in cancelled.result()}
        assert reader.positions == {0: 0, 1: 0} | given
        await reader.assign({0: 20})
        taken = await take(reader, 30)
        assert {batch.partition for batch in taken.batches} == {0}
        assert offsets(taken.batches) == list(range(20, 50))


# Law 10: outages


async def test_law_10_an_outage_delays_a_reader_and_says_so(shaky: SourceHarness) -> None:
    shaky.append(0, news(5))
    async with open_source(shaky.url()) as source, asyncio.timeout(90):
        reader = await source.reader({0: 0})
        await take(reader, 5)
        await asyncio.to_thread(shaky.fail)
        waiting = asyncio.create_task(take(reader, 3))
        assert "source" in await eventually(lambda: reader.trouble, within=30)
        await asyncio.to_thread(shaky.recover)
        await asyncio.to_thread(shaky.append, 0, news(3, first=5))
        assert numbers((await waiting).of(0)) == [5, 6, 7]
        await eventually(lambda: reader.trouble is None)
        await reader.close()


async def test_law_10_other_calls_are_unavailable_and_work_again(shaky: SourceHarness) -> None:
    shaky.append(0, news(5))
    options = {"timeout": "3s"} if "kafka" in shaky.name else {}
    async with open_source(shaky.url(**options)) as source, asyncio.timeout(90):
        await asyncio.to_thread(shaky.fail)
        with pytest.raises(Unavailable, match="source"):
            await source.bounds([0])
        await asyncio.to_thread(shaky.recover)

        async def is_back() -> bool:
            return await source.bounds([0]) == {0: Bounds(0, 5)}

        await eventually(is_back, within=30, despite=(Unavailable,))


async def test_law_10_an_unknown_option_is_invalid(place: SourceHarness) -> None:
    with pytest.raises(Invalid, match="unknown option colour"):
        async with open_source(place.url(colour="blue")):
            pass


# Law 11: identity


async def test_law_11_what_is_made_anew_is_another(changing: SourceHarness) -> None:
    async with open_source(changing.url()) as source:
        before = await source.identity()
        assert before is not None
        assert await source.identity() == before
        await asyncio.to_thread(changing.make_anew)

        async def is_another() -> bool:
            return await source.identity() not in (None, before)

        await eventually(is_another, within=30, despite=(NotFound, Unavailable))
