"""A peer: another node's relay, and the messages that are passed on to it.

They go in numbered batches and are kept until the peer has acked them; its acks are cumulative. When the way there
breaks, everything without an ack goes again, in order, numbered afresh.
"""

from collections import deque
from itertools import islice

import msgspec

from rota.model.ids import Instant, NodeId
from rota.workloads.resources.relay.held import Budget, Emission, Held


class HandOver(msgspec.Struct, frozen=True):
    """A batch for a peer; one without messages just tells the age."""

    sequence: int
    emissions: tuple[Emission, ...]
    age: float | None
    """Seconds since the oldest message was emitted that the sender may hold and has no ack for; None: it has none."""


class Peer:
    """What one other relay should get."""

    def __init__(self, node: NodeId, budget: Budget, *, window: int) -> None:
        self.node, self.budget = node, budget
        self.is_touched = False
        self._window = window
        self._queue: deque[Held] = deque()
        self._under_way: deque[tuple[int, list[Held]]] = deque()
        self._sent = 0
        self._last = 0

    @property
    def is_idle(self) -> bool:
        """Has it got and acked everything?"""
        return not self._queue and not self._sent

    @property
    def since(self) -> Instant | None:
        """When the oldest message that it has not acked was emitted."""
        for _, batch in self._under_way:
            if batch:
                return batch[0].since
        return self._queue[0].since if self._queue else None

    def put(self, held: Held) -> None:
        """A message to pass on."""
        self.budget.add(held)
        self._queue.append(held)

    def take(self, most: int, most_bytes: int, age: float | None) -> HandOver | None:
        """The next batch, if there is one and not too much is under way; the one that reaches the bytes goes in."""
        count = size = 0
        for held in islice(self._queue, max(0, min(most, self._window - self._sent))):
            count, size = count + 1, size + held.size
            if size >= most_bytes:
                break
        return self._hand_over(count, age) if count else None

    def ping(self, age: float | None) -> HandOver:
        """A batch without messages."""
        return self._hand_over(0, age)

    def _hand_over(self, count: int, age: float | None) -> HandOver:
        batch = [self._queue.popleft() for _ in range(count)]
        self._last += 1
        self._sent += count
        self._under_way.append((self._last, batch))
        return HandOver(self._last, tuple(held.emission for held in batch), age)

    def acked(self, sequence: int) -> list[tuple[int, list[Held]]]:
        """The batches that an ack stands for: their numbers and messages."""
        done: list[tuple[int, list[Held]]] = []
        while self._under_way and self._under_way[0][0] <= sequence:
            done.append(self._under_way.popleft())
        for _, batch in done:
            self._leave(batch)
            self._sent -= len(batch)
        return done

    def broke(self) -> None:
        """The way there is gone: nothing counts as sent any more."""
        self._queue.extendleft(reversed([held for _, batch in self._under_way for held in batch]))
        self._under_way.clear()
        self._sent = self._last = 0

    def take_all(self) -> list[Held]:
        """Everything that it has not acked, in order: it goes elsewhere."""
        self.broke()
        everything = list(self._queue)
        self._queue.clear()
        self._leave(everything)
        return everything

    def _leave(self, helds: list[Held]) -> None:
        for held in helds:
            self.budget.free(held)
