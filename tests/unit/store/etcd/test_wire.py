"""The port's records as etcd's messages, and back."""

import pytest

from rota.model.errors import LeaseLost
from rota.model.ids import LeaseId, Revision
from rota.store import Absent, At, Delete, Entry, Put
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.etcd.wire import NamespaceCodec, lease_number, stale

WIRE = NamespaceCodec("/prod")


def test_keys_go_out_with_the_namespace_and_come_in_without() -> None:
    assert WIRE.outward("/nodes/ä") == "/prod/nodes/ä".encode()
    assert WIRE.inward("/prod/nodes/ä".encode()) == "/nodes/ä"


def test_a_strangers_binary_key_is_shown_somehow() -> None:
    assert WIRE.inward(b"/prod/\xff") == "/\ufffd"


def test_the_schema_is_not_among_the_keys() -> None:
    first, end = WIRE.span("/")
    assert not first <= WIRE.schema_key < end


@pytest.mark.parametrize("prefix", ["/", "/a", "/é", "/\U0010fffd"])
def test_a_span_holds_what_starts_with_the_prefix_and_nothing_else(prefix: str) -> None:
    first, end = WIRE.span(prefix)
    inside = [WIRE.outward(prefix), WIRE.outward(prefix + "z"), WIRE.outward(prefix + "\U0010fffd")]
    assert all(first <= key < end for key in inside)
    assert not first <= WIRE.outward("\x00") < end


def test_an_entry_comes_in_whole() -> None:
    found = pb.KeyValue(key=b"/prod/k", value=b"v", create_revision=3, mod_revision=5, lease=7)
    assert WIRE.entry(found) == Entry("/k", b"v", Revision(3), Revision(5), LeaseId("7"))
    found.ClearField("lease")
    assert WIRE.entry(found).lease is None


def test_a_commit_is_one_transaction() -> None:
    request = WIRE.txn([Put("/p", b"v", LeaseId("7")), Delete("/d")], [At("/e", Revision(5)), Absent("/n")])
    assert request == pb.TxnRequest(
        compare=[
            pb.Compare(target=pb.Compare.MOD, key=b"/prod/e", mod_revision=5),
            pb.Compare(target=pb.Compare.MOD, key=b"/prod/n", mod_revision=0),
        ],
        success=[
            pb.RequestOp(request_put=pb.PutRequest(key=b"/prod/p", value=b"v", lease=7)),
            pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=b"/prod/d")),
        ],
        failure=[
            pb.RequestOp(request_range=pb.RangeRequest(key=b"/prod/e", keys_only=True)),
            pb.RequestOp(request_range=pb.RangeRequest(key=b"/prod/n", keys_only=True)),
        ],
    )


@pytest.mark.parametrize("revision", [0, -1, -5])
def test_at_no_revision_is_not_taken_for_absent(revision: int) -> None:
    (compare,) = WIRE.txn([Delete("/d")], [At("/e", Revision(revision))]).compare
    assert compare.mod_revision < 0


def test_stale_names_those_that_were_not_as_expected() -> None:
    expectations = [At("/same", Revision(5)), At("/moved", Revision(5)), At("/gone", Revision(5)), Absent("/there")]
    found = [5, 6, None, 4]
    response = pb.TxnResponse()
    for revision in found:
        kvs = [] if revision is None else [pb.KeyValue(mod_revision=revision)]
        response.responses.append(pb.ResponseOp(response_range=pb.RangeResponse(kvs=kvs)))
    assert stale(expectations, response) == ["/moved", "/gone", "/there"]


def test_a_lease_is_its_number() -> None:
    assert lease_number(LeaseId("5285715098907288081")) == 5285715098907288081


@pytest.mark.parametrize("lease", ["", "m1", "0", "-1", "²", str(2**63)])
def test_what_etcd_cannot_have_granted_is_lost(lease: str) -> None:
    with pytest.raises(LeaseLost):
        lease_number(LeaseId(lease))
