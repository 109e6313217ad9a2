"""Events in the store: written on the side, read back, followed.

`EventLog.record` puts an event into a bounded buffer and returns; `run` writes the buffer into the store, at most one
commit of 100 a second. What happens in the fleet never waits for its record, and an outage of the store costs nothing
until the buffer is full. Then the newest are dropped, counted by reason, and reported by an event afterwards.

A commit whose outcome is not known is tried again under the same keys, which are expected to be absent: if they are
there, it had happened. So no event is written twice.

`fleet.events.retention` clears old ones away.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from random import random

import msgspec

from rota.kit.record import replace
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, event, keys
from rota.model.errors import Compacted, Conflict, Denied, Unavailable, Unknown
from rota.model.event import Event, Value
from rota.model.ids import Key, NodeId, Revision
from rota.store.follow import RETRY
from rota.store.port import Absent, Entry, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

BUFFER = 1000
BATCH = 100
PACE = 1.0
"""Seconds from one commit to the next."""

LAST_WORDS = 2.0
"""Seconds a log that is stopped may take to write what it still has."""

LARGEST = 10_000
"""Bytes of one event: a hundred of them fit into a commit."""

FULL = "the buffer was full"
LARGE = "it was too large"
PAGE = 1000
FIRST_LOOK = timedelta(minutes=10)
LAG = timedelta(milliseconds=100), timedelta(seconds=10)
"""Shortest and longest wait after the store could not be written."""


class EventLog:
    """The events one node records. For one event loop; other threads must not call it."""

    def __init__(self, store: Store, node: NodeId, clock: Clock, jitter: Callable[[], float] = random) -> None:
        self._store, self._node, self._clock, self._jitter = store, node, clock, jitter
        self._waiting: deque[Event] = deque()
        self._sending: list[Event] = []
        self._news = asyncio.Event()
        self._number = 0
        self._dropped: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many events were dropped, by reason."""
        return dict(self._dropped)

    @property
    def unwritten(self) -> int:
        """How many events are not confirmed to be in the store yet."""
        return len(self._waiting) + len(self._sending)

    def record(self, kind: str, subject: str, *, text: str = "", **fields: Value) -> None:
        """Note that something happened. Returns at once, whatever the store does; Invalid for an unknown kind."""
        happened = self._make(kind, subject, fields, text)
        if len(codec.encode(happened)) > LARGEST:
            self._drop(LARGE)
        elif self.unwritten >= BUFFER:
            self._drop(FULL)
        else:
            self._waiting.append(happened)
        self._news.set()

    async def run(self) -> None:
        """Write what is recorded, until cancelled; then the rest is tried for `LAST_WRITE` seconds more."""
        try:
            while True:
                await self._news.wait()
                await self._write_a_batch()
                await asyncio.sleep(PACE)
        finally:
            await self._end()

    async def flush(self) -> None:
        """Write all there is, however long the store takes."""
        while self._news.is_set():
            await self._write_a_batch()

    async def _end(self) -> None:
        # Not `asyncio.timeout`: the first releases of Python 3.11 take our being cancelled for theirs, and say nothing.
        writing = asyncio.ensure_future(self.flush())
        try:
            await asyncio.wait([writing], timeout=LAST_WORDS)
            if writing.done():
                writing.result()  # a mistake in there is not to be swallowed
            else:
                log.warning("events not written", extra={"node": self._node, "events": self.unwritten})
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def _make(self, kind: str, subject: str, fields: Mapping[str, Value], text: str = "") -> Event:
        self._number += 1
        at = self._clock.wall()
        return event.make(kind, subject, fields, node=self._node, at=at, number=self._number, text=text)

    def _drop(self, why: str) -> None:
        self._dropped[why] += 1
        self._untold[why] += 1

    async def _write_a_batch(self) -> None:
        """Write the oldest events; returns when they are in the store, and not before."""
        self._take()
        waits, logged = delays(*LAG, self._jitter), ""
        while self._sending:
            try:
                await self._try()
            except (Unavailable, Unknown, Denied) as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("events not written yet", extra={"node": self._node, "why": logged})
                await asyncio.sleep(next(waits).total_seconds())
        if not self._waiting and not self._untold:
            self._news.clear()

    def _take(self) -> None:
        """Fill a batch, beginning with what was dropped. One that was not written yet stays as it is."""
        if self._sending:
            return
        while self._untold:
            why, count = self._untold.popitem()
            self._sending.append(self._make("events.dropped", self._node, {"count": count, "why": why}))
        while self._waiting and len(self._sending) < BATCH:
            self._sending.append(self._waiting.popleft())

    async def _try(self) -> None:
        """One commit of the batch; if some of its keys were taken, that is settled and the rest remains."""
        puts = [Put(keys.event(happened.id), codec.encode(happened)) for happened in self._sending]
        try:
            await self._store.commit(*puts, expect=[Absent(put.key) for put in puts])
        except Conflict:
            await self._settle(puts)
        else:
            self._sending = []

    async def _settle(self, puts: list[Put]) -> None:
        """Forget the events that are in the store already; give the others whose key is taken another."""
        left: list[Event] = []
        for happened, put in zip(self._sending, puts, strict=True):
            entry = await self._store.get(put.key)
            if entry is None:
                left.append(happened)
            elif entry.value != put.value:
                self._number += 1
                left.append(replace(happened, id=event.identify(happened.at, self._number, self._node)))
        self._sending = left


def event_put(kind: str, subject: str, fields: Mapping[str, Value], *, node: NodeId, at: datetime, number: int) -> Put:
    """The write of an event that must happen together with others, and not on the side.

    A node's log counts its events from 1; `number` should lie far from there, and the key be expected to be absent.
    """
    told = event.make(kind, subject, fields, node=node, at=at, number=number)
    return Put(keys.event(told.id), codec.encode(told))


class EventSlice(msgspec.Struct, frozen=True):
    """Events, the oldest first, and the revision they were read at: `follow` goes on from there."""

    events: tuple[Event, ...]
    revision: Revision
    next: str | None = None
    """What `before` must be to read those before them; None: there are none."""


async def read(
    store: Store,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    kinds: Collection[str] = (),
    node: str | None = None,
    limit: int | None = None,
    before: str | None = None,
) -> EventSlice:
    """The events of a time; with a limit the newest of them. `before` is the id of an event: only those before it.

    A store reads forwards only. To find the newest few among many, this looks at the last minutes first, and then at
    eight times as much, until it has enough.
    """
    while True:
        try:
            revision = await store.revision()
            found = await _newest(store, revision, _Wanted(since, until, kinds, node, limit, before))
        except Compacted:  # the store is compacted faster than the events are read
            continue
        has_more = bool(limit) and len(found) == limit
        return EventSlice(tuple(found), revision, found[0].id if has_more else None)


async def follow(
    store: Store,
    after: Revision,
    *,
    kinds: Collection[str] = (),
    node: str | None = None,
    jitter: Callable[[], float] = random,
) -> AsyncGenerator[Event, None]:
    """Every event written past a revision, once, in the order they were written, until cancelled."""
    async with aclosing(follow_batches(store, after, kinds=kinds, node=node, jitter=jitter)) as batches:
        async for _, batch in batches:
            for happened in batch:
                yield happened


async def follow_batches(
    store: Store,
    after: Revision,
    *,
    kinds: Collection[str] = (),
    node: str | None = None,
    jitter: Callable[[], float] = random,
) -> AsyncGenerator[tuple[Revision, tuple[Event, ...]], None]:
    """The events of each commit past a revision, and the revision to go on from.

    An outage only delays it. If the history it needs is compacted, it reads the events anew and goes on with those it
    has not yielded yet.
    """
    waits = delays(*RETRY, jitter)
    while True:
        try:
            async with aclosing(store.watch(keys.EVENTS, after)) as commits:
                async for commit in commits:
                    written = [understood(Event, change.entry, log) for change in commit.changes]
                    after = commit.revision
                    if batch := _matching(written, kinds, node):
                        yield after, batch
                    waits = delays(*RETRY, jitter)
        except Compacted:
            missed, after = await written_past(store, after)
            if batch := _matching([happened for _, happened in missed], kinds, node):
                yield after, batch
        except Unavailable as error:
            log.debug("following events again", extra={"why": str(error)})
            await asyncio.sleep(next(waits).total_seconds())


def _matching(written: Iterable[Event | None], kinds: Collection[str], node: str | None) -> tuple[Event, ...]:
    return tuple(happened for happened in written if happened and event.matches(happened, kinds, node))


class _Wanted(msgspec.Struct, frozen=True):
    """The filters of one `read`."""

    since: datetime | None
    until: datetime | None
    kinds: Collection[str]
    node: str | None
    limit: int | None
    before: str | None = None

    @property
    def end(self) -> Key | None:
        """The key at which the wanted range ends; None: it has no end."""
        ends = [keys.event(event.moment(self.until))] if self.until else []
        return min([*ends, *([keys.event(self.before)] if self.before else [])], default=None)

    def ended(self, now: datetime) -> datetime:
        """The time at which the wanted range ends at the latest."""
        last = event.time_of(self.before) if self.before else None
        times = [each for each in (self.until, last + timedelta(milliseconds=1) if last else None) if each]
        return min(times, default=now)


async def _newest(store: Store, revision: Revision, wanted: _Wanted) -> deque[Event]:
    """The events that are wanted, found without reading all of them if they are few."""
    oldest = wanted.since or await _oldest(store, revision)
    if wanted.limit is not None and oldest is not None:
        end, span = wanted.ended(await store.now()), FIRST_LOOK
        while span < end - oldest:
            found = await _from(store, revision, end - span, wanted)
            if len(found) == wanted.limit:
                return found
            span *= 8
    return await _from(store, revision, oldest, wanted)


async def _oldest(store: Store, revision: Revision) -> datetime | None:
    """The time of the oldest event, or None if there is none."""
    listing = await store.scan(keys.EVENTS, limit=1, at=revision)
    return next((event.time_of(entry.key.removeprefix(keys.EVENTS)) for entry in listing.entries), None)


async def _from(store: Store, revision: Revision, start: datetime | None, wanted: _Wanted) -> deque[Event]:
    """The events from `start` on that are wanted; the newest of them if there are more than the limit."""
    found: deque[Event] = deque(maxlen=wanted.limit)
    end = wanted.end
    async with aclosing(_entries(store, keys.event(event.moment(start)) if start else None, revision)) as entries:
        async for entry in entries:
            if end is not None and entry.key >= end:
                break
            if (happened := understood(Event, entry, log)) and event.matches(happened, wanted.kinds, wanted.node):
                found.append(happened)
    return found


async def written_past(store: Store, after: Revision) -> tuple[list[tuple[Revision, Event]], Revision]:
    """The events that were written after a revision and are still there, each with its own, and the present one."""
    present = await store.revision()
    new: list[Entry] = []
    async with aclosing(_entries(store, None, present)) as entries:
        async for entry in entries:
            if entry.created > after:
                new.append(entry)
    new.sort(key=lambda entry: (entry.created, entry.key))
    return [(entry.created, happened) for entry in new if (happened := understood(Event, entry, log))], present


async def _entries(store: Store, start: Key | None, at: Revision) -> AsyncGenerator[Entry, None]:
    """The entries of all events from a key on, page by page, as they were at a revision."""
    while True:
        listing = await store.scan(keys.EVENTS, after=start, limit=PAGE, at=at)
        for entry in listing.entries:
            yield entry
        if not listing.more:
            return
        start = listing.entries[-1].key
