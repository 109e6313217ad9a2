"""Tokens: their access and their expiry. Only the digest of a token is ever kept."""

from datetime import datetime
from enum import StrEnum

import msgspec

from rota.model.codec import stored


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
        """Does this access include `other`?"""
        return _PLACES[self] >= _PLACES[needed]


_PLACES = {access: place for place, access in enumerate(Access)}


@stored()
class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token that the fleet knows."""

    name: str
    """The name of the token."""

    access: Access
    """The role: what the token allows."""

    digest: str
    """SHA-256 of the token, in hex. A token is random and long, so a slow hash would protect nothing."""

    made: datetime
    """When the token itself was made: a rotation makes another one."""

    by: str
    """Who made it."""

    expires: datetime | None = None
    """None: never."""

    older: str = ""
    """The digest of the token before the last rotation; empty if it is not known any more."""

    older_until: datetime | None = None
    """Until when that one is taken, too."""

    revoked: datetime | None = None
    """When it was taken back; what is revoked stays so."""


@stored()
class DigestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A permanent note: a token of this name has, or had, the digest in the key."""

    name: str
    at: datetime
    """When it was noted."""


@stored()
class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that has logged in. Its id is a secret of the browser's; the key has the digest of it."""

    digest: str
    """Of the token that it logged in with, in hex: the session opens what that one opens, and only while it does."""

    until: datetime
    """When it ends at the latest."""
