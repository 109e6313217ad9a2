"""The audit trail: who changed what, from where, and which requests were refused.

An entry is written in the same commit as its change, so that neither exists without the other. The leader
then seals entries into a chain: each link holds the hash of the one before, so that nothing can be changed, removed or
put in between without all that follows being written anew.
"""

from datetime import datetime

import msgspec

from rota.model.codec import stored


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a change."""

    key: str
    """The key of the store."""

    before: str | None
    """The value before, as text; None if the key was absent."""

    after: str | None
    """The value after; None if the key was deleted."""


@stored()
class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done, or refused."""

    id: str
    """The id of the entry; ids sort by time."""

    at: datetime
    """When, by the clock of the process that wrote it."""

    by: str
    """The name of the token, or the user who ran the command; empty for an unknown caller."""

    origin: str
    """The door and the address: `http 10.0.0.7`, `command box`."""

    what: str
    """The operation; for a refusal, the request."""

    changes: list[Changed] = msgspec.field(default_factory=list)
    """The keys that were changed."""

    refused: str = ""
    """Why it was refused; empty if it was done."""

    count: int = 1
    """How many refusals this one line stands for."""


@stored()
class AuditLink(msgspec.Struct, frozen=True, kw_only=True):
    """An entry at its place in the chain."""

    number: int
    previous: str
    """The hash of the link before."""

    hash: str
    entry: AuditEntry
    sealed: datetime | None = None
    """When it was sealed, by the store's clock: from then on its age counts. None where an older Rota sealed it."""


@stored()
class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chain begins and where it ends."""

    number: int = 0
    """Of the last link; 0 if there is none."""

    hash: str = ""
    """Of the last link."""

    first: int = 1
    """Of the oldest link that is kept."""

    before_first: str = ""
    """The hash of the link before that one."""
