"""An outlet: the messages for one sink, in memory, in the spool and under way.

While the sink works, messages go from the queue to the sink. When it does not, they go to the spool: first those that
the sink has taken and not confirmed, then the queue, so that the spool has everything in order, whichever process dies.
Once the sink works again the spool is read and published, and live messages queue behind it: in the spool too while
there is much to read, in memory when the end is near.

A message that is in the spool and that the sink also has under way is not published from the spool; the sink retries it
by itself, and reports its outcome once.

It has no effects: the owner of sink and spool asks what is to be done, does it, and reports the outcome.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from rota.relay.core.held import HeldMessage, MemoryBudget
from rota.relay.core.held_phases import (
    AFTER_ANSWERED,
    AFTER_READ_PAST,
    AFTER_TAKEN,
    AFTER_WRITE_BEGUN,
    AFTER_WRITE_REFUSED,
    AFTER_WRITTEN,
    HeldPhase,
)
from rota.sinks.port import Message

ANSWERED_WRITING, UNDER_WAY_SPOOLED, WRITING = (
    HeldPhase.ANSWERED_WRITING,
    HeldPhase.UNDER_WAY_SPOOLED,
    HeldPhase.WRITING,
)

NEAR = 2_000
"""Messages left to read from the spool below which live ones wait in memory."""


class Outlet:
    """One sink's messages."""

    def __init__(
        self, sink: str, budget: MemoryBudget, *, window: int, has_spool: bool = True, near: int = NEAR
    ) -> None:
        self.sink, self.budget = sink, budget
        self.is_up = True
        """Is the sink usable?"""

        self.is_spool_full = not has_spool
        self.under_way: dict[bytes, HeldMessage] = {}
        """What the sink has taken, by id, in that order."""

        self.unread = 0
        """Records of the spool that were not read back."""

        self.spent: list[int] = []
        """Spool numbers of messages that need not be kept; the owner of the spool takes them out."""

        self.is_touched = False
        self.window = window
        """Messages that may be under way."""

        self._has_spool, self._near = has_spool, near
        self._queue: deque[HeldMessage] = deque()
        self._read: deque[HeldMessage] = deque()
        self._writing: list[HeldMessage] = []
        self._passed: set[int] = set()
        """Spool numbers of messages that the sink confirmed before they were read back."""

    @property
    def is_idle(self) -> bool:
        """Is nothing left to do?"""
        return not (self._queue or self._read or self._writing or self.under_way or self.unread)

    @property
    def is_safe(self) -> bool:
        """Is everything in the sink or on disk?"""
        is_written = all(held.sequence is not None for held in self.under_way.values())
        return not self._queue and not self._writing and is_written

    @property
    def unpublished(self) -> Iterator[HeldMessage]:
        """Messages in memory whose outcome the sink has not reported, each once."""
        yield from chain(self._queue, self._read, self.under_way.values())
        yield from (held for held in self._writing if held.phase is WRITING)

    @property
    def waiting(self) -> int:
        """Messages in memory that neither sink nor spool has."""
        return len(self._queue)

    def put(self, held: HeldMessage) -> None:
        """A message to publish."""
        self.budget.add(held)
        self._queue.append(held)

    def take_back(self, leaves: Callable[[HeldMessage], bool]) -> list[HeldMessage]:
        """Remove and return those in the queue that leave; neither sink nor spool has seen them."""
        taken = [held for held in self._queue if leaves(held)]
        if taken:
            self._queue = deque(held for held in self._queue if not leaves(held))
            for held in taken:
                self.budget.free(held)
        return taken

    # Publishing

    def to_publish(self, most: int) -> list[Message]:
        """What the sink should take now; it counts as under way from here on."""
        if not self.is_up:
            return []
        is_behind = self._read or self.unread or self._writing
        source = self._read if is_behind else self._queue
        room = min(most, self.window - len(self.under_way))
        messages: list[Message] = []
        while source and len(messages) < room:
            held = source[0]
            message = held.emission.message
            if message.id in self.under_way:  # an equal, older message: its outcome would pass for this one's
                break
            source.popleft()
            held.phase = AFTER_TAKEN[held.phase]
            self.under_way[message.id] = held
            messages.append(message)
        return messages

    def outcome(self, message_id: bytes) -> HeldMessage | None:
        """Remove and return the message whose outcome the sink reported; None if the id is unknown here."""
        held = self.under_way.pop(message_id, None)
        if held is None:
            return None
        before = held.phase
        held.phase = AFTER_ANSWERED[before]
        self.budget.free(held)
        if held.sequence is not None:
            self._spend(held.sequence, is_unread=before is UNDER_WAY_SPOOLED)
        return held

    # The spool

    def to_spool(self, most: int) -> list[Message]:
        """The messages that the spool should write now; none while it is writing."""
        if self._writing or self.is_spool_full:
            return []
        if self.is_up and self.unread + len(self._read) <= self._near:
            return []
        # What the sink has must be in the spool before anything that came after it.
        writing = [held for held in self.under_way.values() if held.sequence is None]
        while self._queue and len(writing) < most:
            writing.append(self._queue.popleft())
        for held in writing:
            held.phase = AFTER_WRITE_BEGUN[held.phase]
        self._writing = writing
        return [held.emission.message for held in writing]

    def spooled(self, first: int) -> list[HeldMessage]:
        """The spool has written them, numbered from `first`; returns these messages."""
        written, self._writing = self._writing, []
        for sequence, held in enumerate(written, first):
            before, held.phase = held.phase, AFTER_WRITTEN[held.phase]
            held.sequence = sequence
            self.unread += 1
            if before is ANSWERED_WRITING:
                self._spend(sequence, is_unread=True)
            elif before is WRITING:
                self.budget.free(held)
        return written

    def spool_refused(self) -> None:
        """The disk took none of the messages."""
        self._queue.extendleft(reversed([held for held in self._writing if held.phase is WRITING]))
        for held in self._writing:
            held.phase = AFTER_WRITE_REFUSED[held.phase]
        self._writing = []
        self.is_spool_full = True

    def spool_has_room(self) -> None:
        """Writing to the disk may be retried."""
        self.is_spool_full = not self._has_spool

    def to_read(self) -> int:
        """How many records the spool should read back now."""
        if not self.is_up:
            return 0
        return max(0, min(self.unread, self.window - len(self.under_way) - len(self._read)))

    def was_read(self, records: Sequence[tuple[int, HeldMessage]]) -> None:
        """The spool has read these back, in order; those already given to the sink are skipped."""
        for sequence, held in records:
            if sequence in self._passed:
                continue
            self.unread -= 1
            known = self.under_way.get(held.emission.message.id)
            if known is not None and known.sequence == sequence:
                known.phase = AFTER_READ_PAST[known.phase]
            else:
                held.sequence = sequence
                self.budget.add(held)
                self._read.append(held)
        if records and self._passed:
            last = records[-1][0]
            self._passed = {sequence for sequence in self._passed if sequence > last}

    def lost(self, sequences: Collection[int]) -> int:
        """The spool cannot read these numbers back. Returns how many messages are lost: the sink may still have some
        under way."""
        gone = set(sequences) - self._passed
        self.unread -= len(gone)
        for held in self.under_way.values():
            if held.sequence in gone:
                held.phase = AFTER_READ_PAST[held.phase]
                gone.remove(held.sequence)
        self.spent += sorted(gone)
        return len(gone)

    def _spend(self, sequence: int, *, is_unread: bool) -> None:
        """A message need not be kept in the spool; one that was not read back will not be, or is passed over."""
        self.spent.append(sequence)
        if is_unread:
            self.unread -= 1
            self._passed.add(sequence)
