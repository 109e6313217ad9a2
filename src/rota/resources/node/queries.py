"""Queries: this node queries the sources that the leader assigns to it, and applies their lists.

The source runs in an executor, never in the agent, with a timeout. A list that does not arrive, or is not valid,
changes nothing. What it changes is decided by `resources.core.listing` and written in commits of at most 100 writes;
each expects the query as it was read, so a node that is late, and was replaced, writes nothing more. The last commit
has the outcome of the query. A node that dies on the way leaves part of the list applied; the next node that is asked
compares again, and does the rest.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from datetime import timedelta
from random import random
from typing import Protocol, TypeVar

import msgspec

from rota.fleet.members.journal import Tell
from rota.jobs.node.source_queries import SourceFailed
from rota.kit.record import replace
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.resources.core.listing import (
    ORIGIN,
    TIMEOUT,
    ApplyListing,
    HoldListing,
    ListedResource,
    compare,
    digest_of,
    left_alone,
    problem,
)
from rota.resources.core.records import KindRecord, Listing, Query, ResourceRecord
from rota.store.follow import RETRY, follow_all
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

T = TypeVar("T")

WRITES = 99
"""Changes in one commit, without the outcome."""

BYTES = 900 * 1024
"""Bytes of the values in one commit, without the outcome."""

PAGE = 1000

_LIST = msgspec.json.Decoder(list[ListedResource])


class SourceRunner(Protocol):
    """What runs the app."""

    def kinds(self) -> list[KindRecord]:
        """The kinds of resources that the app declares."""

    async def ask_source(self, kind: str, timeout: timedelta) -> bytes:
        """What a source lists, as JSON; SourceFailed if nothing comes in time."""


async def answer_queries(
    store: Store,
    node: NodeId,
    incarnation: At,
    sources: SourceRunner,
    clock: Clock,
    tell: Tell,
    jitter: Callable[[], float] = random,
) -> None:
    """Query sources as the store says, until cancelled."""
    answering: dict[str, tuple[Revision, asyncio.Task[None]]] = {}
    async with asyncio.TaskGroup() as parts, aclosing(follow_all(store, keys.QUERIES, jitter)) as coming:
        async for news in coming:
            for entry in (change.entry for change in news.changes if change.entry is not None):
                _take_up(parts, answering, _QueryRun(store, node, incarnation, sources, clock, tell, entry))


def _take_up(
    parts: asyncio.TaskGroup, answering: dict[str, tuple[Revision, "asyncio.Task[None]"]], answer: "_QueryRun"
) -> None:
    """Answer a query if it is for this node, and cancel the previous query of the same kind."""
    key, revision = answer.query_entry.key, answer.query_entry.modified
    if key in answering:
        if answering[key][0] == revision:
            return
        answering.pop(key)[1].cancel()
    query = understood(Query, answer.query_entry, log)
    if query is not None and query.node == answer.node:
        answering[key] = revision, parts.create_task(answer.run(query), name=f"query of {query.kind}")


class _Change(msgspec.Struct, frozen=True):
    """One resource that comes, changes or goes."""

    what: str
    write: Write
    expect: Expect


class _QueryRun:
    """One query, from asking the source to the outcome in the store."""

    def __init__(
        self,
        store: Store,
        node: NodeId,
        incarnation: At,
        sources: SourceRunner,
        clock: Clock,
        tell: Tell,
        query_entry: Entry,
    ) -> None:
        self._store, self.node, self._sources, self._clock, self._tell = store, node, sources, clock, tell
        self.query_entry = query_entry
        self._fence: tuple[Expect, ...] = (At(query_entry.key, query_entry.modified), incarnation)
        self._done: Counter[str] = Counter()
        """What was written already, if the list had to be compared again."""

    async def run(self, query: Query) -> None:
        """Answer, unless that was done before; outages of the store are sat out."""
        if await self._insist(lambda: self._is_answered(query)) is not False:
            return
        try:
            listed = await self._listed(query)
        except SourceFailed as error:
            why = str(error)
            await self._insist(lambda: self._fail(query, why))
        else:
            await self._insist(lambda: self._settle(query, listed))

    async def _is_answered(self, query: Query) -> bool:
        last = await self._last(query)
        return last is not None and last.nonce == query.nonce

    async def _listed(self, query: Query) -> list[ListedResource]:
        """What the source lists, checked as far as that can be done without asking the app."""
        kind = next((each for each in self._sources.kinds() if each.name == query.kind), None)
        if kind is None or kind.source_every is None:
            raise SourceFailed(f'this node\'s app has no source of resource "{query.kind}"')
        data = await self._sources.ask_source(kind.name, kind.source_timeout or TIMEOUT)
        try:
            listed = _LIST.decode(data)
        except msgspec.MsgspecError as error:
            raise SourceFailed(f"its list is not understood: {error}") from None
        if why := problem(listed, kind):
            raise SourceFailed(why)
        return listed

    async def _insist(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """The outcome, retried until it is known; None if another query has replaced this one."""
        waits = delays(*RETRY, random)
        while True:
            try:
                return await work()
            except Conflict as conflict:
                if any(part.key in conflict.keys for part in self._fence):
                    log.info("query overtaken", extra={"query": self.query_entry.key, "node": self.node})
                    return None
                log.debug("list compared again", extra={"keys": ", ".join(sorted(conflict.keys))})
            except (Unavailable, Unknown, Compacted) as error:  # Compacted: while resources were read, page by page
                log.debug("query not answered yet", extra={"query": self.query_entry.key, "why": str(error)})
            await asyncio.sleep(next(waits).total_seconds())

    async def _fail(self, query: Query, why: str) -> None:
        outcome = replace(self._outcome(query, await self._last(query)), error=why)
        await self._commit([], outcome)
        self._say(outcome)

    async def _settle(self, query: Query, listed: list[ListedResource]) -> None:
        """Apply the list, or hold it."""
        last, stored = await self._last(query), await self._stored(query.kind)
        if last is not None and last.nonce == query.nonce:  # a commit of unknown outcome was accepted
            self._say(last)
            return
        found = compare({id: record for id, (record, _) in stored.items()}, listed, last, force=query.force)
        outcome = replace(self._outcome(query, last), count=len({each.id for each in listed}))
        if isinstance(found, HoldListing):
            outcome = replace(outcome, held=found.digest, why=found.why)
            await self._commit([], outcome)
        else:
            outcome = replace(outcome, digest=digest_of({each.id for each in listed}), held="")
            outcome = await self._apply(found, stored, replace(outcome, why=left_alone(found.left)))
        self._say(outcome)

    async def _apply(
        self, found: ApplyListing, stored: dict[str, tuple[ResourceRecord, Revision]], outcome: Listing
    ) -> Listing:
        """Write all changes, with what came of the query in the last commit; that is returned."""
        *early, final = [*_batches(self._changes(outcome.kind, found, stored))] or [[]]
        for batch in early:
            await self._commit(batch)
            self._done.update(change.what for change in batch)
        done = self._done + Counter(change.what for change in final)
        outcome = replace(outcome, added=done["added"], changed=done["changed"], removed=done["removed"])
        await self._commit(final, outcome)
        return outcome

    def _say(self, outcome: Listing) -> None:
        kind, changes = outcome.kind, (outcome.added, outcome.changed, outcome.removed)
        if outcome.error:
            self._tell("source.failed", kind, why=outcome.error)
        elif outcome.held:
            self._tell("source.held", kind, why=outcome.why)
        elif any(changes):
            self._tell("source.applied", kind, **dict(zip(("added", "changed", "removed"), changes, strict=True)))
        if outcome.why and not outcome.held:
            log.warning("listed resources left alone", extra={"kind": kind, "why": outcome.why})

    def _changes(
        self, kind: str, found: ApplyListing, stored: dict[str, tuple[ResourceRecord, Revision]]
    ) -> Iterator[_Change]:
        """What to write: first additions and changes, then deletions."""
        now = self._clock.wall()
        for each in found.add:
            key = keys.resource(kind, each.id)
            record = ResourceRecord(
                uid=secrets.token_hex(16),
                kind=kind,
                id=each.id,
                created=now,
                origin=ORIGIN,
                spec=each.spec,
                priority=each.priority,
                replicas=each.replicas,
                labels=each.labels,
                tags=each.tags,
                affinity=each.affinity,
            )
            yield _Change("added", Put(key, codec.encode(record)), Absent(key))
        for record in found.change:
            key = keys.resource(kind, record.id)
            yield _Change("changed", Put(key, codec.encode(record)), At(key, stored[record.id][1]))
        for record in found.remove:
            key = keys.resource(kind, record.id)
            yield _Change("removed", Delete(key), At(key, stored[record.id][1]))

    async def _commit(self, changes: list[_Change], outcome: Listing | None = None) -> None:
        writes: list[Write] = [change.write for change in changes]
        if outcome is not None:
            writes.append(Put(keys.listing(outcome.kind), codec.encode(outcome)))
        await self._store.commit(*writes, expect=(*self._fence, *(change.expect for change in changes)))

    def _outcome(self, query: Query, last: Listing | None) -> Listing:
        """The outcome before the list arrives; a held list stays held until another one arrives."""
        return Listing(
            kind=query.kind,
            nonce=query.nonce,
            node=self.node,
            at=self._clock.wall(),
            sync=query.sync,
            count=last.count if last else 0,
            digest=last.digest if last else "",
            held=last.held if last else "",
        )

    async def _last(self, query: Query) -> Listing | None:
        return understood(Listing, await self._store.get(keys.listing(query.kind)), log)

    async def _stored(self, kind: str) -> dict[str, tuple[ResourceRecord, Revision]]:
        """The resources of a kind, all at one revision."""
        prefix = keys.resources(kind)
        found: dict[str, tuple[ResourceRecord, Revision]] = {}
        after, at = None, None
        while True:
            page = await self._store.scan(prefix, after=after, limit=PAGE, at=at)
            for entry in page.entries:
                record = understood(ResourceRecord, entry, log)
                # What a newer Rota wrote is left to nodes of that version.
                unknown = ResourceRecord(
                    uid="", kind=kind, id=entry.key.removeprefix(prefix), created=self._clock.wall(), origin="unknown"
                )
                found[entry.key.removeprefix(prefix)] = record or unknown, entry.modified
            if not page.more:
                return found
            after, at = page.entries[-1].key, page.revision


def _batches(changes: Iterable[_Change]) -> Iterator[list[_Change]]:
    """Changes in groups that fit into one commit, with room for the outcome."""
    batch: list[_Change] = []
    size = 0
    for change in changes:
        more = len(change.write.value) if isinstance(change.write, Put) else 0
        if batch and (len(batch) == WRITES or size + more > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += more
    if batch:
        yield batch
