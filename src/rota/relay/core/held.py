"""What a relay holds: messages, and the hand-overs that wait for their outcome.

A hand-over is one numbered batch of a line. It is acked when each of its messages has its outcome, and all batches
before it are acked; with the ack its sender learns which messages were rejected. A message waits in one place of the
relay at a time; copies of it are not kept, their batches join the first one's.
"""

from collections import deque

import msgspec

from rota.model.errors import Invalid
from rota.model.ids import Instant
from rota.relay.core.dedup import Tally
from rota.relay.core.held_phases import HeldPhase
from rota.sinks.port import Message

OVERHEAD = 512
"""Bytes that a message costs besides its payload, roughly."""

CROWD = 16
"""Batches that wait for one message before those of lines that are gone are looked for."""


class RefusedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message of a batch that can never be delivered, as it is reported to its sender."""

    sequence: int
    """Of the batch."""

    id: bytes
    why: str


class Emission(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One replica's copy of a message, as hosts and relays hand it over."""

    message: Message
    sink: str
    """URL of the sink that it is for."""

    slot: int
    """Which replica sent it."""

    epoch: int
    """Of the task that sent it."""

    is_exclusive: bool = False
    """May only the task of the latest epoch send?"""


class RelayedResource:
    """One resource, as a relay sees it."""

    __slots__ = ("floor", "giver", "home", "moves_to", "tally", "unpublished")

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.home: str | None = None
        """The node of the relay at which its messages meet."""

        self.giver: str | None = None
        """The home in the map before; messages wait until that relay has shipped what it knows."""

        self.moves_to: str | None = None
        """The new home, while this relay still has messages of the resource."""

        self.unpublished = 0
        """Messages accepted for it whose outcome the sink has not reported."""

        self.floor = 0
        """The latest epoch that is known; messages of exclusive tasks of earlier epochs are refused."""


class RelayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of what a relay holds."""

    messages: int = 50_000
    """In memory, for each sink and each other relay."""

    bytes: int = 64 * 2**20
    """As `messages`."""

    window: int = 1_000
    """Messages under way to a sink, or to another relay, at most."""

    hold: float = 30.0
    """Seconds for which messages are held back for a planned move, at most."""


class MemoryBudget:
    """Room for messages in memory, and the lines that are not read while it is full."""

    __slots__ = ("blocked", "bytes", "messages", "most_bytes", "most_messages")

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self.most_messages, self.most_bytes = most_messages, most_bytes
        self.messages = self.bytes = 0
        self.blocked: list[InboundLine] = []

    @classmethod
    def of(cls, limits: RelayLimits) -> "MemoryBudget":
        """The room that these limits give to each sink and each peer."""
        return cls(limits.messages, limits.bytes)

    @property
    def is_full(self) -> bool:
        """Is there no room left?"""
        return self.messages >= self.most_messages or self.bytes >= self.most_bytes

    @property
    def is_low(self) -> bool:
        """Is there enough room for blocked lines to be read again?"""
        return self.messages * 2 <= self.most_messages and self.bytes * 2 <= self.most_bytes

    def add(self, held: "HeldMessage") -> None:
        """A message came."""
        self.messages += 1
        self.bytes += held.size

    def free(self, held: "HeldMessage") -> None:
        """A message left."""
        self.messages -= 1
        self.bytes -= held.size


class InboundLine:
    """A line of one sender: a host worker of this node, or another node's relay."""

    __slots__ = (
        "_batches", "acked", "behind", "blockers", "heard", "is_open", "is_peer", "is_touched", "last",
        "refused", "sender",
    )  # fmt: skip

    def __init__(self, sender: str, *, is_peer: bool = False) -> None:
        self.sender, self.is_peer = sender, is_peer
        """The host worker's name, or the node id of the other relay; the sender reconnects under the same one."""

        self.last = self.acked = 0
        """The last batch that came; the last that is acked, and all before it."""

        self.refused: list[RefusedMessage] = []
        """Messages of acked batches that were rejected, and that have not been reported to the sender."""

        self.is_open = True
        self.is_touched = False
        self.blockers: list[MemoryBudget] = []
        """The full budgets that its messages wait for; while there is one, the line should not be read."""

        self.behind: Instant | None = None
        """Since when the sender may hold messages without an ack, by its last report; None if it holds none."""

        self.heard = Instant(0.0)
        """When that report came."""

        self._batches: deque[InboundBatch] = deque()

    @property
    def is_stopped(self) -> bool:
        """Should it not be read at present?"""
        return bool(self.blockers)

    @property
    def since(self) -> Instant:
        """Since when the sender may hold messages. It may have emitted some after its last report, and been frozen
        since."""
        return self.heard if self.behind is None else self.behind

    def hear(self, age: float | None, now: Instant) -> None:
        """The sender reported the age of the oldest message that it holds without an ack; None: it holds none."""
        self.behind, self.heard = None if age is None else Instant(now - age), now

    def take(self, sequence: int, count: int) -> "InboundBatch":
        """A batch of `count` messages came."""
        if sequence <= self.last:
            raise Invalid(f"{self.sender}: batch {sequence} follows {self.last}; sequences must grow")
        self.last = sequence
        batch = InboundBatch(self, sequence, count)
        self._batches.append(batch)
        return batch

    def advance(self) -> bool:
        """Ack the batches that are complete; returns whether there is a new ack to send."""
        before = self.acked
        while self._batches and not self._batches[0].left:
            done = self._batches.popleft()
            self.acked = done.sequence
            self.refused += done.refused
        return self.acked > before

    def take_refused(self) -> tuple[RefusedMessage, ...]:
        """The rejections to report with the next ack; they are not returned again."""
        refused, self.refused = tuple(self.refused), []
        return refused

    def close(self) -> None:
        """The line has ended: nothing more is read from it or sent on it."""
        self.is_open = False
        for budget in self.blockers:
            budget.blocked.remove(self)
        self.blockers.clear()


class InboundBatch:
    """Messages that were handed over together."""

    __slots__ = ("left", "line", "refused", "sequence")

    def __init__(self, line: InboundLine, sequence: int, count: int) -> None:
        self.line, self.sequence = line, sequence
        self.left = count
        """Messages without an outcome."""

        self.refused: list[RefusedMessage] = []

    def refuse(self, message_id: bytes, why: str) -> None:
        """One of its messages can never be delivered."""
        self.refused.append(RefusedMessage(self.sequence, message_id, why))


class HeldMessage:
    """A message that is on its way."""

    __slots__ = (
        "batches", "emission", "is_seconded", "phase", "place", "sequence", "since", "size",
    )  # fmt: skip

    def __init__(
        self,
        emission: Emission,
        place: RelayedResource,
        batch: InboundBatch | None,
        since: Instant,
        phase: HeldPhase = HeldPhase.WAITING,
    ) -> None:
        self.emission, self.place, self.since = emission, place, since
        self.phase = phase
        self.size = OVERHEAD + len(emission.message.payload)
        self.batches: list[InboundBatch] = [] if batch is None else [batch]
        """The batches that wait for its outcome."""

        self.sequence: int | None = None
        """Its number in the spool, once it is there. Then it counts as safe, whatever the sink reports later."""

        self.is_seconded = False
        """Has another replica sent it too?"""

    def join(self, batch: InboundBatch, slot: int) -> None:
        """Another copy came: it gets this one's outcome."""
        if slot != self.emission.slot:
            self.is_seconded = True
        if len(self.batches) >= CROWD:  # a sender reconnects and hands the message over again each time
            self.batches = [each for each in self.batches if each.line.is_open]
        self.batches.append(batch)
