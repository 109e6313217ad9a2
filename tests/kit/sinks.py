"""The sinks the laws are tried on: how to open each, what arrived there, and how to make it fail.

To add a sink: a class here and a line in HARNESSES.
"""

import asyncio
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, TextIO
from uuid import uuid4

import msgspec
import pytest

from rota.model.ids import NodeId
from rota.sinks import Message, memory
from rota.sinks.lines import MessageLine
from tests.kit import rabbit
from tests.kit.kafka import MockKafka
from tests.kit.servers import RabbitMQ, Server

NOON = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)


def message(number: int, resource: str = "r0", **fields: object) -> Message:
    """A message whose id is a number."""
    made = Message(
        id=number.to_bytes(16),
        kind="room",
        resource=resource,
        payload=b"%d" % number,
        node=NodeId("a"),
        time=NOON,
    )
    return msgspec.structs.replace(made, **fields)


def messages(count: int, *, first: int = 0, resources: int = 10) -> list[Message]:
    """Messages of several resources, in turn."""
    return [message(number, f"r{number % resources}") for number in range(first, first + count)]


def numbers(some: Iterable[Message]) -> list[int]:
    """The numbers that messages have as ids."""
    return [int.from_bytes(one.id) for one in some]


def by_resource(some: Iterable[Message]) -> dict[str, list[int]]:
    """The numbers of each resource's messages, in order."""
    found: dict[str, list[int]] = {}
    for one in some:
        found.setdefault(one.resource, []).append(int.from_bytes(one.id))
    return found


def without_repeats(some: Iterable[Message]) -> list[Message]:
    """The first copy of each."""
    return list({one.id: one for one in some}.values())


def last_copies(some: Sequence[Message]) -> list[Message]:
    """The last copy of each."""
    return without_repeats(reversed(some))[::-1]


def is_in_order(some: Iterable[Message]) -> bool:
    """Are the messages of each resource in the order of their numbers?"""
    return all(found == sorted(found) for found in by_resource(some).values())


class Told:
    """Outcomes, written down."""

    def __init__(self) -> None:
        self.confirmed_ones: list[Message] = []
        self.rejected_ones: list[tuple[Message, str]] = []
        self.on_confirmed: Callable[[Sequence[Message]], None] = lambda messages: None
        self._news = asyncio.Event()

    def confirmed(self, messages: Sequence[Message]) -> None:
        self.confirmed_ones += messages
        self.on_confirmed(messages)
        self._news.set()

    def rejected(self, message: Message, why: str) -> None:
        self.rejected_ones.append((message, why))
        self._news.set()

    @property
    def twice(self) -> list[Message]:
        """Which were told more than once."""
        everything = [*self.confirmed_ones, *(one for one, _ in self.rejected_ones)]
        often = Counter(one.id for one in everything)
        return [one for one in everything if often[one.id] > 1]

    async def until_confirmed(self, count: int, *, within: float = 60.0) -> None:
        """Return once so many were confirmed."""
        async with asyncio.timeout(within):
            while len(self.confirmed_ones) < count:
                self._news.clear()
                await self._news.wait()


class SinkHarness:
    """A place for one test's messages, empty and its own."""

    name: ClassVar[str]
    server: ClassVar[type[Server] | None] = None
    backend: ClassVar[str] = ""
    can_fail: ClassVar[bool] = False
    """Can it be taken away and brought back?"""
    has_limit: ClassVar[bool] = False
    """Does it know the option `largest`?"""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory, self.running = directory, server
        self.space = uuid4().hex

    def url(self, **options: object) -> str:
        """The sink's URL."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{self.address()}?{query}" if query else self.address()

    def address(self) -> str:
        """The URL without options."""
        raise NotImplementedError

    def arrived(self) -> list[Message]:
        """What is there, repeats and all, each resource's messages in the order they came; asked once."""
        raise NotImplementedError

    def fail(self) -> None:
        """Take it away."""
        raise NotImplementedError

    def recover(self) -> None:
        """Bring it back."""
        raise NotImplementedError

    def close(self) -> None:
        """Clear up."""


class MemoryHarness(SinkHarness):
    """A broker of this process."""

    name = "memory"
    can_fail = True

    def address(self) -> str:
        return f"memory://{self.space}"

    def arrived(self) -> list[Message]:
        return memory.broker(self.space).messages

    def fail(self) -> None:
        memory.broker(self.space).stop()

    def recover(self) -> None:
        memory.broker(self.space).start()


def read_lines(path: Path) -> list[Message]:
    """The messages in a file of lines; a last line without its end is still being written, or its writer was killed."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    lines = [msgspec.json.decode(line, type=MessageLine) for line in whole.splitlines()]
    return [
        Message(
            id=bytes.fromhex(line.id),
            kind=line.kind,
            resource=line.resource,
            node=NodeId(line.node),
            time=line.time,
            key=line.key,
            to=line.to,
            headers=line.headers,
            payload=line.text.encode() if line.text is not None else b64decode(line.base64 or ""),
        )
        for line in lines
    ]


class FileHarness(SinkHarness):
    """A file of the test's folder."""

    name = "file"

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / f"{self.space}.jsonl"

    def address(self) -> str:
        return f"file://{self.path}"

    def arrived(self) -> list[Message]:
        return read_lines(self.path)


class StdoutHarness(SinkHarness):
    """This process's standard output, which is a file meanwhile."""

    name = "stdout"

    def __init__(self, directory: Path, server: Server | None) -> None:
        super().__init__(directory, server)
        self._path = directory / "stdout"
        self._before: TextIO = sys.stdout
        self._file = self._path.open("w")

    def address(self) -> str:
        sys.stdout = self._file
        return "stdout://"

    def arrived(self) -> list[Message]:
        return read_lines(self._path)

    def close(self) -> None:
        sys.stdout = self._before
        self._file.close()


class RabbitHarness(SinkHarness):
    """An exchange and a queue on a real RabbitMQ."""

    name = "rabbitmq"
    server = RabbitMQ
    backend = "rabbitmq"
    has_limit = True

    def __init__(self, directory: Path, server: Server | None) -> None:
        super().__init__(directory, server)
        self.queue = rabbit.make_queue(self.rabbit.port, self.space)

    @property
    def rabbit(self) -> RabbitMQ:
        """The server."""
        assert isinstance(self.running, RabbitMQ)
        return self.running

    def url(self, **options: object) -> str:
        return super().url(**({"exchange": self.space} | options))

    def address(self) -> str:
        return f"amqp://127.0.0.1:{self.rabbit.port}"

    def arrived(self) -> list[Message]:
        return [one for one, _ in rabbit.take(self.rabbit.port, self.queue)]

    def close(self) -> None:
        rabbit.delete_queue(self.rabbit.port, self.queue)


class KafkaHarness(SinkHarness):
    """A topic on librdkafka's mock cluster."""

    name = "kafka"
    can_fail = True
    has_limit = True

    def __init__(self, directory: Path, server: Server | None) -> None:
        super().__init__(directory, server)
        self.kafka = MockKafka()

    def address(self) -> str:
        return f"kafka://{self.kafka.hosts}/{self.space}"

    def arrived(self) -> list[Message]:
        return self.kafka.arrived(self.space)

    def fail(self) -> None:
        self.kafka.stop()

    def recover(self) -> None:
        self.kafka.start()

    def close(self) -> None:
        self.kafka.__exit__()


HARNESSES: tuple[type[SinkHarness], ...] = (MemoryHarness, FileHarness, StdoutHarness, RabbitHarness, KafkaHarness)


def params(harnesses: Iterable[type[SinkHarness]]) -> list[object]:
    """The harnesses as parameters of a fixture, each with its name and the backend it needs."""
    return [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(kind.backend)] if kind.backend else [])
        for kind in harnesses
    ]
