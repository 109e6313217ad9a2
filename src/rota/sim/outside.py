"""Links, brokers and disks in the simulator, around its hosts and relays.

Every message takes a while, in order in each direction; what was on its way to a dead process is lost. They know
nothing of relays: callers pass the callbacks.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from rota.sim.world import SimProcess, World
from rota.sinks.port import Message

POISON = 61
"""One message in `POISON` of each resource is one that its sink can never deliver."""

SEVERED = -1
"""No life of a broker: of a connection that is gone for good."""

MOMENT = 1e-6
"""Seconds between two things that must not change places."""

QUICK, SLOW = (0.001, 0.1), (0.2, 0.9)
"""Seconds that a message takes to a broker, and its confirmation back; more would be taken for an outage."""

NOBODY = contextvars.Context()
"""The owner of what belongs to no process: network and brokers."""


def in_process(process: SimProcess, delay: float, callback: Callable[[], None]) -> None:
    """Call something in a process after a while, if it lives then."""

    def happen() -> None:
        if not process.is_dead:
            callback()

    asyncio.get_running_loop().call_later(delay, happen, context=process.context)


class SimConnection:
    """A connection between two processes: in order on each way, until it breaks."""

    def __init__(self, world: World, one: SimProcess, other: SimProcess) -> None:
        self.ends = (one, other)
        self.is_open = True
        self.lost: dict[SimProcess, Callable[[], None]] = {}
        """What each end calls when the connection breaks."""

        self._world = world
        self._due = {one: 0.0, other: 0.0}

    def send(self, to: SimProcess, callback: Callable[..., None], *args: Any) -> None:
        """Call `callback` at the other end, after a while."""
        self._due[to] = max(self._due[to] + MOMENT, self._world.time + self._world.random.uniform(0.0005, 0.05))
        self._at(to, self._due[to], partial(self._arrive, callback, args))

    def cut(self) -> None:
        """Break the connection; both ends notice."""
        if self.is_open:
            self.is_open = False
            for end, lost in self.lost.items():
                self._at(end, self._world.time + self._world.random.uniform(0.01, 1.0), lost)

    def _arrive(self, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.is_open:
            callback(*args)

    def _at(self, to: SimProcess, when: float, callback: Callable[[], None]) -> None:
        in_process(to, when - self._world.time, callback)


Outcome = tuple[Message, bool]
"""A message, and whether it was rejected."""


class SimBroker:
    """A broker that messages are published to. It forgets nothing, but may stand still, or die and come back."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.log: list[tuple[float, Message]] = []
        self.is_up = True
        self.life = 0
        self.delay = QUICK
        """As `QUICK`."""

        self._world = world
        self._waiting: list[tuple[SimSink, int, list[Message]]] = []

    def receive(self, sink: "SimSink", life: int, messages: list[Message]) -> None:
        """Messages came."""
        if life != self.life or life != sink.life:
            return  # on a connection that is no more
        if not self.is_up:
            self._waiting.append((sink, life, messages))
            return
        outcomes = []
        for message in messages:
            is_poison = int(message.key.split(".")[1]) % POISON == 0
            outcomes.append((message, is_poison))
            if not is_poison:
                self.log.append((self._world.time, message))
        sink.back(life, outcomes)

    def die(self) -> None:
        """It is killed."""
        self.is_up = False
        self.life += 1
        self._waiting = []

    def wake(self) -> None:
        """It continues, or is restarted."""
        self.is_up = True
        waiting, self._waiting = self._waiting, []
        for sink, life, messages in waiting:
            self.receive(sink, life, messages)


class SimSink:
    """A process's connection to a broker: it retries what was not confirmed when it broke."""

    def __init__(
        self, world: World, process: SimProcess, broker: SimBroker, told: Callable[[list[Outcome]], None]
    ) -> None:
        self.life = broker.life
        self._world, self._process, self._broker, self._told = world, process, broker, told
        self._unconfirmed: dict[bytes, Message] = {}
        self._there = self._back = 0.0
        self._heard = self._world.time

    @property
    def is_well(self) -> bool:
        """Has it heard from the broker recently? Reconnects, if it must and can."""
        if self.life != self._broker.life:
            if not self._broker.is_up:
                return False
            self.life, self._heard = self._broker.life, self._world.time
            self._send(list(self._unconfirmed.values()))
        return not self._unconfirmed or self._world.time - self._heard < 2.0

    def publish(self, messages: list[Message]) -> None:
        """Take messages, in order."""
        if not self._unconfirmed:
            self._heard = self._world.time
        self._unconfirmed.update((message.id, message) for message in messages)
        self._send(messages)

    def _send(self, messages: list[Message]) -> None:
        if messages:
            self._there = max(self._there + MOMENT, self._world.time + self._world.random.uniform(*self._broker.delay))
            # Network and broker belong to no process: what was sent may arrive, whichever process dies meanwhile.
            arrive = partial(self._arrive, self.life, messages)
            asyncio.get_running_loop().call_at(self._there, arrive, context=NOBODY)

    def _arrive(self, life: int, messages: list[Message]) -> None:
        if self._process.is_dead and self._world.random.random() < 0.5:
            self.life = SEVERED  # it died with its machine: what comes after this is lost too
        self._broker.receive(self, life, messages)

    def back(self, life: int, outcomes: list[Outcome]) -> None:
        """The broker reports the outcome of messages."""
        self._back = max(self._back + MOMENT, self._world.time + self._world.random.uniform(*self._broker.delay))
        in_process(self._process, self._back - self._world.time, lambda: self._heard_of(life, outcomes))

    def _heard_of(self, life: int, outcomes: list[Outcome]) -> None:
        if life == self.life == self._broker.life:
            self._heard = self._world.time
            self._told([each for each in outcomes if self._unconfirmed.pop(each[0].id, None) is not None])


class Disk:
    """A spool as a disk sees it: what was synced stays, what was half written may stay in part."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._records: dict[int, Message] = {}
        self._half: tuple[int, list[Message]] | None = None
        self._last = 0
        self._unread: deque[int] = deque()
        self.mend()

    def mend(self) -> None:
        """Make the disk fast again, with room."""
        self.delay = (0.0005, 0.02)
        self.capacity = 400

    @property
    def unconfirmed(self) -> int:
        """Messages that are kept."""
        return len(self._records)

    def recover(self) -> list[tuple[int, Message]]:
        """What is on the disk after a crash."""
        if self._half is not None:
            first, messages = self._half
            kept = messages[: self._random.randint(0, len(messages))]
            self._records.update(enumerate(kept, first))
            self._last = max(self._last, first + len(kept) - 1)
            self._half = None
        self._unread = deque(sorted(self._records))
        return [(sequence, self._records[sequence]) for sequence in self._unread]

    def append(self, process: SimProcess, messages: list[Message], done: Callable[[int | None], None]) -> None:
        """Write, which takes a while; `done` gets the first message's number, or None if there is no room."""
        finish = partial(self._written, done) if self._has_room(messages) else partial(done, None)
        in_process(process, self._random.uniform(*self.delay), finish)

    def _has_room(self, messages: list[Message]) -> bool:
        if len(self._records) + len(messages) > self.capacity:
            return False
        self._half = (self._last + 1, messages)
        return True

    def _written(self, done: Callable[[int | None], None]) -> None:
        assert self._half is not None
        first, messages = self._half
        self._half = None
        self._records.update(enumerate(messages, first))
        self._unread.extend(range(first, first + len(messages)))
        self._last = first + len(messages) - 1
        done(first)

    def read(self, most: int) -> list[tuple[int, Message]]:
        """The next messages that are kept."""
        found: list[tuple[int, Message]] = []
        while self._unread and len(found) < most:
            sequence = self._unread.popleft()
            if sequence in self._records:
                found.append((sequence, self._records[sequence]))
        return found

    def confirm(self, sequences: Sequence[int]) -> None:
        """These messages need not be kept."""
        for sequence in sequences:
            self._records.pop(sequence, None)
