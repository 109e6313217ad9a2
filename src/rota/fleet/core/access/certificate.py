"""Certificates that were taken back."""

from datetime import datetime

import msgspec

from rota.model.codec import stored


@stored()
class RevokedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that nobody may come in with any more."""

    serial: str
    """In hex."""

    name: str
    """Who it was made for."""

    at: datetime
    by: str
    ends: datetime | None = None
    """When it would have ended anyway; then this record can go."""
