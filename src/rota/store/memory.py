"""The store in memory: complete, for tests, the tutorial and the simulator.

`memory://name` opens the same universe as every other `memory://name` of this process, for as long as one of them is
open; `memory://` opens one of its own. A `Universe` is what a server would be, a `MemoryStore` what a client would
be: they live in one event loop, and that is the only thing this store cannot do.

The universe runs on the time of its event loop. Its timers run in the context it was created in, not in its callers':
in the simulator a lease must end even if the context of its holder is frozen.
"""

import asyncio
import contextvars
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from rota.kit.time.clock import Clock
from rota.model.errors import Compacted, Conflict, Invalid, LeaseLost, Unavailable
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import rules
from rota.store.port import At, Change, Commit, Delete, Entry, Expect, Lease, Put, ScanResult, Store, Write
from rota.store.url import Options, StoreUrl

_universes: WeakValueDictionary[str, "Universe"] = WeakValueDictionary()


async def open(url: StoreUrl, clock: Clock, *, create: bool) -> Store:
    """A client of the universe the URL names."""
    Options(url).done()
    if url.path or len(url.hosts) > 1:
        raise Invalid(f"store {url}: write memory:// or memory://name")
    name = url.hosts[0] if url.hosts else ""
    universe = _universes.get(name) if name else None
    if universe is None or universe.loop is not asyncio.get_running_loop():  # that of an earlier run may linger
        if not create:
            raise rules.nothing_there(url)
        universe = Universe(clock)
        if name:
            _universes[name] = universe
    return MemoryStore(universe, clock)


class _Step(msgspec.Struct, frozen=True):
    """One commit of the history: its changes, and what stood there before."""

    commit: Commit
    before: dict[Key, Entry | None]
    roots: set[Key]
    """The first words of its keys: a quick test that rules a commit out for most watches."""


class _Granted:
    """The server's side of a lease."""

    def __init__(self, ttl: timedelta) -> None:
        self.ttl = ttl
        self.keys: set[Key] = set()
        self.expiry: asyncio.TimerHandle | None = None


class Universe:
    """The server: state, history, leases. Every method is one atomic step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.revision = Revision(0)
        self._compacted = Revision(0)
        self._entries: dict[Key, Entry] = {}
        self._order: list[Key] | None = None
        """The keys, sorted when `scan` needs them: writing a million keys is faster than inserting each in order."""

        self._history: list[_Step] = []
        self._leases: dict[LeaseId, _Granted] = {}
        self._lease_numbers = count(1)
        self._waiting: dict[Key, dict[asyncio.Future[Revision], None]] = {}
        """The watches that wait for commits below a prefix. Many wait for the same one, so each prefix is compared
        once."""

        self.loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    def get(self, key: Key) -> Entry | None:
        """The entry now."""
        return self._entries.get(key)

    def scan(self, prefix: Key, after: Key | None, limit: int | None, at: Revision | None) -> ScanResult:
        """One page of the entries, as they were at a revision."""
        revision = self.revision if at is None else at
        if revision > self.revision:
            raise Invalid(f"revision {revision} is in the future; the newest is {self.revision}")
        entries = self._at(revision) if revision < self.revision else self._entries
        order = self._sorted() if entries is self._entries else sorted(entries)
        found = []
        for place in range(bisect_left(order, max(prefix, after or prefix)), len(order)):
            key = order[place]
            if not key.startswith(prefix):
                break
            if key != after:
                found.append(entries[key])
            if limit is not None and len(found) > limit:
                return ScanResult(tuple(found[:limit]), revision, more=True)
        return ScanResult(tuple(found), revision)

    def commit(self, writes: Iterable[Write], expect: Iterable[Expect]) -> Revision:
        """All of the writes, or Conflict and nothing."""
        stale = [expectation.key for expectation in expect if not self._holds(expectation)]
        if stale:
            raise Conflict(f"{', '.join(stale)}: changed since you read it", stale)
        after: dict[Key, Entry | None] = {}
        revision = Revision(self.revision + 1)
        for write in writes:
            match write:
                case Put(key, value, lease):
                    if lease is not None and lease not in self._leases:
                        raise LeaseLost(lease)
                    old = self._entries.get(key)
                    after[key] = Entry(key, value, old.created if old else revision, revision, lease)
                case Delete(key):
                    if key in self._entries:
                        after[key] = None
        if after:
            self._apply(revision, after)
        return self.revision

    def since(self, prefix: Key, after: Revision) -> list[Commit]:
        """The commits past `after` that touch the prefix."""
        if after < self._compacted:
            raise Compacted(after, self._compacted)
        found, root = [], _root(prefix)
        for step in self._history[self._index(after) :]:
            if root and root not in step.roots:
                continue
            changes = [change for change in step.commit.changes if change.key.startswith(prefix)]
            if changes:
                found.append(Commit(step.commit.revision, tuple(changes)))
        return found

    async def news(self, prefix: Key, after: Revision) -> Revision:
        """Wait until a commit past `after` touches the prefix; returns the newest revision before it."""
        if found := self.since(prefix, after):
            return Revision(found[0].revision - 1)
        waiter: asyncio.Future[Revision] = self.loop.create_future()
        self._waiting.setdefault(prefix, {})[waiter] = None
        try:
            return await waiter
        finally:
            self._waiting.get(prefix, {}).pop(waiter, None)

    def grant(self, ttl: timedelta) -> LeaseId:
        """A new lease."""
        lease = LeaseId(f"m{next(self._lease_numbers)}")
        self._leases[lease] = _Granted(ttl)
        self.renew(lease)
        return lease

    def renew(self, lease: LeaseId) -> None:
        """Let the ttl run anew."""
        granted = self._leases.get(lease)
        if granted is None:
            raise LeaseLost(lease)
        if granted.expiry is not None:
            granted.expiry.cancel()
        end = self.loop.time() + granted.ttl.total_seconds()
        granted.expiry = self.loop.call_at(end, self.revoke, lease, context=self._context)

    def revoke(self, lease: LeaseId) -> None:
        """End a lease: its keys go in one commit."""
        granted = self._leases.pop(lease, None)
        if granted is None:
            return
        if granted.expiry is not None:
            granted.expiry.cancel()
        if granted.keys:
            self._apply(Revision(self.revision + 1), dict.fromkeys(sorted(granted.keys)))

    def compact(self, before: Revision) -> None:
        """Forget the steps before a revision."""
        before = min(before, self.revision)
        if before > self._compacted:
            del self._history[: self._index(before)]
            self._compacted = before

    def _holds(self, expectation: Expect) -> bool:
        entry = self._entries.get(expectation.key)
        if isinstance(expectation, At):
            return entry is not None and entry.modified == expectation.revision
        return entry is None

    def _apply(self, revision: Revision, after: dict[Key, Entry | None]) -> None:
        before = {key: self._entries.get(key) for key in after}
        for key, entry in after.items():
            self._place(key, before[key], entry)
        changes = tuple(Change(key, after[key]) for key in sorted(after))
        self._history.append(_Step(Commit(revision, changes), before, set(map(_root, after))))
        self.revision = revision
        self._wake(changes, Revision(revision - 1))

    def _wake(self, changes: Iterable[Change], before: Revision) -> None:
        """Wake the watches of prefixes that these changes touch."""
        for prefix in _touched(self._waiting, [change.key for change in changes]):
            for waiter in self._waiting.pop(prefix):
                if not waiter.done():
                    waiter.set_result(before)

    def _place(self, key: Key, old: Entry | None, new: Entry | None) -> None:
        if old is not None and old.lease in self._leases:
            self._leases[old.lease].keys.discard(key)
        if new is None:
            del self._entries[key]
            self._order = None
            return
        if old is None:
            self._order = None
        self._entries[key] = new
        if new.lease is not None:
            self._leases[new.lease].keys.add(key)

    def _sorted(self) -> list[Key]:
        if self._order is None:
            self._order = sorted(self._entries)
        return self._order

    def _at(self, revision: Revision) -> dict[Key, Entry]:
        """The state at an earlier revision: the present one with the later steps undone."""
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
        entries: dict[Key, Entry | None] = dict(self._entries)
        for step in reversed(self._history[self._index(revision) :]):
            entries.update(step.before)
        return {key: entry for key, entry in entries.items() if entry is not None}

    def _index(self, revision: Revision) -> int:
        """Where the history goes on past `revision`: each step is one revision after the one before."""
        return max(0, revision - self._compacted)


def _root(key: Key) -> Key:
    """The first word of a key, or of a prefix that has it whole; else nothing."""
    return key[: key.find("/", 1) + 1]


def _touched(prefixes: Iterable[Key], written: list[Key]) -> Iterable[Key]:
    """The first words of the keys written, in their order and each once."""
    if len(written) == 1:  # so it is with most commits
        return [each for each in prefixes if written[0].startswith(each)]
    # A dict, for it keeps the order and names each once, and needs no generator for every prefix.
    return {each: None for each in prefixes for key in written if key.startswith(each)}


class MemoryStore:
    """A client of a universe."""

    def __init__(self, universe: Universe, clock: Clock) -> None:
        self._clock = clock
        self._universe: Universe | None = universe

    async def get(self, key: Key) -> Entry | None:
        rules.check_key(key)
        return self._open.get(key)

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        rules.check_scan(prefix, after, limit)
        return self._open.scan(prefix, after, limit, at)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        expectations = rules.check_commit(writes, expect)
        return self._open.commit(writes, expectations)

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        rules.check_prefix(prefix)
        while True:
            universe = self._open
            reached = universe.revision
            for commit in universe.since(prefix, after):
                yield commit
            after = await universe.news(prefix, max(after, reached))

    async def grant(self, ttl: timedelta) -> Lease:
        rules.check_ttl(ttl)
        asked = self._clock.monotonic()
        return Lease(self._open.grant(ttl), ttl, Instant(asked + ttl.total_seconds()))

    async def renew(self, lease: Lease) -> Instant:
        asked = self._clock.monotonic()
        self._open.renew(lease.id)
        return Instant(asked + lease.ttl.total_seconds())

    async def revoke(self, lease: LeaseId) -> None:
        self._open.revoke(lease)

    async def now(self) -> datetime:
        return self._open.clock.wall()

    async def revision(self) -> Revision:
        return self._open.revision

    async def compact(self, before: Revision) -> None:
        self._open.compact(before)

    async def close(self) -> None:
        self._universe = None

    @property
    def _open(self) -> Universe:
        if self._universe is None:
            raise Unavailable("store memory://: closed; open it again")
        return self._universe
