"""Hosts of a URL as endpoints, and endpoints as gRPC wants them."""

import pytest

from rota.model.errors import Invalid, Unavailable
from rota.store.etcd.endpoints import EtcdEndpoint, parse, target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-1", EtcdEndpoint("node-1", 2379)),
        ("node-1:1234", EtcdEndpoint("node-1", 1234)),
        ("10.0.0.1:1234", EtcdEndpoint("10.0.0.1", 1234)),
        ("[::1]", EtcdEndpoint("::1", 2379)),
        ("[::1]:1234", EtcdEndpoint("::1", 1234)),
    ],
)
def test_parse(text: str, expected: EtcdEndpoint) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", [":1234", "host:", "host:port", "host:0", "host:65536", "host:-1", "host:²"])
def test_a_host_that_is_none_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="write host, host:port"):
        parse(text)


async def test_one_host_is_left_to_grpc_to_resolve() -> None:
    assert await target([EtcdEndpoint("etcd.example", 2379)], "etcd://…") == "dns:///etcd.example:2379"
    assert await target([EtcdEndpoint("::1", 2379)], "etcd://…") == "dns:///[::1]:2379"


async def test_several_become_a_list_of_addresses() -> None:
    members = [EtcdEndpoint("127.0.0.1", 1), EtcdEndpoint("127.0.0.2", 2)]
    assert await target(members, "etcd://…") == "ipv4:127.0.0.1:1,127.0.0.2:2"
    assert await target([EtcdEndpoint("::1", 1), EtcdEndpoint("::1", 2)], "etcd://…") == "ipv6:[::1]:1,[::1]:2"


async def test_a_member_without_an_address_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    members = [EtcdEndpoint("127.0.0.1", 1), EtcdEndpoint("nosuch.invalid", 2), EtcdEndpoint("::1", 3)]
    assert await target(members, "etcd://…") == "ipv4:127.0.0.1:1"
    assert sorted(record.member for record in caplog.records) == ["[::1]:3", "nosuch.invalid:2"]


async def test_no_address_at_all_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"no address found for a\.invalid:1, b\.invalid:2"):
        await target([EtcdEndpoint("a.invalid", 1), EtcdEndpoint("b.invalid", 2)], "etcd://…")
