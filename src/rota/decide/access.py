"""Access: who may do what at a node's doors.

A caller shows a token; the gate knows some, and what each of them opens. `Gate.judge` says who the caller is and what
it may do, or why it is turned away, in a sentence that tells where a token is found. Each door asks it and answers in
its own way.

Tokens are compared by their digests, in a time that does not depend on where they differ: who measures how long a
refusal takes learns nothing. So the gate does not hold a single token, and none can be read from it.

What the store knows of a token counts more than what a node found in its folder: who takes a token back takes it from
every node.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from rota.model.token import Access, TokenRecord

__all__ = ["Access", "Admitted", "Gate", "Known", "TurnedAway", "digest", "known", "known_of", "mark", "refusal"]

SCHEME = "bearer"
OPERATOR = "operator"
"""Who comes with the token of a node's own folder."""


@dataclass(frozen=True)
class Known:
    """A token that opens something; its digest is all that is kept of it."""

    digest: bytes
    access: Access
    name: str = OPERATOR
    until: datetime | None = None
    """When it ends to open anything; None: never."""

    is_revoked: bool = False


@dataclass(frozen=True)
class Admitted:
    """Who was let in, and what it may do."""

    name: str
    access: Access


@dataclass(frozen=True)
class TurnedAway:
    """Why a caller is turned away."""

    why: str
    is_stranger: bool
    """Did it fail to show a token that is good? Otherwise it is known, and may not do this."""

    name: str = ""
    """Whose token it showed, if it is one that is or was known."""

    is_too_often: bool = False
    """Was it turned away so often that it should wait?"""


@dataclass(frozen=True)
class Gate:
    """The tokens that are known here."""

    known: tuple[Known, ...]
    where: str
    """Where a caller finds one, as the end of a sentence."""

    def judge(self, authorization: str | None, needed: Access, now: datetime) -> Admitted | TurnedAway:
        """Who the caller with this header is, if what it may do is enough; otherwise why it is turned away."""
        shown = _token(authorization)
        if shown is None:
            return TurnedAway(f"this needs a token; send the header authorization: Bearer TOKEN, {self.where}", True)
        found = digest(shown)
        # All of them, also behind one that fits: how long it takes tells nothing.
        held = [known for known in self.known if hmac.compare_digest(known.digest, found)]
        if not held:
            return TurnedAway(f"this token is not known here; send the fleet's own, {self.where}", True)
        return _judged(held[0], needed, now)

    def with_records(self, records: Iterable[TokenRecord]) -> "Gate":
        """A gate that also knows these; where it knew one of their tokens already, the record counts."""
        first = tuple(each for record in records for each in known_of(record))
        return replace(self, known=(*first, *self.known))


def known(token: str, access: Access, name: str = OPERATOR) -> Known:
    """A token as a gate knows it."""
    return Known(digest(token), access, name)


def known_of(record: TokenRecord) -> tuple[Known, ...]:
    """A token of the store as a gate knows it: the newest, and the one before it while that is still taken."""
    is_revoked = record.revoked is not None
    newest = Known(bytes.fromhex(record.digest), record.access, record.name, record.expires, is_revoked)
    if not record.older or record.older_until is None:
        return (newest,)
    ends = min(record.older_until, record.expires) if record.expires else record.older_until
    return newest, Known(bytes.fromhex(record.older), record.access, record.name, ends, is_revoked)


def refusal(held: Access, needed: Access, name: str = "") -> TurnedAway | None:
    """Why what a known caller holds is not enough; None if it is."""
    if held.covers(needed):
        return None
    return TurnedAway(f"this needs a token for {needed}, and yours is for {held}; come with another", False, name)


def mark(token: str) -> str:
    """What shows whether two tokens are the same, and nothing of what they are."""
    return digest(token).hex()[:8]


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _judged(held: Known, needed: Access, now: datetime) -> Admitted | TurnedAway:
    if held.is_revoked:
        return TurnedAway(f"token {held.name} was revoked; ask an admin of the fleet for another", True, held.name)
    if held.until is not None and held.until <= now:
        ended = f"{held.until:%Y-%m-%d %H:%M:%S} UTC"
        return TurnedAway(
            f"token {held.name} expired at {ended}; ask an admin of the fleet for another", True, held.name
        )
    return refusal(held.access, needed, held.name) or Admitted(held.name, held.access)


def _token(authorization: str | None) -> str | None:
    """What stands behind `Bearer`, if anything does."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == SCHEME else None
