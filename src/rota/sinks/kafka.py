"""The sink on Kafka: `kafka://[user@]host[:9092][,host…]/topic[?option=value&…]`.

    /topic                       may have {kind}, {id} and {node} in it; a message may name another topic itself
    window=4096                  how many messages may be under way
    largest=1000000              how many bytes a message may have; the topic must take as many (max.message.bytes)
    timeout=5s                   how long the first contact may take, and how long a topic may take to appear
    linger=5ms                   how long the client waits for more messages to send together
    password_file=FILE           the user's password; or password_env=NAME (`sinks.url`)
    sasl=scram-sha-512           how the user logs in: scram-sha-512, scram-sha-256 or plain
    tls=on|off, ca=FILE, cert=FILE&key=FILE     on by itself when one of these files is named

An idempotent producer of librdkafka sends, and repeats by itself what got lost. Its key is the resource, so one
partition has all messages of a resource, in order. Only when the producer itself gives up is another one made, and
everything from the first unconfirmed message on sent again. Deliveries are reported in a thread and passed to the event
loop many at a time.

A broker refuses records by the batch. When it objects to one (`sinks.kafka_errors`), a careful producer sends all that
is unconfirmed again, each message in a batch of its own: those that are refused alone are rejected, the others pass.
Then the usual producer goes on. So a message that can never be delivered costs a detour, and holds nothing up.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from rota.kit.drivers import librdkafka
from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.sinks import kafka_errors
from rota.sinks.intake import Intake
from rota.sinks.patience import RetryBackoff
from rota.sinks.port import Message, Outcomes
from rota.sinks.template import Template, compile_template
from rota.sinks.url import Options, Password, SinkUrl
from rota.sinks.window import ShardWindow

LARGEST = 1_000_000
OVERHEAD = 64 * 1024
"""What a record may have beside its payload: key, headers, framing."""

MOST_WAIT = 3_600_000
"""Milliseconds that librdkafka waits for a topic at most."""

POLL = 0.1
"""Seconds after which the thread looks whether it should end."""

LOOKS = 4
"""How often, in the time of one time-out, we look whether anything gets through."""

BATCH = 256 * 1024
"""About how many bytes are handed to the client in one go."""


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """How to reach a Kafka, and how to publish there."""

    shown: str
    hosts: str
    topic: Template
    window: int
    largest: int
    timeout: timedelta
    linger: timedelta
    user: str | None
    password: Password = field(repr=False)
    sasl: str
    tls: dict[str, str] | None

    def client(self) -> dict[str, Any]:
        """The configuration of librdkafka; the password is read now."""
        password = self.password() if self.user else ""
        return {
            **librdkafka.way_in(self.hosts, self.tls, user=self.user, password=password, mechanism=self.sasl),
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never: the client must not decide to give up
            "linger.ms": self.linger / timedelta(milliseconds=1),
            "message.max.bytes": self.largest + OVERHEAD,
            "batch.size": min(LARGEST, self.largest),  # what the topic must take for one message it takes for many
            "topic.metadata.propagation.max.ms": min(MOST_WAIT, int(self.timeout / timedelta(milliseconds=1))),
            "queue.buffering.max.messages": max(1000, 2 * self.window),
            "partitioner": "murmur2_random",  # as Java's clients share keys out
            "log_level": 2,
        }


def read(url: SinkUrl) -> KafkaSettings:
    """What the URL says; Invalid names what is wrong with it."""
    options = Options(url)
    topic = url.path.strip("/")
    if not url.hosts or not topic:
        raise options.wrong("no host or no topic; write kafka://host/topic")
    try:
        template = compile_template(topic)
    except ValueError as error:
        raise options.wrong(f"topic {topic}: {error}") from None
    settings = KafkaSettings(
        shown=str(url),
        hosts=",".join(f"{host}:{port}" for host, port in url.addresses(librdkafka.PORT)),
        topic=template,
        window=options.window(),
        largest=options.number("largest", LARGEST, least=1),
        timeout=options.duration("timeout", timedelta(seconds=5)),
        linger=options.duration("linger", timedelta(milliseconds=5)),
        user=url.user,
        password=options.password(),
        sasl=options.choice("sasl", librdkafka.MECHANISMS),
        tls=options.tls_files(),
    )
    options.done()
    return settings


async def open(url: SinkUrl, outcomes: Outcomes) -> "KafkaSink":
    """A sink whose brokers have been reached."""
    sink = KafkaSink(read(url), outcomes)
    try:
        await sink.start()
    except BaseException:
        await sink.close()
        raise
    return sink


class DeliveryReport(NamedTuple):
    """The result for a message that was given to the client."""

    number: int
    message: Message
    error: KafkaError | None


CAREFUL = {"batch.num.messages": 1, "linger.ms": 0}
"""Settings of a producer by which each message is in a batch of its own."""


class KafkaProducer:
    """One producer, and the thread that receives its delivery reports."""

    def __init__(self, settings: KafkaSettings, sink: "KafkaSink", *, is_careful: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._reports: deque[DeliveryReport] = deque()
        self._is_told = self._is_over = False
        try:
            more = CAREFUL if is_careful else {}
            self._producer = Producer({**settings.client(), **more, "error_cb": self._in_trouble})
        except KafkaException as error:
            raise Invalid(f"sink {settings.shown}: {error.args[0].str()}") from None
        self._thread = threading.Thread(target=self._poll, name=f"sink {settings.shown}", daemon=True)
        self._thread.start()

    def reach(self, timeout: timedelta) -> None:
        """Ask for the brokers once; blocks."""
        self._producer.list_topics(timeout=timeout.total_seconds())

    def produce(self, number: int, topic: str, message: Message) -> None:
        """Hand over one message; BufferError if there is no room for it yet."""
        self._producer.produce(
            topic,
            value=message.payload,
            key=f"{message.kind}/{message.resource}",
            timestamp=int(message.time.timestamp() * 1000),
            headers=_headers(message),
            on_delivery=partial(self._delivered, number, message),
        )

    def end(self) -> None:
        """Forget what is not delivered, and end the thread; blocks for a moment."""
        self._is_over = True
        self._producer.purge()
        self._thread.join()

    def _poll(self) -> None:
        while not self._is_over:
            self._producer.poll(POLL)

    # In the thread

    def _delivered(self, number: int, message: Message, error: KafkaError | None, _: object) -> None:
        self._reports.append(DeliveryReport(number, message, error))
        if not self._is_told:
            self._is_told = True
            self._call(self._take_reports)

    def _in_trouble(self, error: KafkaError) -> None:
        self._call(partial(self._sink.troubled, error))

    def _call(self, what: Any) -> None:
        if not self._is_over:
            self._loop.call_soon_threadsafe(what)

    # In the loop

    def _take_reports(self) -> None:
        self._is_told = False  # first: what arrives while we read is signalled again
        reports = []
        while self._reports:
            reports.append(self._reports.popleft())
        if not self._is_over:
            self._sink.delivered(reports)


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    texts = {
        "rota-id": message.id.hex(),
        "rota-kind": message.kind,
        "rota-resource": message.resource,
        "rota-node": message.node,
        **({"rota-key": message.key} if message.key else {}),
        **message.headers,
    }
    return [(name, text.encode()) for name, text in texts.items()]


class _GaveUp(Exception):
    """A producer takes nothing any more, or nothing for this topic, whatever it is."""


class KafkaSink:
    """Kafka; one window, for partitions keep the order themselves."""

    def __init__(self, settings: KafkaSettings, outcomes: Outcomes) -> None:
        self._settings = settings
        self._intake = Intake(settings.shown, settings.window, outcomes)
        self._window = ShardWindow()
        self._next = 1
        """The number of the next message that is handed to the client."""
        self._sending: deque[Message] = deque()
        """What has been taken out of the window and has no room in the client yet."""
        self._careful = 0
        """Up to this number each message is in a batch of its own; 0: batches are as usual."""
        self._reached: set[str] = set()
        """Topics that messages have named and that have taken one from this producer."""
        self._patience = RetryBackoff()
        self._rebuilding: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._client: KafkaProducer | None = None
        self._last: RotaError | None = None
        """What the client last complained of."""
        self._quiet = 0
        """How often in a row nothing had been delivered when we looked."""
        self._watch: asyncio.TimerHandle | None = None

    @property
    def trouble(self) -> str | None:
        return self._intake.trouble

    async def start(self) -> None:
        """Reach a broker."""
        self._client = KafkaProducer(self._settings, self)
        try:
            await asyncio.to_thread(self._client.reach, self._settings.timeout)
        except KafkaException as error:
            if isinstance(self._last, Denied):  # the client has seen why, and says only that it took too long
                raise self._last from None
            raise self._translated(error.args[0]) from None
        self._look()

    async def publish(self, messages: Sequence[Message]) -> None:
        await self._intake.admit(len(messages))
        for message in messages:
            if len(message.payload) > self._settings.largest:
                why = f"it has {len(message.payload)} bytes; at most {self._settings.largest} may be sent"
                self._intake.rejected(message, why)
            else:
                self._window.add(message)
        self._recount()
        self._send()

    async def flush(self) -> None:
        await self._intake.emptied()

    async def close(self) -> None:
        self._intake.close()
        if self._watch is not None:
            self._watch.cancel()
        if running := [task for task in (self._rebuilding, self._probing) if task is not None]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        if self._client is not None:
            await asyncio.to_thread(self._client.end)

    # Reports of the client

    def delivered(self, deliveries: list[DeliveryReport]) -> None:
        """Handle the results of messages."""
        confirmed: list[Message] = []
        failures: list[KafkaError] = []
        for number, message, error in deliveries:
            if error is None:
                confirmed += self._window.confirm(number, is_multiple=False)
                if message.to:
                    self._reached.add(message.to)
            elif why := kafka_errors.objection(error, message, is_alone=number <= self._careful, reached=self._reached):
                self._reject(number, why)
            else:
                failures.append(error)
        if confirmed:
            self._patience.has_worked()
            self._intake.confirmed(confirmed)
        if failures:
            self._fail(failures)
        elif deliveries:
            self._has_worked()
        self._recount()
        self._send()

    def _has_worked(self) -> None:
        """The brokers answer: the trouble is over."""
        self._quiet, self._last = 0, None
        if self._intake.trouble:
            self._intake.troubled(None)

    def _fail(self, failures: list[KafkaError]) -> None:
        if any(map(kafka_errors.is_suspicion, failures)):
            self._renew(is_careful=True)  # one message is at fault, and not the sink in trouble
        else:
            self._break(self._translated(failures[0]))

    def _reject(self, number: int, why: str) -> None:
        """A message can never be delivered; a copy of one that was reported before just leaves."""
        if (message := self._window.reject(number)) is not None:
            self._intake.rejected(message, why)
        self._window.confirm(number, is_multiple=False)

    def troubled(self, error: KafkaError) -> None:
        """The client reports trouble; it keeps retrying, unless the error is fatal."""
        self._last = self._translated(error)
        if error.fatal():
            self._break(self._last)
        elif error.code() in librdkafka.REFUSED or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._intake.troubled(self._last)

    def _look(self) -> None:
        """Detect an outage by the lack of deliveries: the client reports it once, and not always."""
        self._quiet = self._quiet + 1 if len(self._window) else 0
        if self._quiet > LOOKS and not self._intake.trouble:
            why = f"sink {self._settings.shown}: nothing was confirmed for {self._settings.timeout}"
            self._intake.troubled(self._last or Unavailable(why))
        if self._intake.trouble and not len(self._window) and self._probing is None and self._rebuilding is None:
            self._probing = asyncio.create_task(self._probe(), name=f"probe sink {self._settings.shown}")
        loop, period = asyncio.get_running_loop(), self._settings.timeout.total_seconds() / LOOKS
        self._watch = loop.call_later(period, self._look)

    async def _probe(self) -> None:
        """See whether a broker answers: with nothing under way, no delivery can show that the trouble is over."""
        assert self._client is not None
        try:
            await asyncio.to_thread(self._client.reach, self._settings.timeout)
        except KafkaException:
            return
        finally:
            self._probing = None
        self._has_worked()

    def _send(self) -> None:
        if self._client is None or self._rebuilding is not None:
            return
        self._hand_over()
        if self._careful and self._window.oldest > self._careful:
            self._renew(is_careful=False)

    def _hand_over(self) -> None:
        """Give the client what it has room for; a careful one only what is suspected."""
        while (self._sending or self._window.has_unsent) and not 0 < self._careful < self._next:
            if not self._sending:
                self._sending.extend(self._window.send(BATCH))
            try:
                self._produce(self._sending[0])
            except BufferError:
                return  # the next delivery makes room
            except _GaveUp as error:
                self._break(self._translated(error.args[0]))
                return  # it goes with the next producer
            self._sending.popleft()
            self._next += 1

    def _produce(self, message: Message) -> None:
        assert self._client is not None
        try:
            topic = message.to or self._settings.topic(message)
            self._client.produce(self._next, topic, message)
        except ValueError as error:
            self._reject(self._next, str(error))
        except KafkaException as error:
            if (why := kafka_errors.refusal(error.args[0], message, reached=self._reached)) is None:
                raise _GaveUp(error.args[0]) from None  # we have not heard of it yet; the message is as good as any
            self._reject(self._next, why)
        self._recount()

    def _break(self, error: RotaError) -> None:
        self._intake.troubled(error)
        self._renew(is_careful=False)

    def _renew(self, *, is_careful: bool) -> None:
        if self._rebuilding is None:
            rebuilding = self._rebuild(is_careful=is_careful)
            self._rebuilding = asyncio.create_task(rebuilding, name=f"rebuild sink {self._settings.shown}")

    async def _rebuild(self, *, is_careful: bool) -> None:
        """Make another producer, and send everything again."""
        assert self._client is not None
        await asyncio.to_thread(self._client.end)
        self._window.restart()
        self._sending.clear()
        self._reached.clear()
        self._next = 1
        while True:
            await asyncio.sleep(self._patience.next())
            try:
                self._client = KafkaProducer(self._settings, self, is_careful=is_careful)
                break
            except RotaError as error:
                self._intake.troubled(error)
        self._careful = len(self._window) if is_careful else 0
        self._rebuilding = None
        self._send()

    def _translated(self, error: KafkaError) -> RotaError:
        return kafka_errors.translate(self._settings.shown, error)

    def _recount(self) -> None:
        self._intake.remain(len(self._window))
