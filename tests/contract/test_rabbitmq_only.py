"""What only RabbitMQ has: a server that dies, refuses, blocks, nacks and returns, seen through the sink."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.sinks import Sink, open_sink
from rota.sinks.amqp.publishing import channel_of
from tests.kit import rabbit
from tests.kit.draining import drain
from tests.kit.faultproxy import FaultProxy
from tests.kit.server_pool import ServerPool
from tests.kit.servers import RabbitMQ
from tests.kit.sinks import (
    RabbitHarness,
    Told,
    by_resource,
    is_in_order,
    last_copies,
    message,
    messages,
    numbers,
    without_repeats,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.needs("rabbitmq")

SECRET = "s3cr3t"


@pytest.fixture
def place(servers: ServerPool, tmp_path: Path) -> Iterator[RabbitHarness]:
    """An exchange with a queue on a RabbitMQ that nobody hurts."""
    place = RabbitHarness(tmp_path, servers.get(RabbitMQ, "steady"))
    yield place
    place.close()


@pytest.fixture
def victim(servers: ServerPool, tmp_path: Path) -> Iterator[RabbitHarness]:
    """The same on one that may be hurt."""
    place = RabbitHarness(tmp_path, servers.get(RabbitMQ, "victim"))
    yield place
    place.rabbit.recover()
    place.close()


@pytest.fixture
def told() -> Told:
    """What became of messages."""
    return Told()


async def opening(url: str) -> RotaError:
    """The error that opening a sink raises, on one line and without the password."""
    with pytest.raises(RotaError) as error:
        async with open_sink(url, Told()):
            pass
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)
    return error.value


async def keep_publishing(sink: Sink, batches: int, size: int = 50) -> None:
    for number in range(batches):
        await sink.publish(messages(size, first=number * size))


# The server dies


def kill(server: RabbitMQ) -> None:
    server.kill()


def stop(server: RabbitMQ) -> None:
    server.stop()


@pytest.mark.parametrize("end", [kill, stop])
async def test_nothing_confirmed_is_lost_when_the_server_dies_under_load(
    victim: RabbitHarness, told: Told, end: Callable[[RabbitMQ], None]
) -> None:
    window, batches = 500, 200
    is_dead = asyncio.Event()

    async def publish() -> None:
        for number in range(batches):
            if number == batches - 20:
                await is_dead.wait()  # a quick machine leaves something for afterwards, too
            await sink.publish(messages(50, first=number * 50))

    async with open_sink(victim.url(window=window, channels=3), told) as sink:
        publishing = asyncio.create_task(publish())
        await told.until_confirmed(3000)
        await asyncio.to_thread(end, victim.rabbit)
        is_dead.set()
        await eventually(lambda: sink.trouble)
        assert not publishing.done()
        await asyncio.to_thread(victim.rabbit.start)
        await asyncio.wait_for(publishing, 60)
        await asyncio.wait_for(sink.flush(), 60)
        assert sink.trouble is None
    arrived = await asyncio.to_thread(victim.arrived)
    assert sorted(numbers(without_repeats(arrived))) == list(range(batches * 50))
    assert is_in_order(without_repeats(arrived))
    assert len(arrived) - batches * 50 <= window
    assert len(told.confirmed_ones) == batches * 50
    assert told.twice == []


async def test_repeats_are_replays_of_the_unconfirmed(victim: RabbitHarness, told: Told) -> None:
    """Each resource's messages are those before the break, then all from an earlier point on again."""
    async with FaultProxy(victim.rabbit.port) as proxy:
        url = victim.url(window=500).replace(str(victim.rabbit.port), str(proxy.port))
        async with open_sink(url, told) as sink:
            publishing = asyncio.create_task(keep_publishing(sink, 100))
            await told.until_confirmed(1000)
            proxy.hold_answers()  # so that something is in the queue that we do not know of
            await eventually(lambda: rabbit.count(victim.rabbit.port, victim.queue) > len(told.confirmed_ones))
            proxy.cut()
            await proxy.heal()
            await asyncio.wait_for(publishing, 60)
            await sink.flush()
    arrived = await asyncio.to_thread(victim.arrived)
    assert 0 < len(arrived) - 5000 <= 500
    for found in by_resource(arrived).values():
        back = [place for place in range(1, len(found)) if found[place] <= found[place - 1]]
        assert len(back) <= 1
        before, after = found[: (back or [len(found)])[0]], found[(back or [len(found)])[0] :]
        assert before == list(range(found[0], before[-1] + 10, 10))
        assert after == list(range(after[0], 5000 + found[0], 10)) if after else before[-1] == 4990 + found[0]
    assert told.twice == []


async def test_a_frozen_server_is_noticed_and_left(
    victim: RabbitHarness, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    async with FaultProxy(victim.rabbit.port) as proxy:
        url = victim.url(heartbeat="1s", timeout="2s").replace(str(victim.rabbit.port), str(proxy.port))
        async with open_sink(url, told) as sink:
            proxy.strand()
            await sink.publish(messages(10))
            await told.until_confirmed(10)
    why = [getattr(line, "why", "") for line in caplog.records]  # it is over as soon as another connection stands
    assert any("silent for 2 s" in each for each in why), why


async def test_an_idle_connection_is_kept_by_heartbeats(place: RabbitHarness, told: Told) -> None:
    async with FaultProxy(place.rabbit.port) as proxy:
        # An end that hears nothing for two or three of them gives up; a busy machine is quiet for less than that.
        url = place.url(heartbeat="5s").replace(str(place.rabbit.port), str(proxy.port))
        async with open_sink(url, told) as sink:
            with suppress(TimeoutError):
                await asyncio.wait_for(eventually(lambda: sink.trouble), 16)
            assert sink.trouble is None
            await sink.publish(messages(1))
            await sink.flush()


async def test_another_host_takes_over(place: RabbitHarness, told: Told) -> None:
    async with FaultProxy(place.rabbit.port) as first:
        url = place.url().replace(f":{place.rabbit.port}", f":{first.port},127.0.0.1:{place.rabbit.port}")
        async with open_sink(url, told) as sink:
            await sink.publish(messages(10))
            await sink.flush()
            await first.refuse()
            await sink.publish(messages(10, first=10))
            await told.until_confirmed(20)


# The server does not take messages


async def test_a_full_queue_nacks_and_everything_goes_again_when_there_is_room(
    place: RabbitHarness, told: Told
) -> None:
    exchange = f"{place.space}-full"
    limits = {"x-max-length": 5, "x-overflow": "reject-publish"}
    queue = rabbit.make_queue(place.rabbit.port, exchange, **limits)
    arrived = []
    async with open_sink(place.url(exchange=exchange, channels=1), told) as sink:
        await sink.publish(messages(15, resources=1))
        await eventually(lambda: "full or failing" in (sink.trouble or ""))
        await told.until_confirmed(5)
        while len(told.confirmed_ones) < 15:
            arrived += await asyncio.to_thread(rabbit.take, place.rabbit.port, queue)
            await asyncio.sleep(0.01)
        await sink.flush()
        assert sink.trouble is None
    arrived += await asyncio.to_thread(rabbit.take, place.rabbit.port, queue)
    assert numbers(last_copies([one for one, _ in arrived])) == list(range(15))
    assert told.twice == []
    assert told.rejected_ones == []


async def test_what_is_confirmed_through_a_full_queue_that_is_drained_has_arrived(place: RabbitHarness) -> None:
    drained = await drain(place.rabbit.port, 300)
    assert set(numbers(drained.confirmed)) - set(numbers(drained.arrived)) == set()
    assert sorted(numbers(drained.confirmed)) == list(range(300))
    assert is_in_order(last_copies(drained.arrived))
    assert drained.rejected == []


async def test_a_full_queue_holds_up_no_other_shard(place: RabbitHarness, told: Told) -> None:
    port, exchange = place.rabbit.port, f"{place.space}-full"
    by_channel = {channel_of("room", f"r{number}", 2): f"r{number}" for number in range(20)}
    stuck, free = by_channel[1], by_channel[2]
    rabbit.make_queue(port, exchange, key=f"room.{stuck}", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    with rabbit.channel(port) as ours:
        ours.queue_bind(place.queue, exchange, f"room.{free}")
    async with open_sink(place.url(exchange=exchange, channels=2), told) as sink:
        await sink.publish([message(1, stuck), message(2, stuck)])
        await eventually(lambda: sink.trouble)
        for number in range(3, 20):
            await sink.publish([message(number, free)])
        await told.until_confirmed(18)
    assert numbers(place.arrived()) == list(range(3, 20))


async def test_what_no_queue_wants_is_rejected(place: RabbitHarness, told: Told) -> None:
    exchange = f"{place.space}-picky"
    queue = rabbit.make_queue(place.rabbit.port, exchange, key="room.wanted")
    async with open_sink(place.url(exchange=exchange), told) as sink:
        await sink.publish([message(number, "wanted" if number % 2 else "unwanted") for number in range(100)])
        await sink.flush()
    assert set(numbers(told.confirmed_ones)) == set(range(1, 100, 2))
    assert numbers(one for one, _ in told.rejected_ones) == list(range(0, 100, 2))
    assert {why for _, why in told.rejected_ones} == {"NO_ROUTE for routing key room.unwanted"}
    assert told.twice == []
    assert rabbit.count(place.rabbit.port, queue) == 50


async def test_what_no_queue_wants_may_be_ignored(place: RabbitHarness, told: Told) -> None:
    exchange = f"{place.space}-nobody"
    async with open_sink(place.url(exchange=exchange, unroutable="ignore"), told) as sink:
        await sink.publish(messages(10))
        await sink.flush()
    assert len(told.confirmed_ones) == 10


async def test_a_blocked_connection_makes_publish_wait(victim: RabbitHarness, told: Told) -> None:
    async with open_sink(victim.url(window=20), told) as sink:
        await sink.publish(messages(10))
        await sink.flush()
        await asyncio.to_thread(victim.rabbit.ctl, "set_vm_memory_high_watermark", "absolute", "1")
        try:
            await sink.publish(messages(20, first=10))  # the first publish is what a server answers with Blocked
            await eventually(lambda: "takes no messages (low on memory)" in (sink.trouble or ""))
            waiting = asyncio.create_task(keep_publishing(sink, 10, size=20))
            confirmed = len(told.confirmed_ones)
            await asyncio.wait([waiting], timeout=0.5)
            assert not waiting.done()
            assert len(told.confirmed_ones) == confirmed
        finally:
            await asyncio.to_thread(victim.rabbit.ctl, "set_vm_memory_high_watermark", "0.4")
        await asyncio.wait_for(waiting, 30)
        await asyncio.wait_for(sink.flush(), 30)
        assert sink.trouble is None


async def test_what_the_server_finds_too_large_is_rejected_and_the_rest_goes_on(
    place: RabbitHarness, told: Told
) -> None:
    large = message(2, payload=bytes(RabbitMQ.MOST_BYTES + 1))
    async with open_sink(place.url(channels=1), told) as sink:
        await sink.publish([message(1), large, message(3)])
        await asyncio.wait_for(sink.flush(), 20)
        assert sink.trouble is None
    assert numbers(told.confirmed_ones) == [1, 3]
    ((rejected, why),) = told.rejected_ones
    assert rejected == large
    assert why == "it has 1048577 bytes; RabbitMQ's max_message_size is 1048576"


async def test_what_cannot_be_said_in_amqp_is_rejected(place: RabbitHarness, told: Told) -> None:
    async with open_sink(place.url(), told) as sink:
        long = message(1, "r" * 300)
        short_id = message(2, id=b"2")
        chatty = message(3, headers={"h": "x" * 40_000})
        await sink.publish([long, short_id, chatty, message(4)])
        await sink.flush()
    reasons = {one.id: why for one, why in told.rejected_ones}
    assert "has 305 bytes; at most 255 fit" in reasons[long.id]
    assert "its id has 1 bytes" in reasons[short_id.id]
    assert "key and headers have more than 32768 bytes" in reasons[chatty.id]
    assert numbers(told.confirmed_ones) == [4]


async def test_a_deleted_exchange_is_made_again(place: RabbitHarness, told: Told) -> None:
    async with open_sink(place.url(unroutable="ignore"), told) as sink:
        with rabbit.channel(place.rabbit.port) as ours:
            ours.exchange_delete(place.space)
        await sink.publish(messages(10))
        await asyncio.wait_for(sink.flush(), 20)
    assert sorted(numbers(told.confirmed_ones)) == list(range(10))


# Routing


async def test_messages_are_routed_by_kind_and_id_unless_they_say_otherwise(place: RabbitHarness, told: Told) -> None:
    async with open_sink(place.url(), told) as sink:
        await sink.publish([message(1, "r1"), message(2, "r1", to="over.there")])
        await sink.flush()
    keys = {key: numbers([one]) for one, key in rabbit.take(place.rabbit.port, place.queue)}
    assert keys == {"room.r1": [1], "over.there": [2]}


async def test_the_routing_key_has_a_template(place: RabbitHarness, told: Told) -> None:
    async with open_sink(place.url(routing_key="live.{node}.{kind}"), told) as sink:
        await sink.publish([message(1)])
        await sink.flush()
    assert [key for _, key in rabbit.take(place.rabbit.port, place.queue)] == ["live.a.room"]


async def test_the_default_exchange_leads_to_a_queue(place: RabbitHarness, told: Told) -> None:
    async with open_sink(place.url(exchange="", routing_key=place.queue), told) as sink:
        await sink.publish([message(1)])
        await sink.flush()
    assert numbers(place.arrived()) == [1]


# The server refuses


@pytest.fixture
def ann(place: RabbitHarness) -> Iterator[str]:
    """A user with a password and every right."""
    name = f"ann-{place.space[:6]}"
    place.rabbit.ctl("add_user", name, SECRET)
    place.rabbit.ctl("set_permissions", name, ".*", ".*", ".*")
    yield name
    place.rabbit.ctl("delete_user", name)


async def test_a_wrong_password_is_denied(place: RabbitHarness, ann: str) -> None:
    error = await opening(place.url().replace("://", f"://{ann}:{SECRET}x@"))
    assert isinstance(error, Denied)
    assert "check the user, its password and its permissions" in str(error)


async def test_a_password_that_changes_under_way_is_told_and_may_be_mended(
    place: RabbitHarness, ann: str, tmp_path: Path, told: Told
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{SECRET}\n")
    async with FaultProxy(place.rabbit.port) as proxy:
        url = place.url(password_file=secret).replace(f"127.0.0.1:{place.rabbit.port}", f"{ann}@127.0.0.1:{proxy.port}")
        async with open_sink(url, told) as sink:
            await sink.publish(messages(10))
            await sink.flush()
            await asyncio.to_thread(place.rabbit.ctl, "change_password", ann, f"{SECRET}2")
            proxy.cut()
            await eventually(lambda: "ACCESS_REFUSED" in (sink.trouble or ""))
            with pytest.raises(Denied, match="ACCESS_REFUSED"):
                await sink.publish(messages(10, first=10))
            with pytest.raises(Denied, match="ACCESS_REFUSED"):
                await sink.flush()
            secret.write_text(f"{SECRET}2\n")
            await eventually(lambda: sink.trouble is None)
            await sink.publish(messages(10, first=20))
            await sink.flush()
    assert sorted(numbers(told.confirmed_ones)) == [*range(10), *range(20, 30)]


async def test_a_missing_right_to_write_is_told(place: RabbitHarness, ann: str, told: Told) -> None:
    await asyncio.to_thread(place.rabbit.ctl, "set_permissions", ann, ".*", "^$", ".*")
    async with open_sink(place.url().replace("://", f"://{ann}:{SECRET}@"), told) as sink:
        await sink.publish(messages(10))
        with pytest.raises(Denied, match="ACCESS_REFUSED"):
            await sink.flush()
        await asyncio.to_thread(place.rabbit.ctl, "set_permissions", ann, ".*", ".*", ".*")
        await told.until_confirmed(10)
    assert told.rejected_ones == []


async def test_a_missing_vhost_is_invalid(place: RabbitHarness) -> None:
    error = await opening(place.url().replace("?", "/nowhere?"))
    assert isinstance(error, Invalid)
    assert "vhost nowhere not found" in str(error)


async def test_a_vhost_without_rights_is_denied(place: RabbitHarness, ann: str) -> None:
    await asyncio.to_thread(place.rabbit.ctl, "clear_permissions", ann)
    assert isinstance(await opening(place.url().replace("://", f"://{ann}:{SECRET}@")), Denied)


async def test_an_exchange_of_another_type_is_invalid(place: RabbitHarness) -> None:
    error = await opening(place.url(exchange_type="fanout"))
    assert isinstance(error, Invalid)
    assert "inequivalent arg 'type'" in str(error)


async def test_an_exchange_that_must_be_there_is_missed(place: RabbitHarness) -> None:
    error = await opening(place.url(exchange=f"{place.space}-not", declare="off"))
    assert isinstance(error, Invalid)
    assert "no exchange" in str(error)


async def test_nobody_there_is_unavailable(place: RabbitHarness) -> None:
    async with FaultProxy(place.rabbit.port) as proxy:
        await proxy.refuse()
        error = await opening(place.url().replace(str(place.rabbit.port), str(proxy.port)))
    assert isinstance(error, Unavailable)
    assert "Connect call failed" in str(error) or "refused" in str(error)


async def test_a_silent_server_is_unavailable_in_time(place: RabbitHarness) -> None:
    async with FaultProxy(place.rabbit.port) as proxy:
        proxy.freeze()
        error = await opening(place.url(timeout="300ms").replace(str(place.rabbit.port), str(proxy.port)))
    assert isinstance(error, Unavailable)
    assert "no answer within" in str(error)


# Certificates


async def test_amqps_checks_the_servers_certificate(place: RabbitHarness, told: Told) -> None:
    server = place.rabbit
    url = place.url(ca=server.tls.authority).replace(
        f"amqp://127.0.0.1:{server.port}", f"amqps://127.0.0.1:{server.tls_port}"
    )
    async with open_sink(url, told) as sink:
        await sink.publish(messages(1000))
        await sink.flush()
    assert len(place.arrived()) == 1000


async def test_amqps_trusts_no_stranger(place: RabbitHarness) -> None:
    url = place.url().replace(f"amqp://127.0.0.1:{place.rabbit.port}", f"amqps://127.0.0.1:{place.rabbit.tls_port}")
    error = await opening(url)
    assert isinstance(error, Invalid)
    assert "TLS with 127.0.0.1" in str(error)
