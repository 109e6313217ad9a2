"""A term: one leadership, and the fence around everything it writes.

Every write of a leader goes through `Term.commit`, which expects the leader key at the revision that made this term,
and the incarnation it was elected in. Once either is gone or another's, the store refuses the write, however late it
arrives and however sure of itself the sender is. The look at the lease before sending only spares a useless call.

The store that a term offers, `Term.store`, writes through the fence as well: what a chore of the leader is given cannot
write behind it. Only forgetting history (`compact`) has no fence; doing that twice, or late, harms nobody.

Revisions are counted by each store for itself. A restored store may come to have a leader key at the very revision of
a term of the store it was copied from; the incarnation, whose key is named at random, tells them apart.
"""

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta

from rota.model import keys
from rota.model.errors import Conflict, TermOver
from rota.model.ids import Instant, Key, LeaseId, Revision, TermNumber
from rota.store.keeper import Keeper
from rota.store.port import At, Commit, Entry, Expect, Lease, Listing, Store, Write


class Term:
    """The right to write as leader, while it lasts."""

    def __init__(self, number: TermNumber, store: Store, keeper: Keeper, incarnation: At) -> None:
        self.number = number
        self.store: Store = _Fenced(store, self)
        self._unfenced = store
        self.keeper = keeper
        self.incarnation = incarnation
        self.fence: tuple[Expect, ...] = (At(keys.LEADER, Revision(number)), incarnation)
        self.is_orphaned = False
        """The store was found in another incarnation: not only the term is over, but the session."""

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        """Write as leader; TermOver if this node is not leader any more."""
        if not self.keeper.may_act:
            raise TermOver(f"term {self.number}: the lease was not renewed in time; nothing was sent")
        return await self.insist(*writes, expect=expect)

    async def insist(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        """Write as leader without looking at the clock first: the fence alone decides."""
        try:
            return await self._unfenced.commit(*writes, expect=(*self.fence, *expect))
        except Conflict as conflict:
            self.is_orphaned |= self.incarnation.key in conflict.keys
            if any(part.key in conflict.keys for part in self.fence):
                raise TermOver(f"term {self.number} is over; nothing was written") from conflict
            raise


class _Fenced:
    """A store that is read as it is, and written through the fence of a term."""

    def __init__(self, store: Store, term: Term) -> None:
        self._store, self._term = store, term

    async def get(self, key: Key) -> Entry | None:
        return await self._store.get(key)

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> Listing:
        return await self._store.scan(prefix, after=after, limit=limit, at=at)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return await self._term.commit(*writes, expect=expect)

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
