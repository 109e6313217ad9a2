"""A term: one leadership, and the fence around everything it writes.

Every write of a leader goes through `Term.commit`, which expects the leader key at the revision that made this term,
and the incarnation it was elected in. Once either has changed, the store refuses the write, however late it arrives and
even if the sender still believes that it leads. The check of the lease before sending only saves a useless call.

`Term.store` writes through the fence as well, so a chore of the leader cannot write past it. Only compacting history
(`compact`) has no fence; doing that twice, or late, does no harm.

Revisions are counted by each store for itself. A restored store may come to have a leader key at the very revision of
a term of the store it was copied from; the incarnation, whose key has a random name, distinguishes them.
"""

from collections.abc import Iterable

from rota.model import keys
from rota.model.errors import Conflict, TermOver
from rota.model.ids import Revision, TermNumber
from rota.store.around import StoreAround
from rota.store.leases.keeper import LeaseKeeper
from rota.store.port import At, Expect, Store, Write


class Term:
    """The right to write as leader, while it lasts."""

    def __init__(self, number: TermNumber, store: Store, keeper: LeaseKeeper, incarnation: At) -> None:
        self.number = number
        self.store: Store = _Fenced(store, self)
        self._unfenced = store
        self.keeper = keeper
        self.incarnation = incarnation
        self.fence: tuple[Expect, ...] = (At(keys.LEADER, Revision(number)), incarnation)
        self.is_orphaned = False
        """The store was found in another incarnation: the session is over, not only the term."""

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


class _Fenced(StoreAround):
    """A store that is read as it is, and written through the fence of a term."""

    def __init__(self, store: Store, term: Term) -> None:
        super().__init__(store)
        self._term = term

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return await self._term.commit(*writes, expect=expect)
