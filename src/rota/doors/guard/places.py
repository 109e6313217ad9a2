"""Which connections a door has room for. Pure.

A door has a number of places, and one address may have only some of them. When there is no room for a new connection,
an idle one is closed: one without any request before one that had some, and the oldest first. So silent connections
only displace each other, and a caller that sends a request at once is answered. If none is idle, the new one is
refused.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

from rota.kit.time.instant import Instant

C = TypeVar("C", bound=Hashable)


class OpenConnection(msgspec.Struct, Generic[C], frozen=True):
    """A connection that is open."""

    connection: C
    address: str
    is_idle: bool
    """Does it wait for a request, or for the rest of its headers?"""

    has_asked: bool
    """Was a request on it answered before?"""

    since: Instant


class Admit(msgspec.Struct, Generic[C], frozen=True):
    """There is room, once another connection is closed if one is named."""

    instead_of: C | None = None


class Full(msgspec.Struct, frozen=True):
    """There is no room; the sentence says for whom."""

    why: str


def room_for(
    address: str, seats: Iterable[OpenConnection[C]], *, most: int, most_of_one: int, is_exempt: bool = False
) -> Admit[C] | Full:
    """Whether a connection from `address` gets a place; one that `is_exempt` counts among all, not by its address."""
    seats = tuple(seats)
    own = () if is_exempt else tuple(seat for seat in seats if seat.address == address)
    if len(own) >= most_of_one:
        given = _given_up(own)
        why = f"{most_of_one} connections from your address are answered at a time; close some"
        return Full(why) if given is None else Admit(given.connection)
    if len(seats) >= most:
        given = _given_up(seats)
        why = f"{most} connections are answered at a time, and all are busy; try again, or ask another node"
        return Full(why) if given is None else Admit(given.connection)
    return Admit()


def _given_up(seats: Iterable[OpenConnection[C]]) -> OpenConnection[C] | None:
    return min((seat for seat in seats if seat.is_idle), key=lambda seat: (seat.has_asked, seat.since), default=None)
