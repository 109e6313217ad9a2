"""The laws of sinks, on every adapter: the numbers are those of `rota.sinks.port.Sink`.

What happens when a real server is killed, refuses or blocks is in `test_rabbitmq_only.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rota.model.errors import Invalid, RotaError
from rota.sinks import Message, Sink, open_sink
from tests.kit.server_pool import ServerPool
from tests.kit.sinks import (
    HARNESSES,
    SinkHarness,
    Told,
    is_in_order,
    message,
    messages,
    numbers,
    params,
    without_repeats,
)
from tests.kit.waiting import eventually


@pytest.fixture(params=params(HARNESSES))
def place(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SinkHarness]:
    """A place for messages, on every adapter."""
    yield from _place(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.can_fail))
def shaky(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SinkHarness]:
    """A place that can be taken away."""
    yield from _place(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.has_limit))
def limited(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[SinkHarness]:
    """A place with a limit to the size of messages."""
    yield from _place(request.param, servers, tmp_path)


def _place(kind: type[SinkHarness], servers: ServerPool, folder: Path) -> Iterator[SinkHarness]:
    place = kind(folder, servers.get(kind.server, "steady") if kind.server else None)
    try:
        yield place
    finally:
        place.close()


@pytest.fixture
def told() -> Told:
    """What became of messages."""
    return Told()


@pytest.fixture
async def sink(place: SinkHarness, told: Told) -> AsyncIterator[Sink]:
    """An open sink."""
    async with open_sink(place.url(), told) as sink:
        yield sink


async def publish_all(sink: Sink, all_of_them: list[Message], size: int = 100) -> None:
    for start in range(0, len(all_of_them), size):
        await sink.publish(all_of_them[start : start + size])


# Law 1: messages of one resource arrive in the order they were published


async def test_law_1_each_resource_is_in_order(place: SinkHarness, sink: Sink) -> None:
    sent = messages(3000)
    await publish_all(sink, sent, 70)
    await sink.flush()
    arrived = await asyncio.to_thread(place.arrived)
    assert sorted(numbers(arrived)) == numbers(sent)
    assert is_in_order(arrived)


async def test_law_1_single_messages_are_in_order_too(place: SinkHarness, sink: Sink) -> None:
    for one in messages(200, resources=1):
        await sink.publish([one])
    await sink.flush()
    assert numbers(await asyncio.to_thread(place.arrived)) == list(range(200))


async def test_law_1_concurrent_publishers_take_turns_in_the_order_they_asked(place: SinkHarness, told: Told) -> None:
    async with open_sink(place.url(window=10), told) as sink:
        asked = [asyncio.create_task(sink.publish([one])) for one in messages(100, resources=1)]
        await asyncio.gather(*asked)
        await sink.flush()
    assert numbers(await asyncio.to_thread(place.arrived)) == list(range(100))


# Law 2: what is confirmed is there, as it was given


async def test_law_2_what_is_confirmed_is_there(place: SinkHarness, sink: Sink, told: Told) -> None:
    await publish_all(sink, messages(500))
    await told.until_confirmed(1)
    confirmed = set(numbers(told.confirmed_ones))
    assert confirmed <= set(numbers(await asyncio.to_thread(place.arrived)))


async def test_law_2_every_field_arrives(place: SinkHarness, sink: Sink) -> None:
    plain = message(1, "plain")
    full = message(2, "with all", key="k1", headers={"colour": "grün"}, payload=b"\x00\xff binary")
    empty = message(3, "empty", payload=b"")
    large = message(4, "large", payload=bytes(300_000))
    await sink.publish([plain, full, empty, large])
    await sink.flush()
    arrived = {one.resource: one for one in await asyncio.to_thread(place.arrived)}
    assert arrived == {"plain": plain, "with all": full, "empty": empty, "large": large}


# Law 3: after a break everything unconfirmed goes again, in order, with equal ids


async def test_law_3_nothing_is_lost_and_order_is_kept_over_outages(shaky: SinkHarness, told: Told) -> None:
    sent = messages(2000)
    window = 200
    async with open_sink(shaky.url(window=window), told) as sink:
        publishing = asyncio.create_task(publish_all(sink, sent, 50))
        for round_ in (1, 2):
            await told.until_confirmed(400 * round_)
            shaky.fail()
            await eventually(lambda: sink.trouble, within=30)
            shaky.recover()
        await publishing
        await sink.flush()
    arrived = await asyncio.to_thread(shaky.arrived)
    assert sorted(numbers(without_repeats(arrived))) == numbers(sent)
    assert is_in_order(without_repeats(arrived))
    assert len(arrived) - len(sent) <= 2 * window


# Law 4: at most `window` messages are under way; a batch is taken whole or not at all


async def test_law_4_a_batch_beyond_the_window_is_invalid(place: SinkHarness, told: Told) -> None:
    async with open_sink(place.url(window=10), told) as sink:
        with pytest.raises(Invalid, match="batch of 11 messages; at most window=10"):
            await sink.publish(messages(11))
        await sink.publish(messages(10))
        await sink.flush()
    assert len(told.confirmed_ones) == 10


async def test_law_4_publish_waits_for_room_and_takes_nothing_when_cancelled(shaky: SinkHarness, told: Told) -> None:
    async with open_sink(shaky.url(window=10), told) as sink:
        shaky.fail()
        await sink.publish(messages(6))
        second = asyncio.create_task(sink.publish(messages(5, first=6)))
        third = asyncio.create_task(sink.publish(messages(2, first=11)))
        await eventually(lambda: sink.trouble, within=30)
        assert not second.done()
        assert not third.done(), "a small batch must not overtake a large one"
        second.cancel()
        await asyncio.wait([second])
        await asyncio.wait_for(third, 10)
        shaky.recover()
        await asyncio.wait_for(sink.flush(), 60)
    assert set(numbers(told.confirmed_ones)) == {0, 1, 2, 3, 4, 5, 11, 12}


async def test_law_4_thousands_pass_through_a_small_window(place: SinkHarness, told: Told) -> None:
    async with open_sink(place.url(window=20), told) as sink:
        await publish_all(sink, messages(2000), 20)
        await sink.flush()
    assert sorted(numbers(told.confirmed_ones)) == list(range(2000))


# Law 5: one outcome for each message


async def test_law_5_each_message_has_one_outcome(place: SinkHarness, sink: Sink, told: Told) -> None:
    await publish_all(sink, messages(2000))
    await sink.flush()
    assert len(told.confirmed_ones) == 2000
    assert told.twice == []
    assert told.rejected_ones == []


async def test_law_5_what_is_too_large_is_rejected(limited: SinkHarness, told: Told) -> None:
    large = message(2, payload=bytes(1001))
    async with open_sink(limited.url(largest=1000), told) as sink:
        await sink.publish([message(1), large, message(3)])
        await sink.flush()
    assert sorted(numbers(told.confirmed_ones)) == [1, 3]
    assert told.rejected_ones == [(large, "it has 1001 bytes; at most 1000 may be sent")]


async def test_law_5_the_same_message_again_has_an_outcome_again(place: SinkHarness, sink: Sink, told: Told) -> None:
    await sink.publish([message(1), message(1)])
    await sink.flush()
    assert numbers(told.confirmed_ones) == [1, 1]


async def test_law_5_nothing_is_told_after_closing(shaky: SinkHarness, told: Told) -> None:
    async with open_sink(shaky.url(), told) as sink:
        shaky.fail()
        await sink.publish(messages(10))
    shaky.recover()
    assert told.confirmed_ones == []


# Law 6: an outage delays, and says why; a closed sink says so


async def test_law_6_trouble_comes_and_goes(shaky: SinkHarness, told: Told) -> None:
    async with open_sink(shaky.url(), told) as sink:
        assert sink.trouble is None
        shaky.fail()
        await sink.publish(messages(10))
        await eventually(lambda: sink.trouble, within=30)
        shaky.recover()
        await told.until_confirmed(10)
        await eventually(lambda: sink.trouble is None, within=30)


async def test_law_6_a_closed_sink_takes_nothing(place: SinkHarness, told: Told) -> None:
    async with open_sink(place.url(), told) as sink:
        pass
    with pytest.raises(Invalid, match="closed"):
        await sink.publish(messages(1))


async def test_law_6_an_unknown_option_is_refused(place: SinkHarness, told: Told) -> None:
    with pytest.raises(Invalid, match="unknown option windw"):
        async with open_sink(place.url(windw=1), told):
            pass


async def test_law_6_whoever_waits_is_told_when_the_sink_is_closed(shaky: SinkHarness, told: Told) -> None:
    async with open_sink(shaky.url(window=2), told) as sink:
        shaky.fail()
        await sink.publish(messages(2))
        waiting = asyncio.create_task(sink.publish(messages(1)))
        await asyncio.sleep(0)
    with pytest.raises(RotaError, match="closed"):
        await waiting


# Law 7: flush


async def test_law_7_flush_returns_when_all_is_settled(place: SinkHarness, sink: Sink, told: Told) -> None:
    await sink.flush()
    await publish_all(sink, messages(1000))
    await sink.flush()
    assert len(told.confirmed_ones) == 1000


async def test_law_7_others_may_go_on_publishing_after_a_flush(place: SinkHarness, sink: Sink, told: Told) -> None:
    await sink.publish(messages(10))
    flushing = asyncio.create_task(sink.flush())
    await asyncio.sleep(0)
    await sink.publish(messages(10, first=10))
    await asyncio.wait_for(flushing, 20)
    assert set(numbers(told.confirmed_ones)) >= set(range(10))
    await sink.flush()
    assert len(told.confirmed_ones) == 20
