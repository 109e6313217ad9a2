"""Tickets: may one be spent now?"""

from datetime import datetime

from rota.fleet.core.access.ticket import TicketRecord


def refusal(ticket: TicketRecord, now: datetime) -> str | None:
    """Why a ticket is not taken at `now`, by the store's clock; None: it is."""
    if ticket.revoked is not None:
        return f"it was revoked at {ticket.revoked:%Y-%m-%d %H:%M} UTC"
    if ticket.used is not None:
        return f"it was used by {ticket.used_by} at {ticket.used:%Y-%m-%d %H:%M} UTC, and a ticket is good once"
    if now >= ticket.expires:
        return f"it was good until {ticket.expires:%Y-%m-%d %H:%M} UTC"
    return None
