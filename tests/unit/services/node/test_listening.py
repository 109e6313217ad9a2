"""Listening sockets: bound all or none, and taken over where they stay."""

import socket
from collections.abc import Iterator

import pytest

from rota.services.node.listening import CannotListen, Listening, Wanted, listen
from tests.kit.servers import free_port


@pytest.fixture
def port() -> int:
    return free_port()


def wanted(port: int, *hosts: str, tcp: bool = True, udp: bool = False) -> Wanted:
    return Wanted(hosts or ("127.0.0.1",), port, tcp, udp)


@pytest.fixture
def old(port: int) -> Iterator[Listening]:
    found = listen("logic", wanted(port, udp=True))
    yield found
    found.close()


def test_port_0_is_the_same_for_all() -> None:
    found = listen("logic", wanted(0, "127.0.0.1", "127.0.0.2", udp=True))
    ports = {sock.getsockname()[1] for sock in (*found.tcp.values(), *found.udp.values())}
    assert len(ports) == 1
    assert len(found.addresses) == 4
    found.close()


def test_what_stays_is_taken_over(old: Listening, port: int) -> None:
    new = listen("logic", wanted(port, "127.0.0.1", "127.0.0.2"), old)
    assert new.tcp["127.0.0.1"] is old.tcp["127.0.0.1"]
    assert (list(new.tcp), list(new.udp)) == (["127.0.0.1", "127.0.0.2"], [])
    old.close(but=new)
    assert old.udp["127.0.0.1"].fileno() == -1
    assert new.tcp["127.0.0.1"].fileno() != -1
    new.close()


def test_a_failure_leaves_what_is_there(old: Listening, port: int) -> None:
    with pytest.raises(CannotListen, match=f":{port} is taken"):
        listen("logic", wanted(port, "127.0.0.1", "0.0.0.0"), old)
    assert old.tcp["127.0.0.1"].fileno() != -1


def test_another_port_shares_nothing(old: Listening) -> None:
    assert old.kept_for(wanted(free_port(), udp=True)).addresses == ()


def test_a_host_that_is_not_of_this_machine_is_told() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        listen("logic", wanted(0, "192.0.2.1"))
    with pytest.raises(CannotListen, match="not known here; correct host="):
        listen("logic", wanted(0, "no.such.host.invalid"))


def test_copies_are_descriptors_of_their_own(old: Listening) -> None:
    copies = [socket.socket(fileno=fd) for fd in old.copies()]
    assert [copy.getsockname() for copy in copies] == [("127.0.0.1", old.wanted.port)] * 2
    for copy in copies:
        copy.close()
    assert old.tcp["127.0.0.1"].fileno() != -1
