"""Certificates that were taken back."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class RevokedCertificate:
    """A certificate that nobody may come in with any more."""

    serial: str
    """In hex."""

    name: str
    """Who it was made for."""

    at: datetime
    by: str
    ends: datetime | None = None
    """When it would have ended anyway; then this record can go."""
