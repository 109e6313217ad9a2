"""Access: who may do what at a node's doors.

A caller shows a token; the gate knows some, and what each of them opens. `Gate.judge` says who the caller is and what
it may do, or why it is turned away, in a sentence that tells where a token is found. Each door asks it and answers in
its own way.

Tokens are looked up by their digests: who measures how long a refusal takes learns nothing of a token, and it takes no
longer where there are thousands. So the gate does not hold a single token, and none can be read from it.

What the store knows of a token counts more than what a node found in its folder: who takes a token back takes it from
every node. That holds after its record has gone, too: a digest that a record ever named opens something only while a
record names it. A token of a node's folder opens nothing until the store was asked about it.
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
"""Who comes with the token of a node's own folder."""

WHERE = "which is in the file that the node's setting `token` names, or in the file `token` of its data folder"


class KnownToken(msgspec.Struct, frozen=True):
    """A token that opens something; its digest is all that is kept of it."""

    digest: bytes
    access: Access
    name: str = OPERATOR
    until: datetime | None = None
    """When it ends to open anything; None: never."""

    is_revoked: bool = False
    is_replaced: bool = False
    """Did a record of the store name it once, and none does now?"""

    is_unsure: bool = False
    """Was the store not asked yet whether it was taken back?"""

    def opens(self, needed: Access, now: datetime) -> bool:
        """Does it open that now?"""
        return self.access.covers(needed) and isinstance(_judged(self, needed, now), AdmittedCaller)


class AdmittedCaller(msgspec.Struct, frozen=True):
    """Who was let in, and what it may do."""

    name: str
    access: Access


class TurnedAway(msgspec.Struct, frozen=True):
    """Why a caller is turned away."""

    why: str
    is_stranger: bool
    """Did it fail to show a token that is good? Otherwise it is known, and may not do this."""

    name: str = ""
    """Whose token it showed, if it is one that is or was known."""

    is_too_often: bool = False
    """Was it turned away so often that it should wait?"""

    is_unsure: bool = False
    """Is it not known yet whether the token is good? Then the same call may be let in a moment later."""

    is_foreign_page: bool = False
    """Did a page of another site send it with the cookie of a session?"""


class Gate(msgspec.Struct, frozen=True):
    """The tokens that are known here."""

    known: tuple[KnownToken, ...]
    """The node's own."""

    where: str = WHERE
    """Where a caller finds one, as the end of a sentence. It is said to strangers, so it names no path."""

    recorded: Mapping[bytes, KnownToken] = msgspec.field(default_factory=dict)
    """Those of the store by their digests; they count more. Who gives them keeps them up to date."""

    def judge(self, authorization: str | None, needed: Access, now: datetime) -> AdmittedCaller | TurnedAway:
        """Who the caller with this header is, if what it may do is enough; otherwise why it is turned away."""
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
        """The digests of the tokens that open that now, sorted."""
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
    """What stands behind `Bearer`, if anything does."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == SCHEME else None
