"""The window: what of one shard is on its way, oldest first, under the numbers a server confirms by.

`add` puts messages behind the others, `send` gives out the next that have not been sent on this channel yet. A server
numbers what it is sent on a channel 1, 2, 3 …, and `confirm` takes such a number, alone or with all before it. After a
break `restart` puts everything that is left back, in order, to be sent again as 1, 2, 3 ….

Of a message that was confirmed before an older one, the window keeps a copy until the older one is confirmed too. If
both are of one resource, both go again after a break: the last copies that a consumer sees are then in order. The
confirmation was told, and is not told again. A rejected one is not sent again.

No clock, no socket: adapters are wrapped around it.
"""

from collections import deque
from collections.abc import Callable
from itertools import chain

from rota.sinks.port import Message


class Window:
    """The messages of one shard that have not left it."""

    def __init__(self) -> None:
        self._sent: deque[Message] = deque()
        self._unsent: deque[Message] = deque()
        self.oldest = 1
        """The number of the oldest, sent or not; the others follow without a gap."""
        self._told: set[int] = set()
        """Numbers of messages that have their outcome and wait for an older one."""
        self._rejected: set[int] = set()
        """Those of them that were rejected."""
        self._refused: set[int] = set()
        """Numbers of messages that the server did not take; they go again."""

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
        """The messages whose confirmation this is; those that have their outcome are left out."""
        behind = number - self.oldest
        if behind >= len(self._sent):
            last = self.oldest + len(self._sent) - 1
            raise ValueError(f"message {number} was confirmed, but {last} was the last to be sent")
        if behind <= 0 or is_multiple:
            confirmed = self._leave(behind + 1)
            self._leave_told()
            return confirmed
        if number in self._told:
            return []
        self._told.add(number)
        return [self._sent[behind]]

    def confirm_all(self) -> list[Message]:
        """As `confirm`, for everything that was sent."""
        return self.confirm(self.oldest + len(self._sent) - 1, is_multiple=True)

    def refuse(self, number: int, *, is_multiple: bool) -> None:
        """The server did not take the message of that number, or all up to it; it has no outcome yet."""
        self._refused.update(range(self.oldest, number + 1) if is_multiple else (number,))

    @property
    def is_answered(self) -> bool:
        """Was everything that was sent either confirmed or refused?"""
        return len(self._told | self._refused) >= len(self._sent)

    def find(self, message_id: bytes) -> int | None:
        """The number of the oldest sent message of that id that has no outcome; None if there is none."""
        numbered = enumerate(self._sent, self.oldest)
        return next((each for each, one in numbered if one.id == message_id and each not in self._told), None)

    def reject(self, number: int) -> Message:
        """The message of that number, which now has its outcome. It leaves when it is confirmed all the same."""
        self._told.add(number)
        self._rejected.add(number)
        return self._sent[number - self.oldest]

    def restart(self, is_hopeless: Callable[[Message], bool] = lambda message: False) -> list[Message]:
        """Nothing counts as sent any more, and numbers begin at 1 again. Returns, rejected, those that are hopeless."""
        kept: list[Message] = []
        told: set[int] = set()
        hopeless: list[Message] = []
        waiting: set[tuple[str, str]] = set()
        for number, message in enumerate(chain(self._sent, self._unsent), self.oldest):
            resource = (message.kind, message.resource)
            if number not in self._told and is_hopeless(message):
                hopeless.append(message)
            elif number not in self._told:
                waiting.add(resource)
                kept.append(message)
            elif resource in waiting and number not in self._rejected:
                kept.append(message)
                told.add(len(kept))
        self._sent.clear()
        self._unsent = deque(kept)
        self._told, self._rejected, self._refused, self.oldest = told, set(), set(), 1
        return hopeless

    def _leave(self, count: int) -> list[Message]:
        """Let the oldest go; those that had no outcome yet."""
        if not self._told:
            leaving = [self._sent.popleft() for _ in range(count)]
        else:
            numbers = range(self.oldest, self.oldest + count)
            oldest = [(number, self._sent.popleft()) for number in numbers]
            leaving = [message for number, message in oldest if number not in self._told]
            self._told.difference_update(numbers)
            self._rejected.difference_update(numbers)
        self.oldest += max(count, 0)
        return leaving

    def _leave_told(self) -> None:
        while self.oldest in self._told and self._sent:
            self._leave(1)
