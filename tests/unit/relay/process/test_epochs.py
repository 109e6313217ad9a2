"""Which epochs a relay hears of."""

from rota.model import codec, keys
from rota.model.ids import NodeId, Revision
from rota.relay.node.status import epochs
from rota.resources.core.assignment import Assignment
from rota.store.port import Change, Entry

KINDS = frozenset({"single"})


def assigned(resource: str, revision: int, kind: str = "single", **fields: bool) -> Change:
    record = Assignment(kind=kind, resource=resource, slot=0, **{"exclusive": True, **fields})
    key = keys.assignment(NodeId("a"), keys.task(kind, resource, 0))
    return Change(key, Entry(key, codec.encode(record), Revision(revision), Revision(revision), None))


def test_the_epoch_is_the_assignments_revision() -> None:
    assert epochs([assigned("1", 7), assigned("2", 9)], KINDS) == {("single", "1"): 7, ("single", "2"): 9}


def test_one_that_is_to_end_one_that_is_gone_and_others_say_nothing() -> None:
    gone = Change(keys.assignment(NodeId("a"), "single/3#0"), None)
    others = [assigned("1", 7, stopping=True), assigned("2", 8, kind="room"), assigned("4", 9, exclusive=False)]
    assert epochs([gone, *others], KINDS) == {}
