"""The audit trail in the store: changes with their author, notes of refusals, and reading it back.

`AuditedStore` is a store for one caller and one operation. What the operation commits gets an entry in the very same
commit, with what was there before and what is there now; so there is no change without its entry, whatever fails in
between. To know what was there, it expects the keys as it has just read them. If only such an expectation of its own
failed, it reads again; the operation does not notice.

`AuditNotes` takes what was refused, which must cost little: the same refusal of the same caller is counted, and written
down once a second.

`fleet.audit.sealing` seals what is written here.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

from rota.fleet.core.audit.record import AuditEntry, AuditHead, AuditLink, Changed
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import codec, event, keys
from rota.model.errors import Conflict, Denied, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.model.url import without_passwords
from rota.store.around import StoreAround
from rota.store.port import Absent, At, Entry, Expect, Put, Store, Write
from rota.store.records import understood
from rota.store.rules import MAX_EXPECTATIONS, MAX_VALUE_BYTES, MAX_WRITES

log = logging.getLogger(__name__)

SHOWN = 2000
"""Characters of a value that are kept."""

SHOWN_TOGETHER = 100_000
"""Characters of all values of one change."""

TRIES = 10
"""How often a change is tried again whose keys change meanwhile."""

PACE = 1.0
"""Seconds from one writing of notes to the next."""

MOST_NOTES = 200
"""Different refusals that are kept apart within a second."""

BATCH = 20
PAGE = 500

_BEHIND_HOST = re.compile(r'("url":"https?://[^/?"]*)[/?][^"]*"')
"""The public part of a hook's URL, and the rest."""

_Same: TypeAlias = tuple[str, str, str, str]
"""Refusals with the same caller, address, operation and reason are counted as one."""


class AuditedStore(StoreAround):
    """A store whose commits record who made them, from where, and by which operation."""

    def __init__(self, store: Store, clock: Clock, *, by: str, origin: str, what: str) -> None:
        super().__init__(store)
        self._clock = clock
        self._by, self._origin, self._what = by, origin, what

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        asked = tuple(expect)
        for _ in range(TRIES):
            before = {write.key: await self._store.get(write.key) for write in writes}
            own = _expected(before, asked)
            try:
                return await self._commit(writes, before, (*asked, *own))
            except Conflict as conflict:
                if not own or not conflict.keys <= {each.key for each in own}:
                    raise
        raise Conflict(f"{writes[0].key} is being changed all the time; try again", [writes[0].key])

    async def _commit(
        self, writes: Sequence[Write], before: dict[Key, Entry | None], expect: Sequence[Expect]
    ) -> Revision:
        entry = self._entry(writes, before)
        note = Put(keys.audit_open(entry.id), codec.encode(entry))
        size = sum(len(write.value) for write in (*writes, note) if isinstance(write, Put))
        if len(writes) < MAX_WRITES and size <= MAX_VALUE_BYTES:
            return await self._store.commit(*writes, note, expect=expect)
        # No room for both: first the note, so that there is no change without one.
        await self._store.commit(note)
        return await self._store.commit(*writes, expect=expect)

    def _entry(self, writes: Sequence[Write], before: dict[Key, Entry | None]) -> AuditEntry:
        room = min(SHOWN, SHOWN_TOGETHER // (2 * len(writes)))
        changes = []
        for write in writes:
            was, now = before[write.key], write.value if isinstance(write, Put) else None
            old = was.value if was else None
            changes.append(Changed(key=write.key, before=_shown(old, room), after=_shown(now, room)))
        return make(self._clock.wall(), by=self._by, origin=self._origin, what=self._what, changes=changes)


class AuditRecorder(Protocol):
    """Records what was refused, or done without a commit."""

    def __call__(self, *, by: str, origin: str, what: str, refused: str = "") -> None:
        """Record a caller, its address, the operation, and why it was refused if it was."""


def forget(*, by: str, origin: str, what: str, refused: str = "") -> None:
    """A recorder that drops everything, for use without an audit trail."""


class AuditNotes:
    """What was refused, or done without a commit, until it is written. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[_Same, AuditEntry] = {}
        self._news = asyncio.Event()

    def note(self, *, by: str, origin: str, what: str, refused: str = "") -> None:
        """Add a note and return at once. Too many different ones within a second become one line."""
        same = (by, origin, what, refused)
        if same not in self._noted and len(self._noted) >= MOST_NOTES:
            origin, what, refused = "several", "several", "more was refused than is written down one by one"
            same = ("", origin, what, refused)
        if known := self._noted.get(same):
            self._noted[same] = replace(known, count=known.count + 1)
        else:
            self._noted[same] = make(self._clock.wall(), by=same[0], origin=origin, what=what, refused=refused)
        self._news.set()

    async def write(self, store: Store) -> None:
        """Write what was noted, until cancelled; what the store does not accept is retried with the next notes."""
        while True:
            await self._news.wait()
            await self.flush(store)
            await asyncio.sleep(PACE)

    async def flush(self, store: Store) -> None:
        """Write what there is, if the store takes it. What comes meanwhile is for the next time."""
        self._news.clear()
        waiting = list(self._noted.items())
        self._noted = {}
        while batch := waiting[:BATCH]:
            try:
                await store.commit(*(Put(keys.audit_open(entry.id), codec.encode(entry)) for _, entry in batch))
            except (Unavailable, Unknown, Denied) as error:
                log.warning("refusals not written down yet", extra={"refusals": len(waiting), "why": str(error)})
                self._take_back(waiting)
                return
            except asyncio.CancelledError:  # it may be written, or not: written twice is better than not at all
                self._take_back(waiting)
                raise
            del waiting[:BATCH]

    def _take_back(self, waiting: Iterable[tuple[_Same, AuditEntry]]) -> None:
        """Keep what was not written, together with what came meanwhile."""
        for same, entry in waiting:
            later = self._noted.get(same)
            self._noted[same] = replace(entry, count=entry.count + (later.count if later else 0))
        self._news.set()


def make(
    at: datetime, *, by: str, origin: str, what: str, changes: Sequence[Changed] = (), refused: str = ""
) -> AuditEntry:
    """An entry with an id of its own."""
    return AuditEntry(
        id=_id(at), at=at, by=by[:200], origin=origin[:200], what=what[:500], changes=list(changes), refused=refused
    )


async def head(store: Store) -> tuple[AuditHead, Entry | None]:
    """Where the chain begins and ends, and how that is written."""
    entry = await store.get(keys.AUDIT_HEAD)
    return (codec.decode(AuditHead, entry.value) if entry else AuditHead()), entry


async def links(store: Store, after: int = 0) -> AsyncGenerator[AuditLink, None]:
    """The sealed entries behind a number, in order."""
    last: Key | None = keys.audit_link(after) if after else None
    while True:
        listing = await store.scan(keys.AUDIT, after=last, limit=PAGE)
        for entry in listing.entries:
            yield codec.decode(AuditLink, entry.value)
        if not listing.more:
            return
        last = listing.entries[-1].key


async def unsealed(store: Store, limit: int | None = None) -> list[AuditEntry]:
    """Entries that no link holds yet, as they were written."""
    entries = in_order((await store.scan(keys.AUDIT_OPEN, limit=limit)).entries)
    return [found for entry in entries if (found := understood(AuditEntry, entry, log))]


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries in the order they were written: their ids follow the writers' clocks only."""
    return sorted(entries, key=lambda entry: entry.created)


def _expected(before: dict[Key, Entry | None], asked: Sequence[Expect]) -> tuple[Expect, ...]:
    """The expectations that make `before` true, beyond the caller's own."""
    already = {each.key for each in asked}
    found = [At(key, entry.modified) if entry else Absent(key) for key, entry in before.items() if key not in already]
    return tuple(found[: MAX_EXPECTATIONS - len(asked)])


def _shown(value: bytes | None, room: int) -> str | None:
    """A value as it is kept in the trail: as text without passwords, not all of it if it is long."""
    if value is None:
        return None
    text = _BEHIND_HOST.sub(r'\1/…"', without_passwords(value.decode(errors="replace")))
    return text if len(text) <= room else f"{text[:room]}… ({len(value)} bytes)"


def _id(at: datetime) -> str:
    """Ids sort as entries were made, as far as clocks agree."""
    return f"{event.moment(at)}-{secrets.token_hex(6)}"
