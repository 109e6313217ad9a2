"""The sink on Kafka: `kafka://[user@]host[:9092][,host…]/topic[?option=value&…]`.

    /topic                       may have {kind}, {id} and {node} in it; a message may name another topic itself
    window=4096                  how many messages may be under way
    largest=1000000              how many bytes a message may have; the topic must take as many (max.message.bytes)
    timeout=5s                   how long the first contact may take
    linger=5ms                   how long the client waits for more messages to send together
    password_file=FILE           the user's password; or password_env=NAME (`sinks.url`)
    sasl=scram-sha-512           how the user logs in: scram-sha-512, scram-sha-256 or plain
    tls=on|off, ca=FILE, cert=FILE&key=FILE     on by itself when one of these files is named

An idempotent producer of librdkafka sends, and repeats by itself what got lost. Its key is the resource, so one
partition has all messages of a resource, in order. Only when the producer itself gives up is another one made, and
everything from the first unconfirmed message on sent again. Deliveries are told in a thread and taken over by the event
loop many at a time.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from rota.kit import librdkafka
from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.sinks.intake import Intake
from rota.sinks.patience import Patience
from rota.sinks.port import Message, Outcomes
from rota.sinks.template import Template, compile_template
from rota.sinks.url import Options, Password, SinkUrl
from rota.sinks.window import Window

LARGEST = 1_000_000
OVERHEAD = 64 * 1024
"""What a record may have beside its payload: key, headers, framing."""

POLL = 0.1
"""Seconds after which the thread looks whether it should end."""

LOOKS = 4
"""How often, in the time of one time-out, we look whether anything gets through."""

OF_THE_MESSAGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.TOPIC_EXCEPTION, KafkaError._INVALID_ARG}
"""Why the client takes one message not, and would take another: its size, its topic's name, its headers."""

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
        """What librdkafka is told; the password is read now."""
        password = self.password() if self.user else ""
        return {
            **librdkafka.way_in(self.hosts, self.tls, user=self.user, password=password, mechanism=self.sasl),
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never: whether to give up is not the client's to decide
            "linger.ms": self.linger / timedelta(milliseconds=1),
            "message.max.bytes": self.largest + OVERHEAD,
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


class Client:
    """One life of a producer, and the thread that hears of its deliveries."""

    def __init__(self, settings: KafkaSettings, sink: "KafkaSink") -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._reports: deque[tuple[int, KafkaError | None]] = deque()
        self._is_told = self._is_over = False
        try:
            self._producer = Producer({**settings.client(), "error_cb": self._in_trouble})
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
            on_delivery=partial(self._delivered, number),
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

    def _delivered(self, number: int, error: KafkaError | None, _: object) -> None:
        self._reports.append((number, error))
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
        self._is_told = False  # first: what comes while we read is told again
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
        self._window = Window()
        self._next = 1
        """The number of the next message that is handed to the client."""
        self._sending: deque[Message] = deque()
        """What has been taken out of the window and has no room in the client yet."""
        self._patience = Patience()
        self._mending: asyncio.Task[None] | None = None
        self._client: Client | None = None
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
        self._client = Client(self._settings, self)
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
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.wait([self._mending])
        if self._client is not None:
            await asyncio.to_thread(self._client.end)

    # What the client tells

    def delivered(self, reports: list[tuple[int, KafkaError | None]]) -> None:
        """What became of messages, by their numbers."""
        confirmed: list[Message] = []
        failed = None
        for number, error in reports:
            if error is None:
                confirmed += self._window.confirm(number, is_multiple=False)
            else:
                failed = failed or error
        if confirmed:
            self._quiet, self._last = 0, None
            self._patience.has_worked()
            self._intake.confirmed(confirmed)
        if failed is not None:
            self._break(self._translated(failed))
        elif confirmed and self._intake.trouble:
            self._intake.troubled(None)
        self._recount()
        self._send()

    def troubled(self, error: KafkaError) -> None:
        """The client says why it does not get on; it goes on trying, unless that is fatal."""
        self._last = self._translated(error)
        if error.fatal():
            self._break(self._last)
        elif error.code() in librdkafka.REFUSED or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._intake.troubled(self._last)

    def _look(self) -> None:
        """The client tells of an outage once, and not always: that nothing gets through is what shows it."""
        self._quiet = self._quiet + 1 if len(self._window) else 0
        if self._quiet > LOOKS and not self._intake.trouble:
            why = f"sink {self._settings.shown}: nothing was confirmed for {self._settings.timeout}"
            self._intake.troubled(self._last or Unavailable(why))
        loop, period = asyncio.get_running_loop(), self._settings.timeout.total_seconds() / LOOKS
        self._watch = loop.call_later(period, self._look)

    def _send(self) -> None:
        if self._client is None or self._mending is not None:
            return
        while self._sending or self._window.has_unsent:
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
        except (KafkaException, ValueError) as error:
            if isinstance(error, KafkaException) and error.args[0].code() not in OF_THE_MESSAGE:
                raise _GaveUp(error.args[0]) from None  # we have not heard of it yet; the message is as good as any
            why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            self._window.reject(self._next)
            self._intake.rejected(message, why)
            self._window.confirm(self._next, is_multiple=False)
            self._recount()

    def _break(self, error: RotaError) -> None:
        self._intake.troubled(error)
        if self._mending is None:
            self._mending = asyncio.create_task(self._mend(), name=f"mend sink {self._settings.shown}")

    async def _mend(self) -> None:
        """Make another producer, and send everything again."""
        assert self._client is not None
        await asyncio.to_thread(self._client.end)
        self._window.restart()
        self._sending.clear()
        self._next = 1
        while True:
            await asyncio.sleep(self._patience.next())
            try:
                self._client = Client(self._settings, self)
                break
            except RotaError as error:
                self._intake.troubled(error)
        self._mending = None
        self._send()

    def _translated(self, error: KafkaError) -> RotaError:
        said = f"sink {self._settings.shown}: {error.str()}"
        if error.code() in librdkafka.REFUSED:
            return Denied(f"{said}; check the user, its password and its permissions")
        if error.code() in librdkafka.MISSING:
            return Invalid(f"{said}; make the topic, or correct the URL's path")
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return Invalid(f"{said}; lower largest=, or raise the topic's max.message.bytes")
        return Unavailable(said)

    def _recount(self) -> None:
        self._intake.remain(len(self._window))
