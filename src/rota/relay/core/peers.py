"""A peer: another node's relay, and the messages that are passed on to it.

They are kept until the peer has acked them (`unacked`); at most a window of them is under way.
"""

from itertools import islice

import msgspec

from rota.model.ids import Instant, NodeId
from rota.relay.core.held import Emission, HeldMessage, MemoryBudget
from rota.relay.core.unacked import Unacked


class HandOver(msgspec.Struct, frozen=True):
    """A batch for a peer; one without messages only reports the age."""

    sequence: int
    emissions: tuple[Emission, ...]
    age: float | None
    """Seconds since the oldest message was emitted that the sender may hold and has no ack for; None: it has none."""


class PeerRelay:
    """The messages for one other relay."""

    def __init__(self, node: NodeId, budget: MemoryBudget, *, window: int) -> None:
        self.node, self.budget = node, budget
        self.is_touched = False
        self._window = window
        self._unacked: Unacked[HeldMessage] = Unacked()
        self._sent = 0
        """Messages that are under way."""

    @property
    def is_idle(self) -> bool:
        """Are there no messages without an ack?"""
        return not self._unacked.queue and not self._sent

    @property
    def since(self) -> Instant | None:
        """When the oldest message that it has not acked was emitted."""
        oldest = self._unacked.oldest
        return None if oldest is None else oldest.since

    def put(self, held: HeldMessage) -> None:
        """A message to pass on."""
        self.budget.add(held)
        self._unacked.queue.append(held)

    def take(self, most: int, most_bytes: int, age: float | None) -> HandOver | None:
        """The next batch, if there is one and not too much is under way; the one that reaches the bytes goes in."""
        count = size = 0
        for held in islice(self._unacked.queue, max(0, min(most, self._window - self._sent))):
            count, size = count + 1, size + held.size
            if size >= most_bytes:
                break
        return self._hand_over(count, age) if count else None

    def ping(self, age: float | None) -> HandOver:
        """A batch without messages."""
        return self._hand_over(0, age)

    def _hand_over(self, count: int, age: float | None) -> HandOver:
        number, batch = self._unacked.hand_over(count)
        self._sent += count
        return HandOver(number, tuple(held.emission for held in batch), age)

    def acked(self, sequence: int) -> list[tuple[int, list[HeldMessage]]]:
        """The batches that an ack covers: their numbers and messages."""
        done = self._unacked.acked(sequence)
        for _, batch in done:
            self._leave(batch)
            self._sent -= len(batch)
        return done

    def broke(self) -> None:
        """The line to the peer is gone: nothing counts as sent any more."""
        self._unacked.broke()
        self._sent = 0

    def take_all(self) -> list[HeldMessage]:
        """Remove and return every message without an ack, in order; they are routed elsewhere."""
        self.broke()
        everything = list(self._unacked.queue)
        self._unacked.queue.clear()
        self._leave(everything)
        return everything

    def _leave(self, helds: list[HeldMessage]) -> None:
        for held in helds:
            self.budget.free(held)
