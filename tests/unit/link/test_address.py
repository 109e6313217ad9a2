"""Addresses of nodes: what can be written, and what is said about the rest."""

import pytest

from rota.link.address import Address, parse
from rota.model.errors import Invalid


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("grpc://127.0.0.1:7701", Address("grpc", "127.0.0.1", 7701)),
        ("grpc://node-1.fleet.example:7701", Address("grpc", "node-1.fleet.example", 7701)),
        ("grpc://localhost:0", Address("grpc", "localhost", 0)),
        ("grpc://[::1]:7701", Address("grpc", "::1", 7701)),
        ("grpc://[fe80::1%eth0]:7701", Address("grpc", "fe80::1%eth0", 7701)),
        ("memory://a", Address("memory", "a")),
        ("memory://node-1.b", Address("memory", "node-1.b")),
    ],
)
def test_an_address_is_read_and_written_the_same(text: str, address: Address) -> None:
    assert parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no scheme"),
        ("127.0.0.1:7701", "has no scheme"),
        ("://a:1", "has no scheme"),
        ("grpc://", "has no port"),
        ("grpc://a", "has no port"),
        ("grpc://[::1]", "has no port"),
        ("grpc://a:", '"" is not a port'),
        ("grpc://a:x", '"x" is not a port'),
        ("grpc://a:65536", "ports are 0-65535"),
        ("grpc://a:-1", "is not a port"),
        ("grpc://a:٣", "is not a port"),
        ("grpc://:7701", '"" is not a host'),
        ("grpc://::1:7701", "stands in brackets"),
        ("grpc://[a]:7701", '"a" is not a host'),
        ("grpc://[]:7701", '"" is not a host'),
        ("grpc://a b:7701", '"a b" is not a host'),
        ("grpc://u:p@a:7701", "stands in brackets"),
        ("grpc://a/b:7701", '"a/b" is not a host'),
        ("grpc://a:7701/", "is not a port"),
        ("grpc://" + "a" * 254 + ":1", "is not a host"),
        ("memory://", "a name has letters"),
        ("memory://a/b", "a name has letters"),
    ],
)
def test_what_is_no_address_says_why(text: str, why: str) -> None:
    with pytest.raises(Invalid) as error:
        parse(text)
    assert why in str(error.value)
