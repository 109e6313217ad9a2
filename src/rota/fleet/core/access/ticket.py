"""Tickets: one line with which a new machine joins a fleet, once and soon."""

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId


@stored()
class TicketRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket as the store has it. Only the ticket has the secret; what it admits to is sealed under another key."""

    id: str
    node: NodeId
    """The node that may join with it."""

    made: datetime
    by: str
    expires: datetime
    """By the store's clock."""

    used: datetime | None = None
    """When it was spent; a ticket is spent once."""

    used_by: str = ""
    revoked: datetime | None = None


@stored()
@dataclass(frozen=True, kw_only=True)
class Admission:
    """What a new machine gets for its ticket."""

    token: str = field(repr=False)
    """The token that the nodes of the fleet show each other."""

    files: dict[str, str] = field(default_factory=dict, repr=False)
    """Its certificate, key and authority by file name; none if the fleet has no TLS."""


def refusal(ticket: TicketRecord, now: datetime) -> str | None:
    """Why a ticket is not taken at `now`, by the store's clock; None: it is."""
    if ticket.revoked is not None:
        return f"it was revoked at {ticket.revoked:%Y-%m-%d %H:%M} UTC"
    if ticket.used is not None:
        return f"it was used by {ticket.used_by} at {ticket.used:%Y-%m-%d %H:%M} UTC, and a ticket is good once"
    if now >= ticket.expires:
        return f"it was good until {ticket.expires:%Y-%m-%d %H:%M} UTC"
    return None
