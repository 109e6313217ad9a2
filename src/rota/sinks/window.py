"""The window: what of one shard is on its way, oldest first, under the numbers a server confirms by.

`add` puts messages behind the others, `send` gives out the next that have not been sent on this channel yet. A server
numbers what it is sent on a channel 1, 2, 3 …. It answers each number once, alone or with all before it that it has not
answered yet: `confirm` takes an ack, `refuse` a nack. The first answer counts, so an ack of several does not confirm a
message that was refused before. After a break `restart` puts everything that is left back, in order, to be sent again
as 1, 2, 3 ….

Of a message that was confirmed before an older one, the window keeps a copy until the older one is confirmed too. If
both are of one resource, both are sent again after a break: the last copies that a consumer sees are then in order. The
confirmation was reported, and is not reported again. A rejected one is not sent again.

No clock, no socket: adapters are wrapped around it.
"""

from collections import deque
from collections.abc import Callable
from itertools import chain, islice

from rota.sinks.port import Message


class ShardWindow:
    """The messages of one shard that have not left it."""

    def __init__(self) -> None:
        self._sent: deque[Message] = deque()
        self._unsent: deque[Message] = deque()
        self.oldest = 1
        """The number of the oldest, sent or not; the others follow without a gap."""
        self._acked: set[int] = set()
        """Numbers of messages that the server has taken on this channel and that wait for an older one."""
        self._refused: set[int] = set()
        """Numbers of messages that the server did not take on this channel; they are sent again."""
        self._reported: set[int] = set()
        """Numbers of messages whose outcome was reported, on this channel or an earlier one."""
        self._rejected: set[int] = set()
        """Those of them that were rejected."""

    def __len__(self) -> int:
        return len(self._sent) + len(self._unsent)

    @property
    def has_unsent(self) -> bool:
        """Is there something to send?"""
        return bool(self._unsent)

    def add(self, message: Message) -> None:
        """Put a message behind the others."""
        self._unsent.append(message)

    def send(self, most: int) -> list[Message]:
        """The next that have not been sent on this channel, with about `most` bytes; they now count as sent."""
        unsent, sending, size = self._unsent, [], 0
        while unsent and size < most:
            message = unsent.popleft()
            size += len(message.payload)
            sending.append(message)
        self._sent += sending
        return sending

    def confirm(self, number: int, *, is_multiple: bool) -> list[Message]:
        """The messages whose confirmation this is; those that were answered or reported before are left out."""
        self._check_sent(number, "confirmed")
        first = self.oldest if is_multiple else number
        if first == self.oldest and not (self._acked or self._refused or self._reported):
            return self._leave(number - first + 1)  # nearly always
        outstanding = self._outstanding(first, number)
        confirmed = [message for each, message in outstanding if each not in self._reported]
        self._acked.update(each for each, _ in outstanding)
        self._reported.update(each for each, _ in outstanding)
        self._leave_acked()
        return confirmed

    def confirm_all(self) -> list[Message]:
        """As `confirm`, for everything that was sent."""
        return self.confirm(self.oldest + len(self._sent) - 1, is_multiple=True)

    def refuse(self, number: int, *, is_multiple: bool) -> None:
        """The server did not take the message of that number, or all up to it; it is sent again after `restart`."""
        self._check_sent(number, "refused")
        first = self.oldest if is_multiple else number
        self._refused.update(each for each, _ in self._outstanding(first, number))

    @property
    def is_answered(self) -> bool:
        """Was everything that was sent on this channel either confirmed or refused?"""
        return len(self._acked) + len(self._refused) >= len(self._sent)

    def find(self, message_id: bytes) -> int | None:
        """The number of the oldest sent message of that id that has no answer and no outcome; None if there is none."""
        done = self._reported | self._refused
        numbered = enumerate(self._sent, self.oldest)
        return next((each for each, one in numbered if one.id == message_id and each not in done), None)

    def reject(self, number: int) -> Message | None:
        """The message of that number, which now has its outcome; None if it had one. It leaves when it is confirmed."""
        if number in self._reported:
            return None
        self._reported.add(number)
        self._rejected.add(number)
        return self._sent[number - self.oldest]

    def restart(self, is_hopeless: Callable[[Message], bool] = lambda message: False) -> list[Message]:
        """Nothing counts as sent any more, and numbers begin at 1 again. Returns, rejected, those that are hopeless."""
        kept: list[Message] = []
        reported: set[int] = set()
        hopeless: list[Message] = []
        waiting: set[tuple[str, str]] = set()
        for number, message in enumerate(chain(self._sent, self._unsent), self.oldest):
            resource = (message.kind, message.resource)
            if number in self._rejected or (number in self._acked and resource not in waiting):
                continue
            if number not in self._reported and is_hopeless(message):
                hopeless.append(message)
                continue
            waiting.add(resource)
            kept.append(message)
            if number in self._reported:
                reported.add(len(kept))
        self._sent.clear()
        self._unsent = deque(kept)
        self._acked, self._refused, self._reported, self._rejected, self.oldest = set(), set(), reported, set(), 1
        return hopeless

    def _check_sent(self, number: int, what: str) -> None:
        last = self.oldest + len(self._sent) - 1
        if number > last:
            raise ValueError(f"message {number} was {what}, but {last} was the last to be sent")

    def _outstanding(self, first: int, last: int) -> list[tuple[int, Message]]:
        """The messages from one number to another that the server has not answered on this channel."""
        first = max(first, self.oldest)
        numbered = enumerate(islice(self._sent, first - self.oldest, max(0, last + 1 - self.oldest)), first)
        return [(each, one) for each, one in numbered if each not in self._acked and each not in self._refused]

    def _leave(self, count: int) -> list[Message]:
        """The oldest, which leave."""
        leaving = [self._sent.popleft() for _ in range(count)]
        self.oldest += len(leaving)
        return leaving

    def _leave_acked(self) -> None:
        first = self.oldest
        while self.oldest in self._acked:
            self._leave(1)
        for numbers in (self._acked, self._reported, self._rejected):
            numbers.difference_update(range(first, self.oldest))
