import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.model.config import (
    EventsConfig,
    NodeConfig,
    RetentionConfig,
    RuntimeConfig,
    Size,
    check_node_id,
    is_loopback,
    split_address,
    split_reference,
)
from rota.model.errors import Invalid


def node(**given: Any) -> NodeConfig:
    return NodeConfig(**{"store": "memory://", "data": Path("x"), **given})


@pytest.mark.parametrize("name", ["a", "web-1", "A.b_c", "0", "x" * 63])
def test_good_node_ids(name: str) -> None:
    check_node_id(name)


@pytest.mark.parametrize("name", ["", "-a", "a/b", "a b", "ä", "x" * 64, "..", "/"])
def test_bad_node_ids(name: str) -> None:
    with pytest.raises(Invalid, match="node id"):
        check_node_id(name)


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), timedelta(hours=2), timedelta(seconds=-5)])
def test_a_lease_ttl_nobody_can_keep_is_refused(ttl: timedelta) -> None:
    with pytest.raises(Invalid, match="lease_ttl"):
        NodeConfig(store="memory://", data=Path("x"), lease_ttl=ttl)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7700", ("127.0.0.1", 7700)),
        ("[::1]:7700", ("::1", 7700)),
        ("localhost:0", ("localhost", 0)),
        (":0", ("127.0.0.1", 0)),
    ],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "7700", "host", "host:", "host:x", "host:65536", "::1:7700", "host:-1", "h:²"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(Invalid, match=r"http: .*write host:port"):
        node(http=address)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, "127.0.0.1", id="loopback"),
        pytest.param({"grpc": "10.0.0.5:1"}, "10.0.0.5", id="where gRPC listens"),
        pytest.param({"grpc": "0.0.0.0:1", "http": "box:2"}, "box", id="everywhere is no place"),
        pytest.param({"grpc": "[::]:1", "http": "0.0.0.0:2"}, "127.0.0.1", id="nothing is known"),
        pytest.param({"grpc": "10.0.0.5:1", "advertise": "box.example"}, "box.example", id="said so"),
    ],
)
def test_the_host_that_others_are_told(given: dict[str, str], expected: str) -> None:
    assert node(**given, insecure=True).advertised == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "localhost", "a.localhost"])
def test_what_leads_to_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.5", "fe80::1%eth0", "box", "localhost.example", "127.1"])
def test_what_may_lead_elsewhere_is_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("name", ["http", "grpc"])
@pytest.mark.parametrize("address", ["0.0.0.0:7", "[::]:7", "10.0.0.5:7", "box:7"])
def test_doors_for_other_machines_need_a_word(name: str, address: str) -> None:
    with pytest.raises(
        Invalid, match=rf"^{name} is {re.escape(address)}.*rota tls init.*rota tls issue.*127\.0\.0\.1:7 .*--insecure"
    ):
        node(**{name: address})
    assert node(**{name: address}, insecure=True).insecure
    assert not node(**{name: address}, tls=Path("tls/n1")).insecure


def test_the_names_of_a_node_are_where_it_listens_and_what_it_says() -> None:
    assert node(http="0.0.0.0:1", grpc="0.0.0.0:2", advertise="Box", insecure=True).hosts == {"box"}
    assert node(http="10.0.0.5:1", grpc="10.0.0.6:2", insecure=True).hosts == {"10.0.0.5", "10.0.0.6"}


@pytest.mark.parametrize(("text", "parts"), [("file:a:b", ("file", "a:b")), ("env:ROTA_X", ("env", "ROTA_X"))])
def test_references(text: str, parts: tuple[str, str]) -> None:
    assert split_reference(text) == parts


@pytest.mark.parametrize("text", ["", "rota_secret", "file:", "env:", "env:a b", "env:1x", "cmd:pass", "FILE:x"])
def test_a_token_itself_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Invalid, match="write file:PATH or env:NAME") as caught:
        node(token=text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"": "x"}, "cannot be a label"), ({"a b": "x"}, "cannot be a label"), ({"zone": "a\nb"}, "value of zone")],
)
def test_bad_labels(labels: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        node(labels=labels)


@pytest.mark.parametrize(
    ("section", "given"),
    [
        (RuntimeConfig, {"hosts": 0}),
        (RuntimeConfig, {"executors": -1}),
        (RuntimeConfig, {"grace": timedelta()}),
        (RuntimeConfig, {"recycle_count": 0}),
        (RuntimeConfig, {"recycle_memory": Size(0)}),
        (RuntimeConfig, {"recycle_age": timedelta()}),
        (EventsConfig, {"entries": 0}),
        (EventsConfig, {"keep": timedelta()}),
        (RetentionConfig, {"every": timedelta()}),
    ],
)
def test_a_value_that_makes_no_sense_is_named(section: type, given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(Invalid, match=f"{name} is .*; it must be"):
        section(**given)
