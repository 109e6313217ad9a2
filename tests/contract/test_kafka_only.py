"""What only Kafka has: topics, and a producer that gives up and is made anew. Tried on librdkafka's mock cluster."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from rota.model.errors import Unavailable
from rota.sinks import Message, open_sink
from rota.sinks.kafka import KafkaProducer
from tests.kit.servers import free_port
from tests.kit.sinks import KafkaHarness, Told, is_in_order, last_copies, message, messages, numbers, without_repeats
from tests.kit.waiting import eventually

TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def place(tmp_path: Path) -> Iterator[KafkaHarness]:
    """A topic."""
    place = KafkaHarness(tmp_path, None)
    yield place
    place.close()


@pytest.fixture
def told() -> Told:
    """What became of messages."""
    return Told()


async def test_messages_go_to_the_topic_they_name(place: KafkaHarness, told: Told) -> None:
    async with open_sink(f"kafka://{place.kafka.hosts}/all-{{kind}}", told) as sink:
        await sink.publish([message(1), message(2, to="elsewhere")])
        await sink.flush()
    assert numbers(await asyncio.to_thread(place.kafka.arrived, "all-room")) == [1]
    assert numbers(await asyncio.to_thread(place.kafka.arrived, "elsewhere")) == [2]


async def test_a_topic_that_cannot_be_is_a_rejection(place: KafkaHarness, told: Told) -> None:
    surrogate = message(2, "\udc80")
    async with open_sink(place.url(), told) as sink:
        await sink.publish([message(1), surrogate, message(3)])
        await sink.flush()
    assert sorted(numbers(told.confirmed_ones)) == [1, 3]
    assert [one for one, _ in told.rejected_ones] == [surrogate]


async def test_a_producer_that_gave_up_is_made_anew_and_nothing_is_lost(
    place: KafkaHarness, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rota.sinks")
    sent = messages(500)
    async with open_sink(place.url(), told) as sink:
        await sink.publish(sent[:100])
        await sink.flush()
        place.kafka.fail_produce(*[TOPIC_AUTHORIZATION_FAILED] * 3)
        await sink.publish(sent[100:])
        await told.until_confirmed(500)
    arrived = await asyncio.to_thread(place.arrived)
    assert sorted(numbers(without_repeats(arrived))) == numbers(sent)
    assert is_in_order(last_copies(arrived))
    assert told.twice == []
    # A client that is slow to connect anew may be in other trouble too, for a moment.
    troubles = {record.why for record in caplog.records if record.message == "sink in trouble"}
    assert any("check the user, its password and its permissions" in trouble for trouble in troubles), troubles


@pytest.mark.parametrize("code", [KafkaError._FATAL, KafkaError.TOPIC_AUTHORIZATION_FAILED])
async def test_a_producer_that_gave_up_before_we_heard_of_it_costs_no_message(
    place: KafkaHarness, told: Told, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """It then refuses whatever it is handed, and that says nothing of the message."""
    produce, refusals = KafkaProducer.produce, iter([KafkaError(code, "it gave up")])

    def refuse_once(client: KafkaProducer, number: int, topic: str, message: Message) -> None:
        if number > 3 and (refusal := next(refusals, None)):
            raise KafkaException(refusal)
        produce(client, number, topic, message)

    monkeypatch.setattr(KafkaProducer, "produce", refuse_once)
    sent = messages(10)
    async with open_sink(place.url(), told) as sink:
        await sink.publish(sent)
        await told.until_confirmed(10)
    assert told.rejected_ones == []
    assert told.twice == []
    arrived = await asyncio.to_thread(place.arrived)
    assert sorted(numbers(without_repeats(arrived))) == numbers(sent)


async def test_a_batch_that_is_too_large_rejects_none_of_its_messages(place: KafkaHarness, told: Told) -> None:
    async with open_sink(place.url(), told) as sink:
        place.kafka.fail_produce(KafkaError.MSG_SIZE_TOO_LARGE)
        await sink.publish(messages(100))
        await asyncio.wait_for(sink.flush(), 60)
        await sink.publish(messages(100, first=100))
        await asyncio.wait_for(sink.flush(), 60)
    assert sorted(numbers(told.confirmed_ones)) == list(range(200))
    assert told.rejected_ones == []
    assert told.twice == []


async def test_an_idle_sink_is_out_of_trouble_when_its_brokers_are_back(place: KafkaHarness, told: Told) -> None:
    """Nobody publishes to a sink in trouble, so it must not wait for a confirmation."""
    async with open_sink(place.url(timeout="1s"), told) as sink:
        await sink.publish(messages(10))
        await sink.flush()
        place.fail()
        await eventually(lambda: sink.trouble)
        place.recover()
        await eventually(lambda: sink.trouble is None)


async def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"sink kafka://127\.0\.0\.1"):
        async with open_sink(f"kafka://127.0.0.1:{free_port()}/topic?timeout=1s", Told()):
            pass
