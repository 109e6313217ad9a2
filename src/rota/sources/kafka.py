"""The source on Kafka: `kafka://[user@]host[:9092][,host…]/topic[?option=value&…]`.

A path that begins with `^` is a pattern: all topics whose whole name matches it (`sources.topics`).

    timeout=5s                   how long an answer of the brokers may take
    ahead=33554432               how many bytes a reader fetches ahead
    password_file=FILE           the user's password; or password_env=NAME (`model.secrets`)
    sasl=scram-sha-512           how the user logs in: scram-sha-512, scram-sha-256 or plain
    tls=on|off, ca=FILE, cert=FILE&key=FILE     on by itself when one of these files is named
    consumer.NAME=VALUE          any other setting of librdkafka, like consumer.client.rack=eu-1

Partitions are assigned by us: no group is joined and no offset is committed at the brokers. Only what transactions have
committed is read. A reader is a consumer of librdkafka and a thread that takes many records at a time out of it. Two of
its defaults make it wait a second whenever it is ahead, which costs three quarters of its speed; they are changed here.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from rota.kit.drivers import librdkafka
from rota.kit.time.clock import SYSTEM
from rota.kit.time.epoch import milliseconds
from rota.model.errors import Denied, Invalid, NotFound, RotaError, Unavailable
from rota.model.url import SECRETS
from rota.sources import topics
from rota.sources.gaps import between, outside
from rota.sources.port import Batch, Bounds, Record, Vanished
from rota.sources.threaded import ThreadedReader
from rota.sources.topics import SourcePartition
from rota.sources.url import Options, Password, SourceUrl

AHEAD = 32 * 2**20
POLL = 0.1
"""Seconds for which the thread waits for records before it looks whether something else is to do."""

REST = timedelta(milliseconds=2)
"""How long a reader rests when nothing came: the thread has waited already."""

TOGETHER = 500
"""Records taken out of the client in one go, at most: with more of them the processor's cache is too small."""

PROBE = 1.0
"""Seconds that a look at idle brokers may take."""

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers that know no topic ids say."""

NO_SECRET = "a URL is no place for a secret"
FIXED = {
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "write the hosts into the URL"),
    **dict.fromkeys(("security.protocol", "sasl.mechanism", "sasl.mechanisms"), "write sasl= or tls="),
    **dict.fromkeys(("sasl.username", "sasl.password"), "write the user into the URL, with password_file="),
    **dict.fromkeys(("ssl.key.pem", "ssl.keystore.password"), f"{NO_SECRET}; name the files, cert= and key="),
    "ssl.key.password": f"{NO_SECRET}; name a key that needs none, key=",
    **dict.fromkeys(("group.id", "group.protocol", "group.instance.id"), "no group is ever joined; leave it out"),
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store"), "offsets are committed with the output; leave it out"
    ),
    "auto.offset.reset": "write vanished= in the stream's declaration",
    "isolation.level": "only what is committed is read; leave it out",
    "enable.partition.eof": "gaps are found by it; leave it out",
    "allow.auto.create.topics": "reading makes nothing; make the topic first",
}
"""Settings of librdkafka that a URL may not change, and why, or what to do instead."""

EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]

# What a record consists of. Asked for by `map`, each costs half of what a call from Python does.
_error: Any = Message.error
_partition: Any = Message.partition
_offset: Any = Message.offset
_timestamp: Any = Message.timestamp
_key: Any = Message.key
_value: Any = Message.value
_headers: Any = Message.headers

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """How to reach a Kafka, and what to read there."""

    shown: str
    hosts: str
    topic: str
    timeout: timedelta
    ahead: int
    user: str | None
    password: Password = field(repr=False)
    sasl: str
    tls: dict[str, str] | None
    more: dict[str, str] = field(repr=False)
    """Other settings of librdkafka, as they are."""

    def client(self) -> dict[str, Any]:
        """The configuration of every client; the password is read now."""
        password = self.password() if self.user else ""
        return {
            **librdkafka.way_in(self.hosts, self.tls, user=self.user, password=password, mechanism=self.sasl),
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
            **self.more,
            "allow.auto.create.topics": False,
        }

    def consumer(self) -> dict[str, Any]:
        """The configuration of a consumer."""
        return {
            "check.crcs": True,
            "max.poll.interval.ms": 86_400_000,  # a consumer that does not read for long is not dead
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": max(1, self.ahead // 1024),
            "fetch.queue.backoff.ms": 5,
            "fetch.error.backoff.ms": 100,
            **self.client(),
            "group.id": "rota",  # librdkafka requires a group; it is never joined
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,  # so that the offsets of a transaction's marks at the end are passed
        }


def read(url: SourceUrl) -> KafkaSettings:
    """What the URL says; Invalid names what is wrong with it."""
    options = Options(url)
    topic = url.path.strip("/")
    if not url.hosts or not topic:
        raise options.wrong("no host or no topic; write kafka://host/topic")
    settings = KafkaSettings(
        shown=str(url),
        hosts=",".join(f"{host}:{port}" for host, port in url.addresses(librdkafka.PORT)),
        topic=topic,
        timeout=options.duration("timeout", timedelta(seconds=5)),
        ahead=options.number("ahead", AHEAD, least=1024),
        user=url.user,
        password=options.password(),
        sasl=options.choice("sasl", librdkafka.MECHANISMS),
        tls=options.tls_files(),
        more=_more(options),
    )
    options.done()
    if topics.is_pattern(topic):
        try:
            topics.check(topic)
        except ValueError as error:
            raise options.wrong(f"{error}; write one like ^clicks[.].*") from None
    return settings


def _more(options: Options) -> dict[str, str]:
    """Settings of librdkafka that the URL names; Invalid if one is not the user's to choose."""
    found = options.beginning("consumer.")
    for name in found:
        if why := FIXED.get(name) or (name.endswith(SECRETS) and f"{NO_SECRET}; log in with sasl= and password_file="):
            raise options.wrong(f"consumer.{name} cannot be set: {why}")
    return found


async def open(url: SourceUrl) -> "KafkaSource":
    """A source whose brokers have been reached, and have the topic."""
    source = KafkaSource(read(url))
    await source.partitions()
    return source


class KafkaSource:
    """A topic."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._timeout = settings.timeout.total_seconds()
        self._refusal: KafkaError | None = None
        self._places: dict[int, SourcePartition] = {}
        """The partitions by number, as they were last seen."""

        self._seen: dict[int, SourcePartition] = {}
        """Every partition that was ever seen."""

        self._admin: AdminClient = _made(AdminClient, settings, {**settings.client(), "error_cb": self._complained})

    async def partitions(self) -> tuple[int, ...]:
        return await self._ask(self._partitions)

    async def identity(self) -> str | None:
        return await self._ask(self._identity)

    async def replaced(self, partitions: Iterable[int]) -> tuple[int, ...]:
        known = set(await self.partitions())
        taken = {self._places[number] for number in known}
        return tuple(each for each in partitions if each not in known and self._seen.get(each) in taken)

    async def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        wanted = await self._known(partitions)
        starts = await self._ask(lambda: self._offsets(wanted, EARLIEST))
        ends = await self._ask(lambda: self._offsets(wanted, LATEST))
        return {number: Bounds(starts[number], max(starts[number], ends[number])) for number in wanted}

    async def offset_at(self, partition: int, when: datetime) -> int:
        await self._known([partition])
        spec = OffsetSpec.for_timestamp(milliseconds(when))
        found = await self._ask(lambda: self._offsets([partition], spec))
        return found[partition] if found[partition] >= 0 else (await self.bounds([partition]))[partition].end

    async def reader(self, offsets: Mapping[int, int]) -> ThreadedReader:
        await self._known(offsets)
        cursor = KafkaCursor(self._settings, self._place, self._bounds)
        try:
            await self._ask(cursor.connect)
        except RotaError:
            await asyncio.to_thread(cursor.close)
            raise
        return await ThreadedReader.opened(cursor, self._settings.shown, REST, offsets)

    async def close(self) -> None:
        """The client ends with its last use."""

    async def _known(self, partitions: Iterable[int]) -> list[int]:
        have, wanted = await self.partitions(), list(partitions)
        for number in wanted:
            if number not in have:
                shown = self._settings.shown
                raise NotFound(f"source {shown} has no partition {number}; it has {len(have)}, counted from 0")
        return wanted

    async def _ask(self, question: Callable[[], T]) -> T:
        """An answer of the brokers, waited for in a thread."""
        try:
            return await asyncio.to_thread(question)
        except KafkaException as error:
            self._admin.poll(0)  # the client may have a better reason than the timeout
            raise _translated(self._refusal or error.args[0], self._settings) from None
        finally:
            self._refusal = None

    def _complained(self, error: KafkaError) -> None:
        if error.code() in librdkafka.REFUSED:
            self._refusal = error

    # In a thread

    def _partitions(self) -> tuple[int, ...]:
        topic = self._settings.topic
        self._places = self._matching(topic) if topics.is_pattern(topic) else self._of(topic)
        self._seen.update(self._places)
        return tuple(sorted(self._places))

    def _of(self, topic: str) -> dict[int, SourcePartition]:
        known = self._admin.list_topics(topic, timeout=self._timeout).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return {number: SourcePartition(topic, number) for number in known.partitions}

    def _matching(self, pattern: str) -> dict[int, SourcePartition]:
        known = self._admin.list_topics(timeout=self._timeout).topics
        names = topics.matching(pattern, known)
        if not names:
            raise NotFound(f"source {self._settings.shown}: no topic matches; make one, or correct the URL's path")
        ids = self._ids(names)
        return topics.numbered({name: (ids[name], known[name].partitions) for name in names})

    def _ids(self, names: list[str]) -> dict[str, str]:
        asked = self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout)
        return {name: str(asked[name].result().topic_id) for name in names}

    def _identity(self) -> str | None:
        if topics.is_pattern(self._settings.topic):
            return None  # each of its topics has one, which is in the numbers of its partitions
        told = self._ids([self._settings.topic])[self._settings.topic]
        return None if told == NO_ID else told

    def _place(self, number: int) -> SourcePartition:
        """The partition of a number; one that is not known may have come since, and is looked for."""
        if number not in self._places:
            try:
                self._partitions()
            except KafkaException as error:
                raise _translated(error.args[0], self._settings) from None
        if number not in self._places:
            raise NotFound(f"source {self._settings.shown} has no partition {number}; its topic was deleted")
        return self._places[number]

    def _offsets(self, partitions: Iterable[int], spec: Any) -> dict[int, int]:
        places = {self._place(number): number for number in partitions}
        wanted = {TopicPartition(*place): spec for place in places}
        asked: dict[TopicPartition, Future[Any]] = (
            self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout
            )
            if wanted
            else {}
        )
        return {
            places[SourcePartition(at.topic, at.partition)]: int(answer.result().offset) for at, answer in asked.items()
        }

    def _bounds(self, partition: int) -> Bounds:
        start = self._offsets([partition], EARLIEST)[partition]
        return Bounds(start, self._offsets([partition], LATEST)[partition])


class KafkaCursor:
    """A consumer, used by one thread."""

    def __init__(
        self, settings: KafkaSettings, place: Callable[[int], SourcePartition], bounds: Callable[[int], Bounds]
    ) -> None:
        self._settings, self._asked, self._bounds = settings, place, bounds
        self._positions: dict[int, int] = {}
        self._places: dict[int, SourcePartition] = {}
        self._numbers: dict[Any, int] = {}
        """The number of each partition that is read, by what `_key` says of a record of it."""

        self._key = _place if topics.is_pattern(settings.topic) else _partition
        self._lost: set[int] = set()
        """Partitions whose position the brokers do not have."""
        self._error: RotaError | None = None
        self._is_down = False
        self._heard = SYSTEM.monotonic()
        self._consumer: Consumer = _made(Consumer, settings, {**settings.consumer(), "error_cb": self._complained})

    def connect(self) -> None:
        """Have the client ask where the topic's partitions are: left alone it does so a second after it should read."""
        topic, patience = self._settings.topic, self._settings.timeout.total_seconds()
        if topics.is_pattern(topic):
            self._consumer.list_topics(timeout=patience)
        else:
            self._consumer.list_topics(topic, timeout=patience)

    def move(self, offsets: Mapping[int, int], dropped: Iterable[int]) -> None:
        leaving = [number for number in (*offsets, *dropped) if number in self._positions]
        if leaving:
            self._consumer.incremental_unassign([TopicPartition(*self._places[number]) for number in leaving])
        for number in leaving:
            del self._positions[number], self._places[number]
        self._lost.difference_update(leaving)
        self._places.update((number, self._asked(number)) for number in offsets)
        self._numbers = {
            place if self._key is _place else place.partition: number for number, place in self._places.items()
        }
        self._positions.update(offsets)
        if offsets:
            self._consumer.incremental_assign([TopicPartition(*self._places[each], at) for each, at in offsets.items()])

    def fetch(self, most: int) -> list[Batch]:
        try:
            return self._fetch(most)
        except KafkaException as error:
            raise _translated(error.args[0], self._settings) from None

    def close(self) -> None:
        self._consumer.close()

    def _fetch(self, most: int) -> list[Batch]:
        for number in self._lost & self._positions.keys():
            self._check(number)
        batches = self._take(most)
        if batches:
            self._heard, self._is_down = SYSTEM.monotonic(), False
            return batches
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._is_down or SYSTEM.monotonic() - self._heard > self._settings.timeout.total_seconds():
            self._probe()
        return []

    def _take(self, most: int) -> list[Batch]:
        """The records fetched so far, by partition; if there are none, those that arrive within a moment."""
        records: dict[int, list[Record]] = {}
        ends: dict[int, int] = {}
        wait, size = POLL, 1  # the client waits for the full number, or until the timeout
        while most > 0 and (fetched := self._consumer.consume(min(most, size), timeout=wait)):
            self._sort(fetched, records, ends)
            most, wait, size = most - len(fetched), 0, TOGETHER
        found = [self._batch(number, records.get(number, []), ends) for number in sorted(records.keys() | ends.keys())]
        return [batch for batch in found if batch is not None]

    def _sort(self, fetched: list[Any], records: dict[int, list[Record]], ends: dict[int, int]) -> None:
        if any(map(_error, fetched)):
            for one in fetched:
                self._note(one, ends)
            fetched = [one for one in fetched if one.error() is None]
        for place, run in groupby(fetched, self._key):  # records of a partition come many in a row
            if (number := self._numbers.get(place)) is not None:
                records.setdefault(number, []).extend(_records(list(run)))

    def _note(self, one: Any, ends: dict[int, int]) -> None:
        """Handle an error that the client returned in place of a record."""
        error = one.error()
        if error is None:
            return
        if error.code() not in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
            self._error = _translated(error, self._settings)
        elif (number := self._numbers.get(self._key(one))) is None:
            return  # it was dropped meanwhile
        elif error.code() == KafkaError._PARTITION_EOF:
            ends[number] = one.offset()
        else:
            self._lost.add(number)

    def _batch(self, number: int, records: list[Record], ends: Mapping[int, int]) -> Batch | None:
        position = self._positions.get(number)
        if position is None:
            return None
        then = max(records[-1].offset + 1 if records else position, ends.get(number, 0))
        self._positions[number] = then
        gaps = between(position, records, then)
        return Batch(number, records, then, gaps, self._places[number].topic) if then > position else None

    def _check(self, number: int) -> None:
        """Raise what is gone; if the offset exists after all, request it again."""
        position, bounds = self._positions[number], self._bounds(number)
        if missing := outside(position, bounds):
            raise Vanished(self._settings.shown, number, missing.gap, bounds, missing.why)
        self.move({number: position}, ())

    def _probe(self) -> None:
        """Look whether idle brokers are there, and the topic still is."""
        self._is_down = True
        for topic in {place.topic for place in self._places.values()}:
            known = self._consumer.list_topics(topic, timeout=PROBE).topics[topic]
            if known.error is not None:
                raise _translated(known.error, self._settings)
        self._heard, self._is_down = SYSTEM.monotonic(), False

    def _complained(self, error: KafkaError) -> None:
        if error.code() in librdkafka.REFUSED:
            self._error = _translated(error, self._settings)
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._is_down = True


def _place(one: Any) -> tuple[str, int]:
    return one.topic(), one.partition()


def _records(fetched: list[Any]) -> Iterable[Record]:
    headers: Iterable[Any] = list(map(_headers, fetched))
    headers = [tuple(each or ()) for each in headers] if any(headers) else repeat(())
    times = map(itemgetter(1), map(_timestamp, fetched))
    return map(Record, map(_offset, fetched), times, map(_key, fetched), map(_value, fetched), headers)


def _made(kind: Callable[[dict[str, Any]], Any], settings: KafkaSettings, told: dict[str, Any]) -> Any:
    try:
        return kind(told)
    except KafkaException as error:
        raise Invalid(f"source {settings.shown}: {error.args[0].str()}") from None


def _translated(error: KafkaError, settings: KafkaSettings) -> RotaError:
    said = f"source {settings.shown}: {error.str()}"
    if error.code() in librdkafka.REFUSED:
        return Denied(f"{said}; check the user, its password and its permissions")
    if error.code() in librdkafka.MISSING:
        return NotFound(f"{said}; make the topic, or correct the URL's path")
    return Unavailable(said)
