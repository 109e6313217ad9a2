"""Tickets in the store: made, listed, revoked and spent.

A ticket's line has a secret that the store never sees. The store has a record of the ticket, whose changes are audited,
and apart from it what the ticket opens, sealed with that secret. The sealed part is written past the audit trail, which
keeps what it sees. Spending is a compare-and-set of the record, by the store's clock: of two machines with one ticket
one is admitted.
"""

import base64
import binascii
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from rota.fleet.core.access.ticket import Admission, TicketRecord, refusal
from rota.kit.crypto.sealing import SECRET_BYTES, seal, unseal
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.config import check_node_id
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unknown
from rota.model.ids import NodeId
from rota.store.port import Absent, At, Delete, Entry, Put, Store
from rota.store.records import understood

PREFIX = "rota-ticket-"
LONGEST = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """What the line says."""

    id: str
    store: str
    """The URL of the store, without a password."""

    node: NodeId
    secret: str = field(repr=False)
    fleet: str = ""
    """The fleet's name, if it was given by a setting."""

    insecure: bool = False

    def line(self) -> str:
        """The line to paste."""
        return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read(line: str) -> Ticket:
    """What a line says; Invalid if it is no ticket. The line is not repeated."""
    text = line.strip()
    try:
        if not text.startswith(PREFIX):
            raise ValueError("it does not begin like one")
        packed = text.removeprefix(PREFIX)
        found = msgspec.json.decode(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), type=Ticket)
        check_node_id(found.node)  # it becomes the name of a folder
    except (ValueError, binascii.Error, msgspec.MsgspecError, Invalid) as error:
        raise Invalid(
            f"this is no whole ticket ({error}); copy the whole line that rota ticket create printed: {PREFIX}…"
        ) from None
    return found


async def create(
    store: Store, raw: Store, ticket: Ticket, admission: Admission, *, by: str, expires_in: timedelta
) -> TicketRecord:
    """Write a new ticket; `raw` is the store without the audit trail."""
    if not timedelta(seconds=1) <= expires_in <= LONGEST:
        raise Invalid("a ticket is good for 1 s to 7 days; 15m is usual")
    now = await raw.now()
    record = TicketRecord(id=ticket.id, node=ticket.node, made=now, by=by, expires=now + expires_in)
    sealed = seal(base64.urlsafe_b64decode(ticket.secret), codec.encode(admission))
    await _clear_away(raw)
    await raw.commit(Put(keys.sealed(ticket.id), sealed), expect=[Absent(keys.sealed(ticket.id))])
    await store.commit(Put(keys.ticket(ticket.id), codec.encode(record)), expect=[Absent(keys.ticket(ticket.id))])
    return record


def fresh(**fields: object) -> Ticket:
    """A ticket with a new id and a new secret."""
    secret = base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    return Ticket(id=secrets.token_hex(4), secret=secret, **fields)  # type: ignore[arg-type]


async def listed(raw: Store) -> list[TicketRecord]:
    """The tickets, the oldest first."""
    found = [record for entry in (await raw.scan(keys.TICKETS)).entries if (record := understood(TicketRecord, entry))]
    return sorted(found, key=lambda each: (each.made, each.id))


async def revoke(store: Store, raw: Store, id: str) -> TicketRecord:
    """Take a ticket back; Conflict if it was used, NotFound if there is none."""
    entry = await raw.get(keys.ticket(id))
    record = understood(TicketRecord, entry)
    if entry is None or record is None:
        raise NotFound(f'there is no ticket "{id}"; see: rota ticket ls')
    if record.used is not None:
        raise Conflict(f"ticket {id} was used by {record.used_by}; stop that node and change the token of the fleet")
    changed = replace(record, revoked=record.revoked or await raw.now())
    await store.commit(Put(entry.key, codec.encode(changed)), expect=[At(entry.key, entry.modified)])
    await raw.commit(Delete(keys.sealed(id)))
    return changed


async def opened(raw: Store, ticket: Ticket) -> Admission:
    """What a ticket admits to, without spending it. Raises Denied, with the reason, if it is not valid."""
    _, _, admission = await _looked_at(raw, ticket)
    return admission


async def spend(store: Store, raw: Store, ticket: Ticket, *, by: str) -> Admission:
    """Spend a ticket and return what it admits to; raises Denied, with the reason, if it is not valid."""
    entry, record, admission = await _looked_at(raw, ticket)
    spent = Put(entry.key, codec.encode(replace(record, used=await raw.now(), used_by=by)))
    try:
        await store.commit(spent, expect=[At(entry.key, entry.modified)])
    except Conflict:
        raise Denied(
            f"ticket {ticket.id}: another machine has used it; make another with: rota ticket create {ticket.node}"
        ) from None
    except Unknown:
        found = await raw.get(entry.key)
        if found is None or found.value != spent.value:
            raise
    with suppress(RotaError):  # it is spent anyway; the next `create` deletes the sealed part
        await raw.commit(Delete(keys.sealed(ticket.id)))
    return admission


async def _looked_at(raw: Store, ticket: Ticket) -> tuple[Entry, TicketRecord, Admission]:
    entry, sealed = await raw.get(keys.ticket(ticket.id)), await raw.get(keys.sealed(ticket.id))
    record = understood(TicketRecord, entry)
    if entry is None or record is None:
        raise Denied(
            f"ticket {ticket.id}: this store does not know it; make one with: rota ticket create {ticket.node}"
        )
    why = refusal(record, await raw.now())
    if why is None and sealed is None:
        why = "what it opens is gone"
    if why is not None or sealed is None:
        raise Denied(f"ticket {ticket.id}: {why}; make another with: rota ticket create {ticket.node}")
    try:
        found = codec.decode(Admission, unseal(base64.urlsafe_b64decode(ticket.secret), sealed.value))
    except ValueError:
        raise Denied(f"ticket {ticket.id}: its secret is not the right one; copy the whole line") from None
    return entry, record, found


async def _clear_away(raw: Store) -> None:
    """Delete the sealed parts of tickets that can no longer be spent, and old tickets."""
    now = await raw.now()
    for record in await listed(raw):
        if refusal(record, now) is not None:
            await raw.commit(Delete(keys.sealed(record.id)))
            if now - record.expires > LONGEST:
                await raw.commit(Delete(keys.ticket(record.id)))
