"""The store over SQL: the log algorithm, run by any driver.

`LogStore` runs three things beside the operations: watches read the log and then wait for the pulse; the pulse is
raised by commits of this process, by notifications from other processes, and by a poll, because notifications get lost;
the sweep ends leases (`store.sql.sweep` decides which).
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from random import random
from typing import TypeVar

from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import Compacted, LeaseLost, Rewound, Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import rules
from rota.store.port import Commit, Entry, Expect, Lease, ScanResult, Store, Write
from rota.store.sql import transactions
from rota.store.sql.group import GroupCommitter
from rota.store.sql.pace import until_next_poll
from rota.store.sql.steps import Driver, Row, Steps
from rota.store.sql.sweep import LeaseObserver
from rota.store.sql.tail import Tail

log = logging.getLogger(__name__)

T = TypeVar("T")

PACE = 0.01
"""Seconds from one reading of the log for all watches to the next: a single commit is read at once, those of a burst
together."""

SCAN = 5000
"""Entries that a scan without a limit reads at once."""

FEW = 2
"""Up to this many watches of a process each read for themselves: they may need little of the log."""


class Pulse:
    """Beats when the log may have grown; counted, so that no beat is missed between reading and waiting.

    A beat is a hint without content: the log has the facts.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting: dict[asyncio.Future[None], Revision] = {}
        """The waiting watches, and the revision up to which each has read."""

    def beat(self) -> None:
        """Wake all that wait."""
        self.count += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def past(self, count: int, reached: Revision) -> None:
        """Wait for a beat after the given one, having read up to a revision."""
        while self.count <= count:
            future = asyncio.get_running_loop().create_future()
            self._waiting[future] = reached
            try:
                await future
            finally:
                self._waiting.pop(future, None)

    @property
    def is_awaited(self) -> bool:
        """Does any watch wait?"""
        return bool(self._waiting)

    def is_missed(self, newest: Revision) -> bool:
        """Does a watch wait that has not read up to this revision? With several database servers it may have seen
        less."""
        return any(reached < newest for reached in self._waiting.values())


async def open_log(driver: Driver, clock: Clock, *, create: bool) -> Store:
    """The store a driver leads to, reached once and with the schema this code knows."""
    try:
        await driver.prepare(create=create)
    except BaseException:
        await driver.close()
        raise
    store = LogStore(driver, clock)
    store.start()
    return store


class LogStore:
    """A store on a SQL database."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._pulse = Pulse()
        self._seen = Revision(0)
        self._rewound: Rewound | None = None
        self._cleared = Revision(0)  # a process that has just started reads the whole log once
        self._committer = GroupCommitter(self._commit)
        self._tail = Tail(partial(self._read_past, "/"), lambda: self._pulse.count)
        self._watching = 0
        self._own: set[LeaseId] = set()
        self._leases = 0
        self._chores: list[asyncio.Task[None]] = []

    @property
    def driver(self) -> Driver:
        """What runs its steps; the logs of runs are kept by the same."""
        return self._driver

    def start(self) -> None:
        """Begin to listen, poll and sweep."""
        self._driver.listen(self._pulse.beat)
        self._chores = [
            asyncio.create_task(self._poll(), name="store poll"),
            asyncio.create_task(self._sweep(), name="store sweep"),
            asyncio.create_task(self._feed(), name="store tail"),
        ]

    async def stop_chores(self) -> None:
        """Stop the background tasks: another store of this process listens, polls and sweeps."""
        chores, self._chores = self._chores, []
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)

    async def get(self, key: Key) -> Entry | None:
        rules.check_key(key)
        return await self._read(partial(transactions.get, key), alone=True)

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        rules.check_scan(prefix, after, limit)
        if limit is not None:
            return await self._scan(prefix, after, limit, at)
        while True:
            try:
                return await self._scan_all(prefix, after, at)
            except Compacted:
                if at is not None:
                    raise

    async def _scan_all(self, prefix: Key, after: Key | None, at: Revision | None) -> ScanResult:
        """All entries, page by page at one revision: one query for all of them may take longer than a query may."""
        entries: list[Entry] = []
        while True:
            page = await self._scan(prefix, after, SCAN, at)
            entries += page.entries
            if not page.more:
                return ScanResult(tuple(entries), page.revision, more=False)
            after, at = entries[-1].key, page.revision

    async def _scan(self, prefix: Key, after: Key | None, limit: int, at: Revision | None) -> ScanResult:
        listing = await self._read(partial(transactions.scan, prefix, after, limit, at))
        self._see(listing.revision)
        return listing

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        request = transactions.CommitRequest(writes, rules.check_commit(writes, expect))
        return await self._committer.commit(request)

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        rules.check_prefix(prefix)
        self._watching += 1
        try:
            while True:
                beat = self._pulse.count
                page = await self._new_below(prefix, after, beat)
                self._see(page.reached)
                for commit in page.commits:
                    yield commit
                after = page.reached
                if page.is_last:
                    after = await self._rest(prefix, after, beat)
        finally:
            self._watching -= 1

    async def _rest(self, prefix: Key, after: Revision, beat: int) -> Revision:
        """Wait until there may be something new for a watch; returns the revision up to which there is certainly
        nothing."""
        if self._watching > FEW:
            return await self._tail.rest(prefix, after)
        await self._pulse.past(beat, after)
        return after

    async def _new_below(self, prefix: Key, after: Revision, beat: int) -> transactions.CommitPage:
        """The next commits of a watch: from what was read for all, or read for this one."""
        if self._watching > FEW and (page := await self._tail.past(after, prefix, beat)) is not None:
            return page
        page = await persistently(partial(self._read_past, prefix, after))
        if page.is_last:
            self._tail.begin(page.reached)
        return page

    async def _read_past(self, prefix: Key, after: Revision) -> transactions.CommitPage:
        return await self._read(partial(transactions.tail, prefix, after), alone=True)

    async def grant(self, ttl: timedelta) -> Lease:
        rules.check_ttl(ttl)
        lease = LeaseId(secrets.token_hex(8))
        asked = self._clock.monotonic()
        try:
            await self._write(partial(transactions.grant, lease, round(ttl / timedelta(milliseconds=1))))
        except Unknown as error:
            # If it was granted after all it expires by itself, as no process knows its id.
            raise Unavailable(str(error)) from error
        self._own.add(lease)
        return Lease(lease, ttl, Instant(asked + ttl.total_seconds()))

    async def renew(self, lease: Lease) -> Instant:
        asked = self._clock.monotonic()
        try:
            await self._write(partial(transactions.renew, lease.id))
        except LeaseLost:
            self._own.discard(lease.id)
            raise
        return Instant(asked + lease.ttl.total_seconds())

    async def revoke(self, lease: LeaseId) -> None:
        self._own.discard(lease)
        steps = partial(transactions.revoke, lease, self._driver.keys_parameter)
        if await self._write(steps) is not None:
            self._notify()

    async def now(self) -> datetime:
        milliseconds = await self._read(transactions.now, alone=True)
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    async def revision(self) -> Revision:
        newest = await self._read(transactions.counter, alone=True)
        if newest >= self._seen:  # if not, the next commit or watch says what that means
            self._see(newest)
        return newest

    async def compact(self, before: Revision) -> None:
        start = await self._write(partial(transactions.mark_compacted, before))
        # First the values that were replaced, then the deletions: the other way round an old value would reappear.
        for find in (transactions.superseded, transactions.tombstones):
            after = self._cleared
            while after < start:
                until = await self._read(partial(transactions.window_end, after, start), alone=True)
                await self._forget(await self._read(partial(find, after, until), alone=True))
                after = until
        self._cleared = start

    async def _forget(self, rows: Sequence[Row]) -> None:
        for first in range(0, len(rows), transactions.FORGET_AT_ONCE):
            page = rows[first : first + transactions.FORGET_AT_ONCE]
            await self._write(partial(transactions.forget, page))

    async def close(self) -> None:
        await self._committer.close()
        await self.stop_chores()
        await self._driver.close()

    async def _commit(self, requests: Sequence[transactions.CommitRequest]) -> list[transactions.Outcome]:
        steps = partial(transactions.commit, requests, self._seen, self._driver.keys_parameter)
        try:
            made = await self._write(steps)
        except Unknown:  # if it was made after all, the watches should hear of it
            self._notify()
            raise
        self._see(*(outcome for outcome in made.outcomes if isinstance(outcome, int)))
        self._tail.add(made.commits)
        self._notify()
        return made.outcomes

    def _see(self, *revisions: Revision) -> None:
        self._seen = max((self._seen, *revisions))

    async def _read(self, steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
        with self._unless_rewound():
            return await self._driver.read(steps, alone=alone)

    async def _write(self, steps: Callable[[], Steps[T]]) -> T:
        with self._unless_rewound():
            return await self._driver.write(steps)

    @contextmanager
    def _unless_rewound(self) -> Iterator[None]:
        """Raise Rewound once the store was seen to have gone back: it may look intact again later, but must not be
        used."""
        if self._rewound is not None:
            raise Rewound(self._rewound.at, self._rewound.seen)
        try:
            yield
        except Rewound as rewound:
            self._rewound = rewound
            raise

    def _notify(self) -> None:
        self._pulse.beat()
        self._driver.notify()

    async def _poll(self) -> None:
        known, found_nothing = Revision(0), 0
        while True:
            await asyncio.sleep(until_next_poll(self._driver.poll, found_nothing, self._leases))
            if not self._pulse.is_awaited:
                continue
            try:
                newest = await self.revision()
            except Unavailable:
                continue
            except Exception:  # let the watches meet the error: they can raise it to their callers
                newest = Revision(-1)
            # Also if it is less: the watches will find out what that means.
            found_nothing += 1
            if newest != known or self._pulse.is_missed(newest):
                known, found_nothing = newest, 0
                self._pulse.beat()

    async def _feed(self) -> None:
        """Read the end of the log for the waiting watches."""
        while True:
            await self._tail.is_wanted.wait()
            beat, began = self._pulse.count, self._clock.monotonic()
            is_read = await self._tail.go_on(beat)
            await self._pulse.past(beat, self._tail.end)
            if is_read:
                await asyncio.sleep(max(0.0, began + PACE - self._clock.monotonic()))

    async def _sweep(self) -> None:
        observer = LeaseObserver()
        while True:
            await asyncio.sleep(observer.interval)
            try:
                leases = await self._read(transactions.leases, alone=True)
                self._leases = len(leases)
                overdue = observer.look(leases, self._clock.monotonic(), self._own)
                if observer.needs_proof:
                    await self._write(partial(transactions.prove, LeaseId(secrets.token_hex(8))))
                    observer.wrote(self._clock.monotonic())
                for over in overdue:
                    revision = await self._write(partial(transactions.expire, over, self._driver.keys_parameter))
                    if revision is not None:
                        log.info("lease ended", extra={"lease": over.id, "revision": revision})
                        self._notify()
            except (Unavailable, Unknown) as error:
                log.debug("sweep put off", extra={"why": str(error)})
            except Exception:  # without a sweep no lease ends: continue after any error
                log.exception("leases not swept")


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """What a read returns, however long the database stays away."""
    waits = delays(timedelta(milliseconds=50), timedelta(seconds=1), random)
    while True:
        try:
            return await call()
        except Unavailable as error:
            log.debug("read again", extra={"why": str(error)})
        await asyncio.sleep(next(waits).total_seconds())
