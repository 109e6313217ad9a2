"""The outbox: what tasks of one worker have emitted, until the relay has acked it. Pure.

Messages go to the relay in numbered batches. An ack of n stands for every batch up to n, so messages leave the outbox
in the order they came: whoever waits for one waits until `acked_count` has reached its number. An ack also says which
of the messages were refused; all others are safe. When the line breaks,
everything without an ack goes again on the next one, in order, its batches numbered afresh; the relay knows copies by
their id.

It has room for so many messages and bytes. A message may go in while there is any room, so one that is larger than the
rest finds its place too.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from rota.model.ids import Instant
from rota.workloads.resources.relay.held import OVERHEAD, Emission, Refused


class Outgoing(NamedTuple):
    """A batch for the relay; one without messages just tells the age."""

    sequence: int
    emissions: list[Emission]


class _Sent(NamedTuple):
    """A batch that was handed over and is not acked."""

    sequence: int
    emissions: list[Emission]
    since: Instant


class Outbox:
    """The messages of one worker that have no ack."""

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self.put_count = self.acked_count = 0
        """How many messages came, and how many of them are acked: those that came first."""

        self._bytes = 0
        self._queue: deque[tuple[Emission, Instant]] = deque()
        self._sent: deque[_Sent] = deque()
        self._last = 0

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
        """Keep a message; its number: it has its fate once `acked_count` has reached that."""
        self._queue.append((emission, now))
        self._bytes += _size(emission)
        self.put_count += 1
        return self.put_count

    def take(self, most_messages: int, most_bytes: int) -> Outgoing | None:
        """The next batch to hand over; None if there is nothing."""
        queue, size = self._queue, 0
        emissions: list[Emission] = []
        if not queue:
            return None
        since = queue[0][1]
        while queue and len(emissions) < most_messages and size < most_bytes:
            emission = queue.popleft()[0]
            emissions.append(emission)
            size += len(emission.message.payload)
        return self._hand_over(emissions, since)

    def ping(self, now: Instant) -> Outgoing:
        """A batch without messages."""
        return self._hand_over([], now)

    def acked(self, sequence: int, refused: Iterable[Refused] = ()) -> dict[int, str]:
        """The relay is done with everything up to this batch; why it refused messages, by their numbers."""
        reasons = {(each.sequence, each.id): each.why for each in refused}
        found: dict[int, str] = {}
        while self._sent and self._sent[0].sequence <= sequence:
            batch, emissions, _ = self._sent.popleft()
            if reasons:
                numbered = enumerate(((batch, each.message.id) for each in emissions), self.acked_count + 1)
                found |= {number: reasons[key] for number, key in numbered if key in reasons}
            self.acked_count += len(emissions)
            self._bytes -= sum(map(_size, emissions))
        return found

    def broke(self) -> None:
        """The line is gone: what has no ack goes again."""
        for sent in reversed(self._sent):
            self._queue.extendleft((emission, sent.since) for emission in reversed(sent.emissions))
        self._sent.clear()
        self._last = 0

    def age(self, now: Instant) -> float | None:
        """How old the oldest message without an ack is; None if there is none."""
        for sent in self._sent:
            if sent.emissions:
                return max(0.0, now - sent.since)
        return max(0.0, now - self._queue[0][1]) if self._queue else None

    def _hand_over(self, emissions: list[Emission], since: Instant) -> Outgoing:
        self._last += 1
        self._sent.append(_Sent(self._last, emissions, since))
        return Outgoing(self._last, emissions)


def _size(emission: Emission) -> int:
    return OVERHEAD + len(emission.message.payload)
