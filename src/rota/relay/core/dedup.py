"""Dedup: which of the replicas' copies of a message goes out.

A message is known by a 128-bit id, made of its kind, its resource, and its key or else its payload. The first copy
reserves the id with a value of the caller's; later copies find that value, and the caller gives them the first one's
outcome. `settle` turns a reservation into a memory: the message is safe, or was rejected for good. `give_back` drops
it: the message went elsewhere, and the next copy counts as the first.

A memory lasts `span` seconds from when it was settled, and longer if some sender may still hold a copy: the caller says
how far back that goes. Memories lie in buckets of a quarter of the span, and a whole bucket is forgotten at once. So a
memory may last a quarter longer than need be, and forgetting costs nothing per message.

A message without a key is known by its payload, and a replica may well send an equal one later. Within the span that
counts as a copy. A memory that lasts longer, for a sender that may hold a copy, is for copies of other replicas only:
what one replica alone has sent, the same replica sends anew, and so does any of two that have both sent it.

An id's value in a bucket is a `Mark`, shared by all messages of a resource that a replica was the first to send. That
keeps a memory at the size of its id and its place in a dict. The price: what one resource has in the window can only be
found by looking at everything, which is done for all resources that move at once.

Time arrives as an argument; nothing here reads a clock.
"""

from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from rota.model.errors import Invalid
from rota.model.ids import Instant

ID_SIZE = 16
SPAN = 30.0
"""Seconds for which a message is remembered."""

BUCKETS = 4
"""Parts that the span is remembered in."""

MOST = 4_000_000
"""Memories at most; beyond that the oldest are forgotten early, and counted."""

R = TypeVar("R")


class Ids:
    """Names the messages of one resource.

    BLAKE2b rather than a faster hash, because strangers choose payloads (chat messages), and an attacker who finds two
    payloads with one id can suppress one of them. Without a key, so that every node gives the same id, and a consumer
    can check it.
    """

    def __init__(self, kind: str, resource: str) -> None:
        # Lengths stand before the names, so that no two resources begin alike; hashing goes on from here each time.
        names = b"".join(len(name).to_bytes(4, "big") + name for name in (kind.encode(), resource.encode()))
        self._keyed = blake2b(names + b"k", digest_size=ID_SIZE)
        self._plain = blake2b(names + b"p", digest_size=ID_SIZE)

    def of(self, key: str | None, payload: bytes) -> bytes:
        """The id of a message with that key, or without one and with that payload."""
        if key is None:
            hashing = self._plain.copy()
            hashing.update(payload)
        else:
            hashing = self._keyed.copy()
            hashing.update(key.encode())
        return hashing.digest()


class Tally:
    """What was counted of one resource's messages."""

    __slots__ = ("_lone", "_seconded", "duplicates", "kind", "last", "resource", "seen_by_one", "unique")

    def __init__(self, kind: str, resource: str) -> None:
        self.kind, self.resource = kind, resource
        self.unique = 0
        self.duplicates = 0
        """Copies beyond the first, including those of the same replica, which sends again what it has no ack for."""

        self.seen_by_one = 0
        """Messages that only one replica had sent when they were forgotten. Where there should be more than one, this
        shows how much a lone replica would have lost."""

        self.last: Instant | None = None
        """When the last copy came."""

        self._lone: dict[int, Mark] = {}
        self._seconded = Mark(self, None)

    def mark(self, slot: int | None) -> "Mark":
        """The mark of messages that this replica sent and no other; with None, of those that two have sent."""
        if slot is None:
            return self._seconded
        mark = self._lone.get(slot)
        if mark is None:
            mark = self._lone[slot] = Mark(self, slot)
        return mark


class Mark:
    """Whose a remembered message is, and which replica alone has sent it."""

    __slots__ = ("slot", "tally")

    def __init__(self, tally: Tally, slot: int | None) -> None:
        self.tally, self.slot = tally, slot


class Excerpt(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Remembered messages of one resource that are alike, as they are shipped to another relay."""

    kind: str
    resource: str
    age: float
    """Seconds since they were settled; a little less than the truth, so that none is forgotten early."""

    slot: int | None
    """The one replica that sent them; None if two did."""

    ids: bytes
    """16 bytes each."""


class _Bucket:
    """What was settled in one stretch of time."""

    __slots__ = ("lone", "marks", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.marks: dict[bytes, Mark] = {}
        self.lone: dict[Tally, int] = {}
        """How many of a resource's messages only one replica has sent."""


class DedupWindow(Generic[R]):
    """The messages that are on their way or were not long ago, and their tallies."""

    def __init__(self, now: Instant, *, span: float = SPAN, most: int = MOST) -> None:
        if span <= 0 or most < 1:
            raise Invalid(f"a window of {span} s and {most} messages remembers nothing; both must be above zero")
        self.reserved: dict[bytes, R] = {}
        """Id → what the first copy left, while it is on its way."""

        self.tallies: dict[tuple[str, str], Tally] = {}
        self.cut_short = 0
        """Memories that were forgotten early, because there were too many."""

        self.fresh: list[tuple[bytes, Mark]] | None = None
        """What was settled since the caller last took it, to be written to disk; None if it is not written anywhere."""

        self._span, self._width, self._most = span, span / BUCKETS, most
        self._settled = 0
        self._old = now - span
        """Memories that were settled before then last only for copies that a host may hold."""

        self._newest = _Bucket(now + self._width)
        self._buckets: deque[_Bucket] = deque([self._newest])
        """Newest first: a second copy mostly comes soon."""

    def __len__(self) -> int:
        return self._settled + len(self.reserved)

    @property
    def remembered(self) -> int:
        """How many messages are remembered that are not on their way any more."""
        return self._settled

    def tally(self, kind: str, resource: str) -> Tally:
        """The tally of a resource, begun if need be."""
        tally = self.tallies.get((kind, resource))
        if tally is None:
            tally = self.tallies[kind, resource] = Tally(kind, resource)
        return tally

    def is_known(self, message_id: bytes, slot: int, *, has_key: bool = True) -> bool:
        """Was this message settled within the window? Also records that `slot` has sent it."""
        for bucket in self._buckets:
            mark = bucket.marks.get(message_id)
            if mark is not None and (has_key or bucket.until > self._old or mark.slot not in (None, slot)):
                if mark.slot is not None and mark.slot != slot:
                    bucket.marks[message_id] = mark.tally.mark(None)
                    bucket.lone[mark.tally] -= 1
                return True
        return False

    def settle(self, message_id: bytes, tally: Tally, slot: int | None) -> None:
        """The message is safe or rejected: remember it. `slot` alone has sent it; None if others have too."""
        self.reserved.pop(message_id, None)
        newest = self._newest
        if message_id in newest.marks:
            return
        self._settled += 1
        mark = newest.marks[message_id] = tally.mark(slot)
        if self.fresh is not None:
            self.fresh.append((message_id, mark))
        if slot is not None:
            newest.lone[tally] = newest.lone.get(tally, 0) + 1

    def give_back(self, message_id: bytes) -> None:
        """The message goes elsewhere: drop its reservation."""
        self.reserved.pop(message_id, None)

    def advance(self, now: Instant, oldest: Instant | None = None) -> None:
        """Time has passed; `oldest`: since when some sender may hold a message that it has no ack for."""
        if self._newest.until <= now:
            self._newest.until = now  # the clock may have jumped since the last message was settled
            self._newest = _Bucket(now + self._width)
            self._buckets.appendleft(self._newest)
        self._old = now - self._span
        keep = self._old if oldest is None else min(self._old, oldest)
        while len(self._buckets) > 1 and self._buckets[-1].until <= keep:
            self._forget()
        while len(self._buckets) > 1 and self._settled > self._most:
            self.cut_short += self._forget()

    def export(self, moves: Callable[[Tally], bool], now: Instant) -> list[Excerpt]:
        """What is remembered of the resources that move, oldest first. It stays remembered here too."""
        excerpts = []
        for bucket in reversed(self._buckets):
            age = max(0.0, now - bucket.until)
            gathered: dict[Mark, list[bytes]] = {}
            leaves: dict[Tally, bool] = {}
            for message_id, mark in bucket.marks.items():
                tally = mark.tally
                if tally not in leaves:
                    leaves[tally] = moves(tally)
                if leaves[tally]:
                    gathered.setdefault(mark, []).append(message_id)
            for mark, ids in gathered.items():
                kind, resource = mark.tally.kind, mark.tally.resource
                excerpts.append(Excerpt(kind=kind, resource=resource, age=age, slot=mark.slot, ids=b"".join(ids)))
        return excerpts

    def take_in(self, excerpts: Iterable[Excerpt], now: Instant) -> None:
        """Remember what another relay shipped, as long as it would have."""
        for excerpt in excerpts:
            tally = self.tally(excerpt.kind, excerpt.resource)
            bucket = self._bucket(now - excerpt.age)
            for start in range(0, len(excerpt.ids), ID_SIZE):
                message_id = excerpt.ids[start : start + ID_SIZE]
                if message_id in self.reserved or any(message_id in each.marks for each in self._buckets):
                    continue
                mark = bucket.marks[message_id] = tally.mark(excerpt.slot)
                self._settled += 1
                if self.fresh is not None:
                    self.fresh.append((message_id, mark))
                if excerpt.slot is not None:
                    bucket.lone[tally] = bucket.lone.get(tally, 0) + 1

    def reach(self, now: Instant) -> float:
        """Seconds since the oldest that is remembered may have been settled."""
        return now - (self._buckets[-1].until - self._width)

    def drop_tally(self, kind: str, resource: str) -> None:
        """The resource is gone, and its figures with it; what is remembered of it goes when its time comes."""
        self.tallies.pop((kind, resource), None)

    def _bucket(self, settled: float) -> _Bucket:
        """The oldest bucket that is kept long enough for something settled at that time."""
        return next((bucket for bucket in reversed(self._buckets) if bucket.until >= settled), self._newest)

    def _forget(self) -> int:
        """Let the oldest bucket go; how many messages were in it."""
        bucket = self._buckets.pop()
        self._settled -= len(bucket.marks)
        for tally, count in bucket.lone.items():
            tally.seen_by_one += count
        return len(bucket.marks)
