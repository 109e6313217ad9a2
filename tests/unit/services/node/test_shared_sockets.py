"""Shared sockets: lent to each node that asks, kept while one uses them, and given back."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from itertools import count

import pytest

from rota.services.node.listening import CannotListen
from rota.services.node.pipe import SharedAddress
from rota.services.node.shared_sockets import NotYet, SocketBorrower, SocketLender
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

NUMBERS = count(1)


@pytest.fixture
async def lender() -> AsyncIterator[SocketLender]:
    lender = SocketLender()
    yield lender
    lender.close()


def borrower(lender: SocketLender, name: str = "") -> SocketBorrower:
    return SocketBorrower(lender.connect(name or f"n{next(NUMBERS)}").detach(), lambda: None)


def die(node: SocketBorrower) -> None:
    """As when its process is killed: it gives nothing back."""
    node._channel.close()
    node.close()


def can_bind(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


async def lent(node: SocketBorrower, service: str, port: int, sort: socket.SocketKind) -> socket.socket:
    async def look() -> socket.socket | None:
        try:
            return node.bind(service, "127.0.0.1", port, sort)
        except NotYet:
            return None

    return await eventually(look)


@pytest.mark.parametrize("sort", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
async def test_two_nodes_have_the_same_socket(lender: SocketLender, sort: socket.SocketKind) -> None:
    port = free_port()
    one, other = borrower(lender), borrower(lender)
    with await lent(one, "logic", port, sort) as mine, await lent(other, "logic", port, sort) as theirs:
        assert mine.getsockname() == theirs.getsockname() == ("127.0.0.1", port)
        assert mine.type == sort
    one.close()
    other.close()


@pytest.mark.parametrize("sort", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
async def test_nobody_who_takes_the_socket_lets_the_others_wait_in_a_call(
    lender: SocketLender, sort: socket.SocketKind
) -> None:
    """Whether calls wait is one thing for all who have a socket; a proxy that waits in `accept` serves nobody."""
    port = free_port()
    one, other = borrower(lender), borrower(lender)
    with await lent(one, "logic", port, sort) as mine:
        mine.setblocking(False)
        with await lent(other, "logic", port, sort):
            assert not os.get_blocking(mine.fileno())
    one.close()
    other.close()


async def test_a_socket_is_closed_when_its_last_user_gives_it_back(lender: SocketLender) -> None:
    port = free_port()
    one, other = borrower(lender), borrower(lender)
    for node in (one, other):
        (await lent(node, "logic", port, socket.SOCK_STREAM)).close()
    one.want(())
    await asyncio.sleep(0)
    assert lender.places == {SharedAddress("logic", "127.0.0.1", port, "tcp")}
    other.close()
    await eventually(lambda: not lender.places)
    assert can_bind(port)
    one.close()


async def test_a_refusal_says_why_and_is_asked_again(lender: SocketLender) -> None:
    node = borrower(lender)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def is_refused() -> bool:
            with pytest.raises(CannotListen) as refused:
                node.bind("logic", "127.0.0.1", port, socket.SOCK_STREAM)
            return f"{port} is taken" in str(refused.value)

        await eventually(is_refused)
    (await lent(node, "logic", port, socket.SOCK_STREAM)).close()
    node.close()


async def test_another_service_cannot_have_the_address(lender: SocketLender) -> None:
    port = free_port()
    one, other = borrower(lender), borrower(lender)
    (await lent(one, "logic", port, socket.SOCK_STREAM)).close()
    with pytest.raises(CannotListen, match="is taken"):
        await lent(other, "shop", port, socket.SOCK_STREAM)
    one.close()
    other.close()


async def test_an_answer_to_an_older_wish_is_void(lender: SocketLender) -> None:
    port = free_port()
    node, place = borrower(lender), SharedAddress("logic", "127.0.0.1", port, "tcp")
    node.want({place})
    node.want(())
    node.want({place})  # the three are read in one go; the second socket cannot be had before the first is closed

    async def asked_again() -> socket.socket:
        return node.bind("logic", "127.0.0.1", port, socket.SOCK_STREAM)

    with await eventually(asked_again, despite=(CannotListen,)) as sock, socket.socket() as client:
        client.connect(("127.0.0.1", port))
        sock.setblocking(False)

        async def accepted() -> bool:
            connection, _ = sock.accept()
            connection.close()
            return True

        await eventually(accepted, despite=(BlockingIOError,))
    assert lender.places == {place}
    node.close()


async def test_what_waits_at_a_socket_outlives_the_death_of_its_only_user(lender: SocketLender) -> None:
    logic, shop = free_port(), free_port()
    first = borrower(lender, "n1")
    for name, port in (("logic", logic), ("shop", shop)):
        (await lent(first, name, port, socket.SOCK_STREAM)).close()
    with socket.socket() as client:
        client.connect(("127.0.0.1", logic))
        die(first)
        await eventually(lambda: lender._left)
        second = borrower(lender, "n1")
        second.want({SharedAddress("logic", "127.0.0.1", logic, "tcp")})
        with await lent(second, "logic", logic, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            connection, address = sock.accept()
            connection.close()
            assert address == client.getsockname()
    assert lender.places == {SharedAddress("logic", "127.0.0.1", logic, "tcp")}, "the next life does not want the other"
    second.close()
    await eventually(lambda: not lender.places)


async def test_what_a_dead_node_had_is_closed_when_it_comes_back_without_services_or_not_at_all(
    lender: SocketLender,
) -> None:
    for comes_back in (True, False):
        first = borrower(lender, "n1")
        (await lent(first, "logic", free_port(), socket.SOCK_STREAM)).close()
        die(first)
        await eventually(lambda: lender._left)
        assert lender.places
        if comes_back:
            second = borrower(lender, "n1")
            second.want(())
            await eventually(lambda: not lender.places)
            second.close()
        else:
            lender.forget("n1")
            assert not lender.places
