"""Access: who may do what at a node's doors.

A caller presents a token; the gate knows the tokens and the access of each. `Gate.judge` returns who the caller is and
what it may do, or why it is refused, in a sentence that says where a token is found. Each door calls it and answers in
its own way.

Tokens are looked up by their digests: the time that a refusal takes reveals nothing about a token, and does not grow
with their number. The gate holds only digests, so no token can be read from it.

A record in the store overrides what a node found in its folder: a revoked token is refused by every node. That holds
after its record is deleted, too: a digest that a record ever named is accepted only while a record names it. A token of
a node's folder is refused until the store was asked about it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from rota.fleet.core.access.token import Access, TokenRecord
from rota.kit.record import replace

__all__ = [
    "Access",
    "AdmittedCaller",
    "Gate",
    "KnownToken",
    "TurnedAway",
    "by_digest",
    "digest",
    "known",
    "known_of",
    "mark",
    "refusal",
]

SCHEME = "bearer"
OPERATOR = "operator"
"""The name of a caller with the token of a node's own folder."""

WHERE = "which is in the file that the node's setting `token` names, or in the file `token` of its data folder"


class KnownToken(msgspec.Struct, frozen=True):
    """A token with some access; only its digest is kept."""

    digest: bytes
    access: Access
    name: str = OPERATOR
    until: datetime | None = None
    """When it expires; None: never."""

    is_revoked: bool = False
    is_replaced: bool = False
    """Was its record in the store deleted?"""

    is_unsure: bool = False
    """Is it unknown yet whether the store has revoked it?"""

    def opens(self, needed: Access, now: datetime) -> bool:
        """Does it grant this access now?"""
        return self.access.covers(needed) and isinstance(_judged(self, needed, now), AdmittedCaller)


class AdmittedCaller(msgspec.Struct, frozen=True):
    """An admitted caller, and what it may do."""

    name: str
    access: Access


class TurnedAway(msgspec.Struct, frozen=True):
    """Why a caller is refused."""

    why: str
    is_stranger: bool
    """Did it present no valid token? Otherwise it is known, and lacks the right."""

    name: str = ""
    """The name of the token it presented, if that is or was known."""

    is_too_often: bool = False
    """Has it been refused so often that it should wait?"""

    is_unsure: bool = False
    """Is it not known yet whether the token is valid? Then the same call may be admitted a moment later."""

    is_foreign_page: bool = False
    """Was the request sent by a page of another site, with the cookie of a session?"""


class Gate(msgspec.Struct, frozen=True):
    """The tokens that are known here."""

    known: tuple[KnownToken, ...]
    """The node's own token."""

    where: str = WHERE
    """Where a caller finds a token, as the end of a sentence. Strangers see it, so it names no path."""

    recorded: Mapping[bytes, KnownToken] = msgspec.field(default_factory=dict)
    """The store's tokens by digest; they override the node's own. The owner of this mapping keeps it up to date."""

    def judge(self, authorization: str | None, needed: Access, now: datetime) -> AdmittedCaller | TurnedAway:
        """The caller with this header, if its access is enough; otherwise why it is refused."""
        shown = _token(authorization)
        if shown is None:
            return TurnedAway(f"this needs a token; send the header authorization: Bearer TOKEN, {self.where}", True)
        return self.judge_digest(digest(shown), needed, now)

    def judge_digest(self, found: bytes, needed: Access, now: datetime) -> AdmittedCaller | TurnedAway:
        """The same, of a token with this digest."""
        held = self.recorded.get(found) or next((each for each in self.known if each.digest == found), None)
        if held is None:
            return TurnedAway(f"this token is not known here; send the fleet's own, {self.where}", True)
        return _judged(held, needed, now)

    def with_records(
        self,
        recorded: Mapping[bytes, KnownToken],
        once: Mapping[bytes, str] = MappingProxyType({}),
        unsure: Collection[bytes] = (),
    ) -> "Gate":
        """A gate that also knows these; where it knew one of their tokens already, the record counts.

        `once` has the digests that records ever named, and under which name; `unsure` those that the store was not
        asked about yet.
        """
        own = tuple(
            replace(each, name=once[each.digest], is_replaced=True)
            if each.digest in once
            else replace(each, is_unsure=each.digest in unsure)
            for each in self.known
        )
        return replace(self, known=own, recorded=recorded)

    def opening(self, needed: Access, now: datetime) -> list[bytes]:
        """The digests of the tokens that grant this access now, sorted."""
        best = {**{each.digest: each for each in reversed(self.known)}, **self.recorded}
        return sorted(digest for digest, each in best.items() if each.opens(needed, now))


def known(token: str, access: Access, name: str = OPERATOR) -> KnownToken:
    """A token as a gate knows it."""
    return KnownToken(digest(token), access, name)


def by_digest(records: Iterable[TokenRecord]) -> dict[bytes, KnownToken]:
    """Tokens of the store as a gate looks them up."""
    return {each.digest: each for record in records for each in known_of(record)}


def known_of(record: TokenRecord) -> tuple[KnownToken, ...]:
    """A token of the store as a gate knows it: the newest, and the one before it while that is still taken."""
    is_revoked = record.revoked is not None
    newest = KnownToken(bytes.fromhex(record.digest), record.access, record.name, record.expires, is_revoked)
    if not record.older or record.older_until is None:
        return (newest,)
    ends = min(record.older_until, record.expires) if record.expires else record.older_until
    return newest, KnownToken(bytes.fromhex(record.older), record.access, record.name, ends, is_revoked)


def refusal(held: Access, needed: Access, name: str = "") -> TurnedAway | None:
    """Why a known caller's access is not enough; None if it is."""
    if held.covers(needed):
        return None
    return TurnedAway(f"this needs a token for {needed}, and yours is for {held}; come with another", False, name)


def mark(token: str) -> str:
    """A short mark by which two tokens can be compared without revealing them."""
    return digest(token).hex()[:8]


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _judged(held: KnownToken, needed: Access, now: datetime) -> AdmittedCaller | TurnedAway:
    if held.is_revoked:
        return TurnedAway(f"token {held.name} was revoked; ask an admin of the fleet for another", True, held.name)
    if held.is_replaced:
        sentence = f"token {held.name} was rotated, revoked or deleted, and this is an old one; use the present one"
        return TurnedAway(sentence, True, held.name)
    if held.is_unsure:
        sentence = (
            "this node has not reached the store since it started, and cannot know yet whether this token is good"
        )
        return TurnedAway(f"{sentence}; retry in a moment, or use another node", True, is_unsure=True)
    if held.until is not None and held.until <= now:
        ended = f"{held.until:%Y-%m-%d %H:%M:%S} UTC"
        return TurnedAway(
            f"token {held.name} expired at {ended}; ask an admin of the fleet for another", True, held.name
        )
    return refusal(held.access, needed, held.name) or AdmittedCaller(held.name, held.access)


def _token(authorization: str | None) -> str | None:
    """The token after `Bearer`, if there is one."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == SCHEME else None
