"""Revoked certificates."""

from datetime import datetime

import msgspec

from rota.model.codec import stored


@stored()
class RevokedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that every node refuses."""

    serial: str
    """Its serial number, in hex."""

    name: str
    """The name it was issued for."""

    at: datetime
    by: str
    ends: datetime | None = None
    """When it expires; after that this record can be deleted."""
