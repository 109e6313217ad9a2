"""Sealing the audit trail: the leader makes links of a chain out of the entries that others wrote.

There is one writer, so the chain has one order and no caller waits for it: a change only adds an entry in its own
commit. Links, the head and the removal of the entries go in one commit, which expects the head as it was.

What is too old is cleared away from the beginning of the chain; the head says from where on it is whole. How old a link
is, is measured by the store's clock alone: those of nodes may be wrong, and what is erased does not come back.

Entries that a newer Rota wrote wait for a leader that understands them. A head or a link of a newer Rota stops the
sealing, or the clearing, and not the leader.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta

from rota.fleet.audit import trail as audit
from rota.fleet.core.audit.chain import seal
from rota.fleet.core.audit.record import AuditEntry, AuditHead, AuditLink
from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, Unavailable, Unknown
from rota.model.ids import Key
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

BATCH = 40
BATCH_BYTES = 500_000
CLEARED = 50
"""Links that are cleared away in one commit."""

NOT_NOW = (Unavailable, Unknown, Conflict, Invalid)
"""What keeps the trail waiting. Invalid is a head that this Rota does not understand."""

EVERY = timedelta(hours=1)
"""How often old links are looked for."""


async def keep_audit(term: Term, keep: timedelta) -> None:
    """Seal what comes, and clear away what is too old, for as long as the term lasts."""
    turn = asyncio.Lock()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(_seal(term, turn), name="seal audit")
        parts.create_task(_clear(term, keep, turn), name="clear audit")


async def _seal(term: Term, turn: asyncio.Lock) -> None:
    async with aclosing(follow_all(term.store, keys.AUDIT_OPEN, limit=1)) as coming:
        async for news in coming:
            if not any(change.entry for change in news.changes):
                continue
            try:
                async with turn:
                    while await seal_once(term):
                        pass
            except NOT_NOW as error:  # the next entry, or the next leader, brings it again
                log.warning("audit trail not sealed", extra={"why": str(error), "term": term.number})


async def seal_once(term: Term) -> int:
    """Make links of some entries; returns how many."""
    head, written = await audit.head(term.store)
    waiting = await _understood(term.store)
    taken = _taken(audit.in_order(entry for entry, _ in waiting))
    if not taken:
        return 0
    said = {entry.key: meant for entry, meant in waiting}
    links, ends = seal(head, [said[entry.key] for entry in taken], await term.store.now())
    seen: Expect = At(keys.AUDIT_HEAD, written.modified) if written else Absent(keys.AUDIT_HEAD)
    await term.commit(
        *(Put(keys.audit_link(link.number), codec.encode(link)) for link in links),
        *(Delete(entry.key) for entry in taken),
        Put(keys.AUDIT_HEAD, codec.encode(ends)),
        expect=[seen, *(At(entry.key, entry.modified) for entry in taken)],
    )
    log.debug("audit trail sealed", extra={"link": ends.number, "hash": ends.hash, "term": term.number})
    return len(links)


async def _understood(store: Store) -> list[tuple[Entry, AuditEntry]]:
    """The first entries that wait and that this Rota understands, and what they say."""
    found: list[tuple[Entry, AuditEntry]] = []
    after: Key | None = None
    while True:
        listing = await store.scan(keys.AUDIT_OPEN, after=after, limit=BATCH)
        found += [(entry, meant) for entry in listing.entries if (meant := understood(AuditEntry, entry, log))]
        if found or not listing.more:
            return found
        after = listing.entries[-1].key


def _taken(entries: Sequence[Entry]) -> list[Entry]:
    """The first entries that fit in one commit."""
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.value)
        if taken and size > BATCH_BYTES:
            break
        taken.append(entry)
    return taken


async def _clear(term: Term, keep: timedelta, turn: asyncio.Lock) -> None:
    while True:
        try:
            async with turn:
                while await clear_once(term, await term.store.now() - keep):
                    pass
        except NOT_NOW as error:
            log.warning("audit trail not cleared", extra={"why": str(error), "term": term.number})
        await asyncio.sleep(EVERY.total_seconds())


async def clear_once(term: Term, before: datetime) -> int:
    """Delete the oldest links, those made before a time; returns how many."""
    head, written = await audit.head(term.store)
    if written is None:
        return 0
    going = _past(await _oldest(term), head, before)
    if not going:
        return 0
    last = going[-1]
    ends = AuditHead(number=head.number, hash=head.hash, first=last.number + 1, before_first=last.hash)
    await term.commit(
        *(Delete(keys.audit_link(link.number)) for link in going),
        Put(keys.AUDIT_HEAD, codec.encode(ends)),
        expect=[At(keys.AUDIT_HEAD, written.modified)],
    )
    return len(going)


def _past(oldest: Sequence[Entry], head: AuditHead, before: datetime) -> list[AuditLink]:
    """The links to delete: those from before a time, up to the first that is newer or not understood."""
    going: list[AuditLink] = []
    for entry in oldest:
        link = understood(AuditLink, entry, log)
        if link is None or (link.sealed or link.entry.at) >= before or link.number == head.number:
            break
        going.append(link)
    return going


async def _oldest(term: Term) -> tuple[Entry, ...]:
    return (await term.store.scan(keys.AUDIT, limit=CLEARED)).entries
