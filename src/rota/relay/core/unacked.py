"""What one receiver has not acked: it is handed over in numbered batches and kept until the ack. Pure.

An ack of n stands for every batch up to n. When the line to the receiver breaks, everything without an ack is sent
again on the next line, in order, its batches numbered afresh; the receiver knows copies by their id.

`outbox.Outbox` is a worker's, for the relay of its node; `relay.peers.PeerRelay` a relay's, for another relay.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Unacked(Generic[T]):
    """The messages for one receiver, in the order they came."""

    __slots__ = ("_last", "_sent", "queue")

    def __init__(self) -> None:
        self.queue: deque[T] = deque()
        """What was not handed over on this line."""

        self._sent: deque[tuple[int, list[T]]] = deque()
        self._last = 0

    @property
    def oldest(self) -> T | None:
        """The message that has waited longest for its ack; None if there is none."""
        for _, batch in self._sent:
            if batch:
                return batch[0]
        return self.queue[0] if self.queue else None

    def hand_over(self, count: int) -> tuple[int, list[T]]:
        """The next batch of `count` messages, and its number. A batch may be empty."""
        queue = self.queue
        if count == len(queue):
            batch = list(queue)
            queue.clear()
        else:
            batch = [queue.popleft() for _ in range(count)]
        self._last += 1
        handed = self._last, batch
        self._sent.append(handed)
        return handed

    def acked(self, number: int) -> list[tuple[int, list[T]]]:
        """The batches that an ack of this number covers, and that were not acked before."""
        sent = self._sent
        done: list[tuple[int, list[T]]] = []
        while sent and sent[0][0] <= number:
            done.append(sent.popleft())
        return done

    def broke(self) -> None:
        """The line is gone: everything without an ack is sent again."""
        for _, batch in reversed(self._sent):
            self.queue.extendleft(reversed(batch))
        self._sent.clear()
        self._last = 0
