"""A store around another one: everything is passed on, except for what a subclass overrides.

`fleet.audit.trail` notes who commits, `fleet.leading.term` commits through a leader's fence.
"""

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta

from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store.port import Commit, Entry, Expect, Lease, ScanResult, Store, Write


class StoreAround:
    """Passes every call on to the store that it is around."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, key: Key) -> Entry | None:
        return await self._store.get(key)

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        return await self._store.scan(prefix, after=after, limit=limit, at=at)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return await self._store.commit(*writes, expect=expect)

    def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        return self._store.watch(prefix, after)

    async def grant(self, ttl: timedelta) -> Lease:
        return await self._store.grant(ttl)

    async def renew(self, lease: Lease) -> Instant:
        return await self._store.renew(lease)

    async def revoke(self, lease: LeaseId) -> None:
        await self._store.revoke(lease)

    async def now(self) -> datetime:
        return await self._store.now()

    async def revision(self) -> Revision:
        return await self._store.revision()

    async def compact(self, before: Revision) -> None:
        await self._store.compact(before)

    async def close(self) -> None:
        await self._store.close()
