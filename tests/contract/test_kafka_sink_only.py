"""What only a real Kafka does to its publishers: it refuses a message that it would never take."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from rota.model.errors import Invalid
from rota.sinks import open_sink
from tests.kit.server_pool import ServerPool
from tests.kit.servers import Kafka
from tests.kit.sinks import Told, is_in_order, message, messages, numbers
from tests.kit.sources import KafkaHarness, make_topic
from tests.kit.waiting import eventually

pytestmark = pytest.mark.needs("kafka")

MOST_BYTES = 2000
"""What a record batch of the small topic may have."""


@pytest.fixture
def place(servers: ServerPool, tmp_path: Path) -> Iterator[KafkaHarness]:
    """A broker, and a topic."""
    place = KafkaHarness(tmp_path, servers.get(Kafka, "steady"))
    yield place
    place.close()


@pytest.fixture
def told() -> Told:
    """What became of messages."""
    return Told()


@pytest.fixture
def small(place: KafkaHarness) -> str:
    """The URL of a topic for small records only."""
    name = f"{place.space}-small"
    make_topic(place.admin, NewTopic(name, 1, 1, config={"max.message.bytes": str(MOST_BYTES)}))
    return f"kafka://{place.kafka.hosts}/{name}"


async def test_a_message_too_large_for_the_topic_is_rejected_and_the_others_pass(small: str, told: Told) -> None:
    large = message(2, "r2", payload=bytes(MOST_BYTES + 1))
    async with open_sink(small, told) as sink:
        await sink.publish([message(1, "r1"), large, message(3, "r2"), *messages(100, first=10)])
        await asyncio.wait_for(sink.flush(), 60)
        await sink.publish(messages(100, first=200))
        await asyncio.wait_for(sink.flush(), 60)
        assert sink.trouble is None
    assert sorted(numbers(told.confirmed_ones)) == [1, 3, *range(10, 110), *range(200, 300)]
    ((rejected, why),) = told.rejected_ones
    assert rejected == large
    assert "has 2001 bytes" in why
    assert told.twice == []
    assert is_in_order(told.confirmed_ones)


async def test_a_message_for_a_topic_that_is_not_there_is_rejected_and_the_others_pass(
    place: KafkaHarness, told: Told
) -> None:
    lost = [message(2, to="nowhere"), message(4, to="nowhere")]
    async with open_sink(f"{place.url()}?timeout=1s", told) as sink:
        await sink.publish([message(1), lost[0], message(3)])
        await asyncio.wait_for(sink.flush(), 60)
        await sink.publish([lost[1], message(5)])
        await asyncio.wait_for(sink.flush(), 60)
        assert sink.trouble is None
    assert sorted(numbers(told.confirmed_ones)) == [1, 3, 5]
    assert [one for one, _ in told.rejected_ones] == lost
    assert {why.partition(":")[0] for _, why in told.rejected_ones} == {"topic nowhere"}
    assert told.twice == []


async def test_a_missing_topic_of_the_sinks_own_url_is_waited_for(place: KafkaHarness, told: Told) -> None:
    name = f"{place.space}-later"
    async with open_sink(f"kafka://{place.kafka.hosts}/{name}?timeout=1s", told) as sink:
        await sink.publish(messages(10))
        await eventually(lambda: "make the topic" in (sink.trouble or ""))
        with pytest.raises(Invalid, match="make the topic"):
            await sink.flush()
        await asyncio.to_thread(make_topic, place.admin, NewTopic(name, 1, 1))
        await told.until_confirmed(10)
    assert told.rejected_ones == []
