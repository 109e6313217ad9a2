"""Messages per second confirmed by RabbitMQ, beside aio-pika and pika, and what each costs this process.

Persistent messages of 200 bytes, each with another body, id and routing key, go through a topic exchange into a durable
queue; a message counts when the broker has confirmed it. Aio-pika publishes a hundred at a time with `gather`, as its
users do; pika is the callback-driven SelectConnection, with as many messages under way as Rota has. The broker shares
the machine with us, so the rate is mostly its own; the CPU is all ours.
"""

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter, process_time

import aio_pika
import pika

from benchmarks import measure
from benchmarks.measure import Goal, Row, Samples, Side, Turn
from rota.model.ids import NodeId
from rota.sinks import Message, open_sink
from tests.kit import rabbit
from tests.kit.servers import RabbitMQ

GATHERED = 100
WINDOW = 1000
COUNT = 3000
"""Messages in a turn."""
TURNS = 3
RESOURCES = 100
PAYLOAD = bytes(184)
"""A body beside its number."""

AIO_PIKA, PIKA, OURS = f"aio-pika, gather of {GATHERED}", f"pika, {WINDOW:,} under way", "ours"
GOALS = {AIO_PIKA: Goal(at=2.0, short=1.2), PIKA: Goal(at=0.8, short=0.6)}

Publish = Callable[[], Awaitable[object]]
"""Publishes a turn's messages, and returns when all are confirmed."""
Client = Callable[[int, str], AbstractAsyncContextManager[Publish]]

_numbers = count()


def rows(rounds: int) -> list[Row]:
    """Rates and CPU, beside both clients."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder, RabbitMQ(Path(folder)) as server:
        return asyncio.run(_rows(server, rounds))


async def _rows(server: RabbitMQ, rounds: int) -> list[Row]:
    cpu: dict[str, list[float]] = {AIO_PIKA: [], PIKA: [], OURS: []}
    sides: Mapping[str, Side] = {
        AIO_PIKA: partial(side, server, "aio-pika", through_aio_pika, cpu[AIO_PIKA]),
        PIKA: partial(side, server, "pika", through_pika, cpu[PIKA]),
        OURS: partial(side, server, "rota", through_rota, cpu[OURS]),
    }
    played = await measure.play(sides, rounds, TURNS)
    rates = {name: [measure.rate(samples[name]) for samples in played] for name in sides}
    micro = {name: by_round(seconds, rounds) for name, seconds in cpu.items()}
    others = (AIO_PIKA, PIKA)
    return [
        *(measure.compare("rabbitmq: confirmed", "/s", to, rates[to], rates[OURS], GOALS[to]) for to in others),
        *(measure.compare("rabbitmq: CPU a message", "µs", to, micro[to], micro[OURS]) for to in others),
    ]


def by_round(seconds: list[float], rounds: int) -> list[float]:
    """Microseconds of CPU per message in each round, its first turn left out as it is for the rates."""
    turns = len(seconds) // rounds
    each = [seconds[number * turns + 1 : (number + 1) * turns] for number in range(rounds)]
    return [sum(some) / len(some) / COUNT * 1e6 for some in each]


@asynccontextmanager
async def side(server: RabbitMQ, name: str, client: Client, cpu: list[float]) -> AsyncIterator[Turn]:
    """A client on an exchange and a queue of its own; each turn begins with an empty queue."""
    queue = rabbit.make_queue(server.port, name)
    async with client(server.port, name) as publish:

        async def turn() -> Samples:
            await asyncio.to_thread(_purge, server.port, queue)
            before, busy = perf_counter(), process_time()
            await publish()
            took = perf_counter() - before
            cpu.append(process_time() - busy)
            return [took / COUNT] * COUNT

        yield turn


def _purge(port: int, queue: str) -> None:
    with rabbit.channel(port) as ours:
        ours.queue_purge(queue)


def _body(number: int) -> bytes:
    return b"%016d" % number + PAYLOAD


def _key(number: int) -> str:
    return f"room.{number % RESOURCES}"


@asynccontextmanager
async def through_rota(port: int, exchange: str) -> AsyncIterator[Publish]:
    """Rota's sink, handed batches as a relay would."""
    outcomes = Quiet()
    async with open_sink(f"amqp://127.0.0.1:{port}?exchange={exchange}&window={WINDOW}", outcomes) as sink:

        async def publish() -> None:
            for _ in range(COUNT // GATHERED):
                await sink.publish([_message(next(_numbers)) for _ in range(GATHERED)])
            await sink.flush()

        yield publish


def _message(number: int) -> Message:
    return Message(
        id=number.to_bytes(16),
        kind="room",
        resource=str(number % RESOURCES),
        payload=_body(number),
        node=NodeId("a"),
        time=datetime.now(UTC),
    )


class Quiet:
    """Outcomes that nobody reads."""

    def confirmed(self, messages: object) -> None:
        pass

    def rejected(self, message: Message, why: str) -> None:
        raise AssertionError(f"{message} was rejected: {why}")


@asynccontextmanager
async def through_aio_pika(port: int, name: str) -> AsyncIterator[Publish]:
    """Aio-pika, a task and a future for each message."""
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange(name)

        async def publish() -> None:
            for _ in range(COUNT // GATHERED):
                await asyncio.gather(*(one(next(_numbers)) for _ in range(GATHERED)))

        async def one(number: int) -> None:
            message = aio_pika.Message(
                _body(number),
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=f"{number:032x}",
                timestamp=datetime.now(UTC),
                headers={"rota-resource": str(number % RESOURCES)},
            )
            await exchange.publish(message, _key(number))

        yield publish


@asynccontextmanager
async def through_pika(port: int, exchange: str) -> AsyncIterator[Publish]:
    """Pika's SelectConnection in a thread of its own."""
    pipelined = Pipelined(port, exchange)
    await asyncio.to_thread(pipelined.start)
    try:
        yield lambda: asyncio.to_thread(pipelined.publish)
    finally:
        await asyncio.to_thread(pipelined.stop)


class Pipelined:
    """A SelectConnection that keeps WINDOW messages under way."""

    def __init__(self, port: int, exchange: str) -> None:
        self._exchange = exchange
        self._is_ready, self._is_done = threading.Event(), threading.Event()
        self._left = self._under_way = self._tag = self._acked = 0
        parameters = pika.ConnectionParameters("127.0.0.1", port)
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._opened)
        self._thread = threading.Thread(target=self._connection.ioloop.start)

    def start(self) -> None:
        """Connect."""
        self._thread.start()
        if not self._is_ready.wait(10):
            raise TimeoutError("pika did not connect")

    def publish(self) -> None:
        """Publish a turn's messages, and return when all are confirmed."""
        self._left = COUNT
        self._is_done.clear()
        self._connection.ioloop.add_callback_threadsafe(self._fill)
        self._is_done.wait()

    def stop(self) -> None:
        """Disconnect."""
        self._connection.ioloop.add_callback_threadsafe(self._connection.close)
        self._connection.add_on_close_callback(lambda *_: self._connection.ioloop.stop())
        self._thread.join(10)

    def _opened(self, connection: pika.SelectConnection) -> None:
        connection.channel(on_open_callback=self._confirm)

    def _confirm(self, channel: "pika.channel.Channel") -> None:
        self._channel = channel
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._is_ready.set())

    def _confirmed(self, frame: "pika.frame.Method") -> None:
        tag = frame.method.delivery_tag
        self._under_way -= tag - self._acked if frame.method.multiple else 1
        self._acked = max(self._acked, tag)
        if self._left:
            self._fill()
        elif not self._under_way:
            self._is_done.set()

    def _fill(self) -> None:
        while self._left and self._under_way < WINDOW:
            number = next(_numbers)
            properties = pika.BasicProperties(
                delivery_mode=2,
                message_id=f"{number:032x}",
                timestamp=int(datetime.now(UTC).timestamp()),
                headers={"rota-resource": str(number % RESOURCES)},
            )
            self._channel.basic_publish(self._exchange, _key(number), _body(number), properties, mandatory=True)
            self._left -= 1
            self._under_way += 1
