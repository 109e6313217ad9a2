"""The fence of a term: the leader key, and the incarnation it was elected in."""

import io

import pytest

from rota.fleet.leading.term import Term
from rota.fleet.members.session import join
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Conflict, TermOver
from rota.model.ids import NodeId, SessionId, TermNumber
from rota.model.node import Leader
from rota.store import Absent, At, Put, Store, open_store
from rota.store.tools import backup, dumpfile
from tests.kit.identities import identity


async def elected(store: Store) -> Term:
    """A node that has just won an election."""
    session = await join(store, identity(), SYSTEM)
    record = Leader(node=NodeId("a"), session=SessionId("s"), since=SYSTEM.wall())
    put = Put(keys.LEADER, codec.encode(record), session.keeper.lease)
    number = await store.commit(put, expect=[Absent(keys.LEADER), session.incarnation])
    return Term(TermNumber(number), store, session.keeper, session.incarnation)


async def waste_revisions(store: Store, until: int) -> None:
    while await store.revision() < until:
        await store.commit(Put("/filler", b""))


async def test_a_term_from_before_the_restore_is_refused_although_the_leader_key_has_its_revision() -> None:
    async with open_store("memory://") as original, open_store("memory://") as restored:
        await waste_revisions(original, 50)
        old = await elected(original)
        await old.commit(Put("/x", b"1"))
        file = io.BytesIO()
        await backup.dump(original, file)
        await backup.load(restored, dumpfile.Dump(file, "x"), SYSTEM)
        await waste_revisions(restored, old.number - 2)
        new = await elected(restored)
        assert new.number == old.number

        late = Term(old.number, restored, old.keeper, old.incarnation)
        assert late.keeper.may_act
        with pytest.raises(TermOver):
            await late.commit(Put("/x", b"2"))
        assert late.is_orphaned
        entry = await restored.get("/x")
        assert entry is not None
        assert entry.value == b"1"
        await new.commit(Put("/x", b"3"))
        await restored.commit(Put("/x", b"4"), expect=[At(keys.LEADER, old.number)])  # all that stood in the way before


async def test_either_part_of_the_fence_ends_the_term_and_nothing_else_does() -> None:
    async with open_store("memory://") as store:
        term = await elected(store)
        with pytest.raises(Conflict):
            await term.commit(Put("/x", b"1"), expect=[At("/x", term.incarnation.revision)])
        assert not term.is_orphaned
        await store.revoke(term.keeper.lease)
        with pytest.raises(TermOver):
            await term.commit(Put("/x", b"1"))
        assert not term.is_orphaned
