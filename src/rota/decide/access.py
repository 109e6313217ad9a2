"""Access: who may do what at a node's doors.

A caller shows a token; the gate knows some, and what each of them opens. `Gate.judge` says what the caller may do, or
why it is turned away, in a sentence that tells where a token is found. Each door asks it and answers in its own way.

Tokens are compared by their digests, in a time that does not depend on where they differ: who measures how long a
refusal takes learns nothing. So the gate does not hold a single token, and none can be read from it.
"""

import hashlib
import hmac
from dataclasses import dataclass
from enum import StrEnum

SCHEME = "bearer"


class Access(StrEnum):
    """What a caller is allowed to do; each includes those above it."""

    VIEW = "view"
    """Look."""

    OPERATE = "operate"
    """Change what the fleet does."""

    ADMIN = "admin"
    """Change who may do what."""

    NODE = "node"
    """Speak as a node of the fleet, which has the store and so everything."""

    def covers(self, needed: "Access") -> bool:
        """Is it enough for that?"""
        order = list(Access)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Known:
    """A token that opens something; its digest is all that is kept of it."""

    digest: bytes
    access: Access


@dataclass(frozen=True)
class TurnedAway:
    """Why a caller is turned away."""

    why: str
    is_stranger: bool
    """Did it fail to show a token we know? Otherwise it is known, and may not do this."""


@dataclass(frozen=True)
class Gate:
    """The tokens that are known here."""

    known: tuple[Known, ...]
    where: str
    """Where a caller finds one, as the end of a sentence."""

    def judge(self, authorization: str | None, needed: Access) -> Access | TurnedAway:
        """What the caller with this header may do, if that is enough; otherwise why it is turned away."""
        shown = _token(authorization)
        if shown is None:
            return TurnedAway(f"this needs a token; send the header authorization: Bearer TOKEN, {self.where}", True)
        digest = _digest(shown)
        held = [known.access for known in self.known if hmac.compare_digest(known.digest, digest)]
        if not held:
            return TurnedAway(f"this token is not known here; send the fleet's own, {self.where}", True)
        return refusal(held[0], needed) or held[0]


def known(token: str, access: Access) -> Known:
    """A token as a gate knows it."""
    return Known(_digest(token), access)


def refusal(held: Access, needed: Access) -> TurnedAway | None:
    """Why what a known caller holds is not enough; None if it is."""
    if held.covers(needed):
        return None
    return TurnedAway(f"this needs a token for {needed}, and yours is for {held}; come with another", False)


def _token(authorization: str | None) -> str | None:
    """What stands behind `Bearer`, if anything does."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == SCHEME else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
