"""What can be asked about the audit trail, as plain functions on the store; the doors call these."""

from collections import deque
from contextlib import aclosing

import msgspec

from rota.doors.parameters import Since, TokenBack
from rota.doors.verbs import verb
from rota.fleet.audit import trail as audit
from rota.fleet.core.access.gate import Access
from rota.fleet.core.audit.chain import Verifier
from rota.fleet.core.audit.record import AuditEntry
from rota.fleet.doors.parameters import ByCaller, IsRefused, LimitOfAudit, Noted
from rota.model.errors import Invalid
from rota.store.port import Store

PAGE = 50
MAX_PAGE = 1000


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the trail, and its place in the chain; 0 while it has none."""

    number: int
    """Its place in the chain, from 1; 0 while it is not sealed."""

    hash: str
    """The hash of its link; empty while it is not sealed."""

    entry: AuditEntry
    """What was done or refused."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the trail is whole."""

    is_whole: bool
    """Is nothing changed or missing?"""

    links: int
    """How many links were looked at."""

    waiting: int
    """Entries that no link holds yet."""

    head: str
    """The hash of the last link: note it elsewhere, and compare it later."""

    flaw: str = ""
    """What is wrong; empty if nothing is."""

    doubt: str = ""
    """Why it cannot be decided whether a noted hash was in the chain; empty if it can."""


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries of the audit trail, the oldest first."""

    entries: tuple[AuditLine, ...]
    """The entries of this page."""

    next: str | None = None
    """The token of the page with older entries; None: there are none."""


@verb("GET", "/v1/audit", Access.ADMIN, rpc="Audit.Read", heavy=True)
async def read_audit(
    store: Store,
    *,
    limit: LimitOfAudit = PAGE,
    token: TokenBack = None,
    by: ByCaller = "",
    refused: IsRefused = False,
    since: Since = None,
) -> AuditPage:
    """List the last entries of the audit trail, the oldest first; by caller, only refusals, or not older than a time.

    `token` is the `next` of the page before, and leads further back.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")

    def is_wanted(entry: AuditEntry) -> bool:
        is_recent = since is None or entry.at >= since
        return is_recent and by in ("", entry.by) and (not refused or bool(entry.refused))

    head, _ = await audit.head(store)
    open_ones = await audit.unsealed(store)
    before, open_ones = await _place(store, token, head.number, open_ones)
    found: deque[AuditLine] = deque(maxlen=limit)
    takes_all = not by and not refused and since is None
    count, last = 0, min(before - 1, head.number)
    async with aclosing(audit.links(store, max(0, last - limit) if takes_all else 0)) as links:
        async for link in links:
            if link.number >= before:
                break
            if is_wanted(link.entry):
                count += 1
                found.append(AuditLine(number=link.number, hash=link.hash, entry=link.entry))
    has_older = count > 0 and found[0].number > head.first if takes_all else count > limit
    waiting = [AuditLine(number=0, hash="", entry=entry) for entry in open_ones if is_wanted(entry)]
    lines = deque([*found, *waiting], maxlen=limit)
    has_older |= len(found) + len(waiting) > limit
    return AuditPage(entries=tuple(lines), next=_token(lines[0], head.number) if has_older else None)


def _token(oldest: AuditLine, head: int) -> str:
    """The token of the page before an entry; for an unsealed entry, also the number from which on it will be sealed."""
    return str(oldest.number) if oldest.number else f"{head}:{oldest.entry.id}"


async def _place(
    store: Store, token: str | None, head: int, open_ones: list[AuditEntry]
) -> tuple[int, list[AuditEntry]]:
    """The number before which the page ends, and the unsealed entries that belong to it."""
    if not token:
        return head + len(open_ones) + MAX_PAGE, open_ones
    number, colon, id = token.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise Invalid(f'token is "{token[:100]}"; it must be the next of a page')
    if not colon:
        return int(number), []
    ids = [entry.id for entry in open_ones]
    if id in ids:
        return head + 1, open_ones[: ids.index(id)]
    async with aclosing(audit.links(store, int(number))) as links:  # it was sealed since
        async for link in links:
            if link.entry.id == id:
                return link.number, []
    raise Invalid(f'token is "{token[:100]}", and its entry is not kept any more; begin again without a token')


@verb("GET", "/v1/audit/verify", Access.ADMIN, rpc="Audit.Verify", heavy=True)
async def verify_audit(store: Store, *, noted: Noted = "") -> Verdict:
    """Check that no entry of the audit trail was changed or removed; `noted` is a hash that must still be in its
    chain."""
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
