"""The outbox: what tasks of one worker have emitted, until the relay has acked it. Pure.

Messages leave the outbox in the order they came (`unacked`): a caller that waits for one message waits until
`acked_count` has reached its number. An ack also says which of the messages were refused; all others are safe.

Its room is limited in messages and in bytes. A message may go in while there is any room, so one that is larger than
the remaining room is accepted too.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from rota.model.ids import Instant
from rota.relay.core.held import OVERHEAD, Emission, RefusedMessage
from rota.relay.core.unacked import Unacked


class Outgoing(NamedTuple):
    """A batch for the relay; one without messages only reports the age."""

    sequence: int
    emissions: list[Emission]


class Outbox:
    """The messages of one worker that have no ack."""

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self.put_count = self.acked_count = 0
        """How many messages came, and how many of them are acked; acks follow the order of arrival."""

        self._bytes = 0
        self._unacked: Unacked[tuple[Emission, Instant]] = Unacked()
        """The messages, each with the time of its arrival."""

        self._queue = self._unacked.queue
        self._sizes: deque[int] = deque()
        """Bytes of the batches that were handed over."""

    @property
    def held(self) -> int:
        """Messages that have no ack."""
        return self.put_count - self.acked_count

    @property
    def unsent(self) -> int:
        """Messages that were not handed over on this line."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        """May another message go in?"""
        return self.held < self._most_messages and self._bytes < self._most_bytes

    def put(self, emission: Emission, now: Instant) -> int:
        """Keep a message; returns its number. It has its outcome once `acked_count` has reached that number."""
        self._queue.append((emission, now))
        self._bytes += OVERHEAD + len(emission.message.payload)
        self.put_count += 1
        return self.put_count

    def take(self, most_messages: int, most_bytes: int) -> Outgoing | None:
        """The next batch to hand over; None if there is nothing to send."""
        count = size = 0
        for emission, _ in islice(self._queue, most_messages):
            count += 1
            size += len(emission.message.payload)
            if size >= most_bytes:
                break
        return self._hand_over(count, size) if count else None

    def ping(self) -> Outgoing:
        """A batch without messages, which reports the age."""
        return self._hand_over(0, 0)

    def acked(self, sequence: int, refused: Iterable[RefusedMessage] = ()) -> dict[int, str]:
        """The relay is done with all batches up to this one; returns the reasons of the refused messages, by number."""
        reasons = {(each.sequence, each.id): each.why for each in refused}
        found: dict[int, str] = {}
        for batch, messages in self._unacked.acked(sequence):
            if reasons:
                numbered = enumerate(((batch, each.message.id) for each, _ in messages), self.acked_count + 1)
                found |= {number: reasons[key] for number, key in numbered if key in reasons}
            self.acked_count += len(messages)
            self._bytes -= self._sizes.popleft()
        return found

    def broke(self) -> None:
        """The line broke: messages without an ack are sent again."""
        self._unacked.broke()
        self._sizes.clear()

    def age(self, now: Instant) -> float | None:
        """How old the oldest message without an ack is; None if there is none."""
        oldest = self._unacked.oldest
        return None if oldest is None else max(0.0, now - oldest[1])

    def _hand_over(self, count: int, size: int) -> Outgoing:
        self._sizes.append(size + count * OVERHEAD)
        number, messages = self._unacked.hand_over(count)
        return Outgoing(number, [emission for emission, _ in messages])
