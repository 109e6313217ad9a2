"""The chain of the audit trail: sealing entries, and detecting tampering.

The hash of a link is SHA-256 over its number, the previous hash, and its entry as JSON with sorted keys. It uses no
secret: a process that may write to the store can write a whole new chain. But a chain whose head was noted elsewhere
(`verify` shows it) cannot be rewritten undetected: the noted hash must still be in it.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime

import msgspec

from rota.fleet.core.audit.record import AuditEntry, AuditHead, AuditLink

_encoder = msgspec.json.Encoder(order="sorted")


def seal(
    head: AuditHead, entries: Iterable[AuditEntry], at: datetime | None = None
) -> tuple[list[AuditLink], AuditHead]:
    """The links that come next, and where the chain ends with them."""
    links: list[AuditLink] = []
    number, previous = head.number, head.hash
    for entry in entries:
        number += 1
        hash = link_hash(number, previous, entry)
        links.append(AuditLink(number=number, previous=previous, hash=hash, entry=entry, sealed=at))
        previous = hash
    return links, AuditHead(number=number, hash=previous, first=head.first, before_first=head.before_first)


def link_hash(number: int, previous: str, entry: AuditEntry) -> str:
    """The hash that a link with this entry at this place must have."""
    return hashlib.sha256(_encoder.encode([number, previous, msgspec.to_builtins(entry)])).hexdigest()


class Verifier:
    """Walks along a chain; `flaw` says what is wrong with it, as soon as something is."""

    def __init__(self, head: AuditHead, noted: str = "") -> None:
        self._head, self._noted = head, noted
        self._number, self._hash = head.first - 1, head.before_first
        self._has_met_noted = noted in ("", head.before_first)
        self.flaw = ""
        self.doubt = ""
        """What cannot be decided although the existing links are intact; set by `end`."""

        self.links = 0

    def walk(self, link: AuditLink) -> None:
        """Look at the next link."""
        if self.flaw:
            return
        if link.number != self._number + 1:
            self.flaw = f"link {self._number + 1} is missing; the next one there is {link.number}"
        elif link.previous != self._hash:
            self.flaw = f"link {link.number} does not follow on link {self._number}: one of them was changed"
        elif link.hash != link_hash(link.number, link.previous, link.entry):
            self.flaw = f"link {link.number} was changed: its hash does not fit what it says"
        else:
            self._number, self._hash = link.number, link.hash
            self._has_met_noted = self._has_met_noted or link.hash == self._noted
            self.links += 1

    def end(self) -> str:
        """What is wrong with the chain; empty if nothing is."""
        if not self.flaw and (self._number, self._hash) != (self._head.number, self._head.hash):
            self.flaw = f"the chain should end with link {self._head.number}, and ends with {self._number}"
        if not self.flaw and not self._has_met_noted:
            missing = f"the hash {self._noted[:200]} that you noted is not in the chain"
            if self._head.first == 1:
                self.flaw = f"{missing}: it was rewritten"
            else:
                self.doubt = (
                    f"{missing}, which begins with link {self._head.first}: it was of an older link that retention has "
                    "cleared, or the chain was rewritten; note a head more often than links are deleted"
                )
        return self.flaw
