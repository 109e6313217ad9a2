"""What can be asked about the audit trail, as plain functions on the store; the doors call these."""

from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from rota.api.operations import needs
from rota.decide.access import Access
from rota.decide.audit import Verifier
from rota.model.audit import AuditEntry
from rota.model.errors import Invalid
from rota.store import audit
from rota.store.port import Store

PAGE = 50
MAX_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class AuditLine:
    """An entry of the trail, and its place in the chain; 0 while it has none."""

    number: int
    hash: str
    entry: AuditEntry


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the trail is whole."""

    is_whole: bool
    links: int
    """How many links were looked at."""

    waiting: int
    """Entries that no link holds yet."""

    head: str
    """The hash of the last link: note it elsewhere, and compare it later."""

    flaw: str = ""
    """What is wrong; empty if nothing is."""

    doubt: str = ""
    """Why it cannot be told whether a noted hash was in the chain; empty if it can."""


@needs(Access.ADMIN)
async def read_audit(
    store: Store, *, limit: int = PAGE, by: str = "", refused: bool = False, since: datetime | None = None
) -> tuple[AuditLine, ...]:
    """The last entries of the trail, the oldest first: of one caller, only refusals, not older than a time."""
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")

    def is_wanted(entry: AuditEntry) -> bool:
        is_recent = since is None or entry.at >= since
        return is_recent and by in ("", entry.by) and (not refused or bool(entry.refused))

    found: deque[AuditLine] = deque(maxlen=limit)
    head, _ = await audit.head(store)
    takes_all = not by and not refused and since is None
    async with aclosing(audit.links(store, max(0, head.number - limit) if takes_all else 0)) as links:
        async for link in links:
            if is_wanted(link.entry):
                found.append(AuditLine(number=link.number, hash=link.hash, entry=link.entry))
    waiting = [entry for entry in await audit.unsealed(store) if is_wanted(entry)]
    found.extend(AuditLine(number=0, hash="", entry=entry) for entry in waiting)
    return tuple(found)


@needs(Access.ADMIN)
async def verify_audit(store: Store, *, noted: str = "") -> Verdict:
    """Whether nothing in the trail was changed or taken from it; `noted` is a hash that must still be in its chain."""
    head, _ = await audit.head(store)
    verifier = Verifier(head, noted)
    async with aclosing(audit.links(store)) as links:
        async for link in links:
            if link.number > head.number:
                break  # sealed while we read
            verifier.walk(link)
    flaw, waiting = verifier.end(), len(await audit.unsealed(store))
    return Verdict(
        is_whole=not flaw, links=verifier.links, waiting=waiting, head=head.hash, flaw=flaw, doubt=verifier.doubt
    )
