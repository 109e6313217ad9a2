"""Sources: the leader has a node query each of them, when the term begins and once in each period.

A query is a record that names the node; the node follows the records and answers with another
(`resources.node.queries`). So the leader may die at any point, and the next one goes on from what the store says. A
node that goes, or gives no answer in time, is replaced by another: by writing a new query, after which nothing that
belongs to the old one is accepted.

What is due is decided by `resources.core.listing`. Here the records are followed, and the queries written.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rota.fleet.leading.term import Term
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Unavailable, Unknown
from rota.model.ids import Key, NodeId, Revision
from rota.model.node import Node, NodeStatus
from rota.resources.core.listing import QuerySource, next_query
from rota.resources.core.records import Cordon, KindRecord, Listing, Query, SyncRequest
from rota.store.port import Absent, At, Commit, Delete, Entry, Expect, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

T = TypeVar("T")

RECORDS: dict[Key, type] = {
    keys.KINDS: KindRecord,
    keys.NODES: Node,
    keys.STATUS: NodeStatus,
    keys.CORDONS: Cordon,
    keys.QUERIES: Query,
    keys.LISTINGS: Listing,
    keys.SYNC: SyncRequest,
}
"""What is followed."""

RETRY = 0.5
"""Seconds to wait for a store that is away, and after a Conflict."""

LONGEST = timedelta(hours=1)
"""The most time between two checks."""


async def query_sources(term: Term, clock: Clock) -> None:
    """Have sources asked until the term ends."""
    began = await _now(term.store)
    since = clock.monotonic()
    while True:
        try:
            view = SourcesView()
            await view.load(term.store)
            await _Asking(term, view, clock, began, since).run()
        except* Compacted:
            log.warning("the view of sources fell behind, reading it anew", extra={"term": term.number})
            await asyncio.sleep(RETRY)


class SourcesView:
    """The records that decide which node queries which source, kept up to date by the watch."""

    def __init__(self) -> None:
        self.revision = Revision(0)
        self._records: dict[Key, dict[str, tuple[Any, Revision]]] = {prefix: {} for prefix in RECORDS}

    async def load(self, store: Store) -> None:
        """Read everything, at one revision; Compacted if that is gone before the end."""
        at: Revision | None = None
        for prefix in RECORDS:
            listing = await store.scan(prefix, at=at)
            at = listing.revision
            for entry in listing.entries:
                self._see(prefix, entry.key, entry)
        assert at is not None
        self.revision = at

    def fold(self, commit: Commit) -> bool:
        """Take in one commit; whether it changed anything here."""
        is_news = False
        for change in commit.changes:
            for prefix in RECORDS:
                if change.key.startswith(prefix):
                    self._see(prefix, change.key, change.entry)
                    is_news = True
        self.revision = commit.revision
        return is_news

    def of(self, prefix: Key, record: type[T], name: str) -> tuple[T, Revision] | None:
        """A record, and when it was written; None if there is none, or none that is understood."""
        found = self._records[prefix].get(name)
        return found if found and isinstance(found[0], record) else None

    def revision_of(self, prefix: Key, name: str) -> Revision | None:
        """When a record was written, understood or not; None if there is none."""
        found = self._records[prefix].get(name)
        return found[1] if found else None

    def kinds(self) -> Iterator[KindRecord]:
        """The kinds that have a source."""
        for record, _ in self._records[keys.KINDS].values():
            if isinstance(record, KindRecord) and record.source_every is not None:
                yield record

    def candidates(self, kind: str) -> dict[NodeId, int]:
        """Nodes that may ask the source of a kind, and how many tasks each has."""
        found = {}
        for name, (node, _) in self._records[keys.NODES].items():
            work = self.of(keys.STATUS, NodeStatus, name)
            is_open = name not in self._records[keys.CORDONS]
            if isinstance(node, Node) and node.role.may_work and is_open and work and kind in work[0].kinds:
                found[node.id] = work[0].tasks_ordered
        return found

    def _see(self, prefix: Key, key: Key, entry: Entry | None) -> None:
        name = key.removeprefix(prefix)
        if entry is None:
            self._records[prefix].pop(name, None)
            return
        self._records[prefix][name] = understood(RECORDS[prefix], entry, log), entry.modified


class _Asking:
    """Keeps one view up to date, and writes the queries that are due."""

    def __init__(self, term: Term, view: SourcesView, clock: Clock, began: datetime, since: float) -> None:
        self._term, self._view, self._clock, self._began, self._since = term, view, clock, began, since
        self._news = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="sources")
            while True:
                self._news.clear()
                waits = [await self._look(kind) for kind in list(self._view.kinds())]
                with suppress(TimeoutError):
                    async with asyncio.timeout(min([*waits, LONGEST]).total_seconds()):
                        await self._news.wait()

    async def _follow(self) -> None:
        async with aclosing(self._term.store.watch("/", self._view.revision)) as commits:
            async for commit in commits:
                if self._view.fold(commit):
                    self._news.set()

    async def _look(self, kind: KindRecord) -> timedelta:
        """Ask if it is time; how long until the next look."""
        view, now = self._view, self._now()
        query, listing = view.of(keys.QUERIES, Query, kind.name), view.of(keys.LISTINGS, Listing, kind.name)
        sync = view.of(keys.SYNC, SyncRequest, kind.name)
        found = next_query(
            kind,
            query[0] if query else None,
            listing[0] if listing else None,
            sync,
            view.candidates(kind.name),
            self._term.number,
            self._began,
            now,
        )
        if isinstance(found, QuerySource):
            return await self._ask(kind.name, found, sync[1] if sync else None)
        return max(found.until - now, timedelta(0)) if found.until else LONGEST

    async def _ask(self, kind: str, ask: QuerySource, sync: Revision | None) -> timedelta:
        key = keys.query(kind)
        record = Query(
            kind=kind,
            node=ask.node,
            nonce=secrets.token_hex(8),
            asked=self._now(),
            term=self._term.number,
            force=ask.force,
            sync=ask.sync,
        )
        writes: list[Write] = [Put(key, codec.encode(record))]
        expect: list[Expect] = [self._as_seen(kind)]
        if sync is not None:
            writes.append(Delete(keys.sync(kind)))
            expect.append(At(keys.sync(kind), sync))
        try:
            reached = await self._term.commit(*writes, expect=expect)
        except (Conflict, Unavailable, Unknown) as error:
            # Perhaps written, perhaps not: the watch will show it, and until then the expectation prevents a second
            # query.
            log.debug("query not written", extra={"kind": kind, "why": str(error)})
            return timedelta(seconds=RETRY)
        log.info("source asked", extra={"kind": kind, "node": ask.node, "force": ask.force, "term": self._term.number})
        while self._view.revision < reached:  # what we wrote must be seen before it is decided by again
            self._news.clear()
            await self._news.wait()
        return timedelta(0)

    def _as_seen(self, kind: str) -> Expect:
        seen = self._view.revision_of(keys.QUERIES, kind)
        return At(keys.query(kind), seen) if seen is not None else Absent(keys.query(kind))

    def _now(self) -> datetime:
        """The store's clock, as it goes on from the beginning of the term."""
        return self._began + timedelta(seconds=self._clock.monotonic() - self._since)


async def _now(store: Store) -> datetime:
    while True:
        try:
            return await store.now()
        except Unavailable:
            await asyncio.sleep(RETRY)
