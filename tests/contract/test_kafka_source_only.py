"""What only a real Kafka does to its readers: transactions, compaction, retention, and being killed."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from rota.model.errors import Denied, NotFound, Unavailable
from rota.sources import Bounds, Vanished, kafka, open_source
from rota.sources import url as urls
from rota.sources.port import Replaceable
from tests.kit.server_pool import ServerPool
from tests.kit.servers import PASSWORD, USER, Kafka, free_port
from tests.kit.sources import KafkaHarness, done, make_topic, new, news, numbers, offsets, produce, read_to, take
from tests.kit.waiting import eventually

pytestmark = pytest.mark.needs("kafka")


@pytest.fixture
def place(servers: ServerPool, tmp_path: Path) -> Iterator[KafkaHarness]:
    """A topic."""
    place = KafkaHarness(tmp_path, servers.get(Kafka, "steady"))
    yield place
    place.close()


@pytest.fixture
def victim(servers: ServerPool, tmp_path: Path) -> Iterator[KafkaHarness]:
    """A topic on a broker that may be hurt."""
    server = servers.get(Kafka, "victim")
    yield KafkaHarness(tmp_path, server)
    server.recover()


def make(place: KafkaHarness, name: str, **settings: str) -> str:
    """A topic with settings of its own; its URL."""
    config = {key.replace("_", "."): value for key, value in settings.items()}
    make_topic(place.admin, NewTopic(name, 1, 1, config=config))
    return f"kafka://{place.kafka.hosts}/{name}"


async def test_what_a_transaction_has_not_committed_is_not_there_yet(place: KafkaHarness) -> None:
    place.append(0, news(3))
    producer = place.transaction()
    produce(producer, place.space, 0, news(2, first=3))
    place.append(0, news(1, first=5))  # outside the transaction, and behind it
    async with open_source(place.url()) as source, asyncio.timeout(60):
        assert (await source.bounds([0]))[0].end == 3
        reader = await source.reader({0: 0})
        assert numbers((await take(reader, 3)).of(0)) == [0, 1, 2]
        rest = asyncio.create_task(take(reader, 3))
        await asyncio.to_thread(producer.commit_transaction, 30)
        assert numbers((await rest).of(0)) == [3, 4, 5]
        assert (await source.bounds([0]))[0].end == 7  # with the mark
        await reader.close()


async def test_what_compaction_took_away_is_a_gap(place: KafkaHarness) -> None:
    name = f"{place.space}-compacted"
    settings = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
    url = make(place, name, **settings)
    producer = place.plain()
    for _ in range(3):  # the newest segment is never compacted
        produce(
            producer, name, 0, [new(number, key=b"k%d" % (number % 5), value=bytes(20_000)) for number in range(60)]
        )

    async def is_compacted() -> bool:
        async with open_source(url) as source:
            end = (await source.bounds([0]))[0].end
            reader = await source.reader({0: 0})
            taken = await read_to(reader, {0: end})
            await reader.close()
        gaps = [gap for batch in taken.batches for gap in batch.gaps]
        read = offsets(taken.batches)
        assert read == sorted(set(read))
        assert len(read) + sum(map(len, gaps)) == end == 180
        return bool(gaps)

    await eventually(is_compacted, within=60)


async def test_what_retention_deleted_has_vanished(place: KafkaHarness) -> None:
    name = f"{place.space}-short"
    url = make(place, name, segment_bytes="1048576", retention_bytes="1048576")
    produce(place.plain(), name, 0, [new(number, value=bytes(20_000)) for number in range(300)])
    async with open_source(url) as source, asyncio.timeout(60):

        async def start() -> int:
            return (await source.bounds([0]))[0].start

        await eventually(start, within=30)
        reader = await source.reader({0: 0})
        with pytest.raises(Vanished) as caught:
            await reader.read()
        gone = caught.value
        assert (gone.gap.first, gone.gap.last + 1) == (0, gone.bounds.start)
        assert gone.bounds.end == 300
        await reader.close()


async def test_a_broker_that_is_killed_delays_and_loses_nothing(victim: KafkaHarness) -> None:
    victim.append(0, news(100))
    async with open_source(victim.url()) as source, asyncio.timeout(100):
        reader = await source.reader({0: 0})
        await take(reader, 50, most=50)
        victim.kafka.kill()
        rest = asyncio.create_task(take(reader, 100))
        await eventually(lambda: reader.trouble, within=30)
        await asyncio.to_thread(victim.kafka.start)
        await asyncio.to_thread(victim.append, 0, news(50, first=100))
        assert offsets((await rest).batches) == list(range(50, 150))
        await reader.close()


async def test_a_topic_that_is_deleted_is_not_found(place: KafkaHarness) -> None:
    name = f"{place.space}-deleted"
    url = make(place, name)
    async with open_source(f"{url}?timeout=5s") as source, asyncio.timeout(60):
        reader = await source.reader({0: 0})
        done(place.admin.delete_topics([name]))
        with pytest.raises(NotFound, match="make the topic"):
            await reader.read()
        await reader.close()


async def test_a_small_room_ahead_loses_nothing(place: KafkaHarness) -> None:
    place.append(0, [new(number, value=bytes(10_000)) for number in range(500)])
    async with open_source(place.url(ahead=65536)) as source, asyncio.timeout(60):
        reader = await source.reader({0: 0})
        assert offsets((await take(reader, 500, most=20)).batches) == list(range(500))
        await reader.close()


def test_the_room_ahead_is_told_to_the_client() -> None:
    settings = kafka.read(urls.parse("kafka://host/topic?ahead=1048576"))
    assert settings.consumer()["queued.max.messages.kbytes"] == 1024


async def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"source kafka://127\.0\.0\.1"):
        async with open_source(f"kafka://127.0.0.1:{free_port()}/topic?timeout=1s"):
            pass


async def test_a_user_gets_in_over_tls_with_the_password_in_a_file(place: KafkaHarness, tmp_path: Path) -> None:
    place.append(0, news(3))
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    way = f"{USER}@{place.kafka.guarded_hosts}/{place.space}?sasl=plain&ca={place.kafka.tls.authority}"
    async with open_source(f"kafka://{way}&password_file={secret}") as source, asyncio.timeout(30):
        assert await source.bounds([0]) == {0: Bounds(0, 3)}
        reader = await source.reader({0: 0})
        assert numbers((await take(reader, 3)).of(0)) == [0, 1, 2]
        await reader.close()


async def test_a_wrong_password_is_denied(place: KafkaHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "wrong")
    way = f"{USER}@{place.kafka.guarded_hosts}/{place.space}?sasl=plain&ca={place.kafka.tls.authority}"
    for patience in (3, 10, 30, 60):  # the client waits that long whatever the brokers say, and a busy one may need it
        with pytest.raises((Denied, Unavailable)) as refused:
            async with open_source(f"kafka://{way}&password_env=SECRET&timeout={patience}s"):
                pass
        if isinstance(refused.value, Denied):
            break
    assert isinstance(refused.value, Denied)
    assert "check the user, its password" in str(refused.value)


async def test_a_pattern_reads_all_topics_that_match_also_those_that_come_later(place: KafkaHarness) -> None:
    names = [f"{place.space}.{end}" for end in ("eu", "us", "old")]
    for name in names[:2]:
        make(place, name)
        produce(place.plain(), name, 0, news(3))
    async with (
        open_source(f"kafka://{place.kafka.hosts}/^{place.space}[.](eu|us|old)") as source,
        asyncio.timeout(60),
    ):
        before = await source.partitions()
        assert len(before) == 2
        assert await source.identity() is None
        assert [bounds.end for bounds in (await source.bounds(before)).values()] == [3, 3]
        reader = await source.reader(dict.fromkeys(before, 0))
        taken = await take(reader, 6)
        assert {batch.topic: offsets([batch]) for batch in taken.batches} == {names[0]: [0, 1, 2], names[1]: [0, 1, 2]}
        make(place, names[2])
        produce(place.plain(), names[2], 0, news(1))

        async def come() -> list[int] | None:
            return [number for number in await source.partitions() if number not in before] or None

        (later,) = await eventually(come, within=30)
        await reader.assign({**reader.positions, later: 0})
        assert [batch.topic for batch in (await take(reader, 1)).batches] == [names[2]]
        await reader.close()


async def test_a_topic_of_a_pattern_that_is_made_anew_is_another_one(place: KafkaHarness) -> None:
    name = f"{place.space}.eu"
    make(place, name)
    async with open_source(f"kafka://{place.kafka.hosts}/^{place.space}[.]eu") as source, asyncio.timeout(60):
        assert isinstance(source, Replaceable)
        (before,) = await source.partitions()
        done(place.admin.delete_topics([name]))

        async def is_gone() -> bool:
            with suppress(NotFound):
                return not await source.partitions()
            return True

        await eventually(is_gone, within=30)
        with suppress(NotFound):  # a pattern that nothing matches
            assert await source.replaced([before]) == ()
        make(place, name)

        async def come() -> tuple[int, ...] | None:
            with suppress(NotFound):
                return await source.partitions()
            return None

        assert await eventually(come, within=30) != (before,)
        assert await source.replaced([before]) == (before,)
        assert await source.replaced(await source.partitions()) == ()
        with pytest.raises(NotFound, match=f"has no partition {before}"):
            await source.bounds([before])
