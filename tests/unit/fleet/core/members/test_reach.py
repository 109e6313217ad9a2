"""Reach: which nodes cannot be called by others, and where a node listens if nobody said."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.fleet.core.members.reach import are_apart, faults, refusal, settled
from rota.kit.record import replace
from rota.model.config import NodeConfig
from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Node, Role


def node(name: str, *, network: str = "", host: str = "", grpc: str = "", mark: str = "aa") -> Node:
    return Node(
        id=NodeId(name),
        session=SessionId("s"),
        lease=LeaseId("l"),
        role=Role.BOTH,
        home=name,
        host=host or f"host-of-{name}",
        pid=1,
        since=datetime(2026, 1, 1, tzinfo=UTC),
        lease_ttl=timedelta(seconds=10),
        http="127.0.0.1:7700",
        grpc=grpc or "127.0.0.1:7701",
        network=network or name,
        token_mark=mark,
    )


def why_not(one: Node, *others: Node, is_by_hand: bool = False, has_own_token: bool = False) -> str | None:
    return refusal(one, others, is_by_hand=is_by_hand, has_own_token=has_own_token)


def test_nodes_are_apart_by_their_loopback_and_those_of_an_older_rota_by_their_host() -> None:
    assert are_apart(node("a", network="1", host="box"), node("b", network="2", host="box"))
    assert not are_apart(node("a", network="1", host="x"), node("b", network="1", host="y"))
    old = replace(node("b", host="box"), network="")
    assert not are_apart(node("a", network="1", host="box"), old)
    assert are_apart(node("a", network="1", host="other"), old)


def test_a_loopback_address_is_refused_where_others_are_on_other_machines() -> None:
    assert why_not(node("a")) is None
    assert why_not(node("a", network="1"), node("b", network="1")) is None
    refused = why_not(node("a"), node("b", grpc="10.0.0.2:7701"))
    assert refused is not None
    assert "would advertise 127.0.0.1:7701" in refused
    assert "node b on host-of-b" in refused
    assert all(setting in refused for setting in ("--tls", "--insecure", "--advertise", "--http", "--grpc"))
    assert why_not(node("a", grpc="10.0.0.1:7701"), node("b")) is None  # the fault is b's


def test_an_address_that_somebody_named_is_taken() -> None:
    assert why_not(node("a"), node("b"), is_by_hand=True) is None


def test_an_earlier_life_of_the_node_itself_is_no_other() -> None:
    assert why_not(node("a", network="1"), node("a", network="2")) is None


def test_a_token_that_the_node_made_for_itself_is_refused_where_others_show_another() -> None:
    one, other = node("a", grpc="10.0.0.1:1", mark="aa"), node("b", grpc="10.0.0.2:1", mark="bb")
    refused = why_not(one, other, has_own_token=True)
    assert refused is not None
    assert "--token file:PATH" in refused
    assert why_not(one, other) is None  # it may be a rotation
    assert why_not(one, replace(other, token_mark="aa"), has_own_token=True) is None
    assert why_not(one, replace(other, token_mark=""), has_own_token=True) is None  # an older Rota does not say


def test_faults_name_the_node_where_they_are_to_be_fixed() -> None:
    far, near = node("far", grpc="10.0.0.1:1"), node("near")
    assert next(iter(faults([far, near])))[0] == "near"
    assert len(list(faults([far, near]))) == 1
    assert list(faults([node("a", network="1"), node("b", network="1", mark="bb")])) == []
    assert list(faults([far, node("b", grpc="10.0.0.2:1", mark="bb")])) == [], "two tokens are good during a rotation"


def config(**more: object) -> NodeConfig:
    return NodeConfig(store="etcd://10.0.0.9", data=Path("d"), **more)  # type: ignore[arg-type]


def test_doors_that_nobody_set_open_where_the_way_to_the_store_begins() -> None:
    found = settled(config(insecure=True), is_default=True, route="10.0.0.5")
    assert (found.http, found.grpc, found.advertised) == ("10.0.0.5:7700", "10.0.0.5:7701", "10.0.0.5")
    six = settled(config(insecure=True), is_default=True, route="fd00::5")
    assert (six.http, six.advertised) == ("[fd00::5]:7700", "fd00::5")


def test_a_node_that_listens_everywhere_advertises_that_address() -> None:
    everywhere = config(insecure=True, http="0.0.0.0:7700", grpc="0.0.0.0:7701")
    found = settled(everywhere, is_default=False, route="10.0.0.5")
    assert (found.grpc, found.advertised) == ("0.0.0.0:7701", "10.0.0.5")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(config(), id="nobody said that others may reach it"),
        pytest.param(config(insecure=True, advertise="n1.example"), id="an address is named"),
    ],
)
def test_what_is_said_stays(given: NodeConfig) -> None:
    assert settled(given, is_default=True, route="10.0.0.5") == given


def test_without_a_way_nothing_changes() -> None:
    assert settled(config(insecure=True), is_default=True, route=None) == config(insecure=True)


def test_with_certificates_a_host_that_they_name_is_advertised() -> None:
    by_name = settled(config(tls=Path("t")), is_default=True, route="10.0.0.5", certified=("n1.example",))
    assert (by_name.grpc, by_name.advertised) == ("10.0.0.5:7701", "n1.example")
    both = settled(config(tls=Path("t")), is_default=True, route="10.0.0.5", certified=("n1.example", "10.0.0.5"))
    assert both.advertised == "10.0.0.5"
