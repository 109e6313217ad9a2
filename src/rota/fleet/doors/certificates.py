"""Operations on revoked certificates, as plain functions on the store."""

import re
from collections.abc import Sequence
from datetime import datetime

from rota.doors.verbs import needs
from rota.fleet.core.access.certificate import RevokedCertificate
from rota.fleet.core.access.gate import Access
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.store.port import Delete, Put, Store, Write
from rota.store.records import understood

MOST = 50
"""The most certificates revoked in one request."""

_SERIAL = re.compile(r"[0-9a-f]{1,40}")


@needs(Access.ADMIN)
async def revoke_certificates(
    store: Store, clock: Clock, name: str, serials: Sequence[tuple[str, datetime | None]], *, by: str
) -> tuple[RevokedCertificate, ...]:
    """Revoke certificates, by serial and expiry; every node refuses them a moment later.

    Records of certificates that have expired are deleted.
    """
    if not 1 <= len(serials) <= MOST:
        raise Invalid(f"{len(serials)} certificates are to be revoked; from 1 to {MOST} go at a time")
    if wrong := next((serial for serial, _ in serials if not _SERIAL.fullmatch(serial)), None):
        raise Invalid(f'"{wrong[:100]}" is no serial; write it in hex, in small letters')
    now = clock.wall()
    revoked = tuple(RevokedCertificate(serial=serial, name=name, at=now, by=by, ends=ends) for serial, ends in serials)
    before = await list_revoked(store)
    over = [each for each in before if each.ends is not None and each.ends < now and each.serial not in dict(serials)]
    writes: list[Write] = [Put(keys.revoked(each.serial), codec.encode(each)) for each in revoked]
    writes += [Delete(keys.revoked(each.serial)) for each in over[: MOST - 1]]
    await store.commit(*writes)
    return revoked


@needs(Access.ADMIN)
async def list_revoked(store: Store) -> tuple[RevokedCertificate, ...]:
    """List the revoked certificates that have not expired."""
    entries = (await store.scan(keys.REVOKED)).entries
    return tuple(found for entry in entries if (found := understood(RevokedCertificate, entry)))
