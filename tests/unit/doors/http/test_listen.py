import asyncio
import socket
from contextlib import closing

import pytest

from rota.doors.http.listen import address_of, bind
from rota.model.errors import Conflict, Invalid


def test_port_0_takes_a_free_one() -> None:
    with closing(bind("127.0.0.1:0")) as one, closing(bind(":0")) as two:
        assert address_of(one).startswith("127.0.0.1:")
        assert address_of(two).startswith("127.0.0.1:")
        assert address_of(one) != address_of(two)
        with socket.create_connection(one.getsockname(), timeout=5):
            pass


async def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Nagle's algorithm and delayed acknowledgements together cost 40 ms an answer."""
    has_nodelay = asyncio.get_running_loop().create_future()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_nodelay.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with closing(bind(":0")) as sock:
        async with await asyncio.start_server(visited, sock=sock.dup()):
            _, writer = await asyncio.open_connection(*sock.getsockname())
            assert await asyncio.wait_for(has_nodelay, 60)
            writer.close()


def test_an_ipv6_address_stands_in_brackets() -> None:
    with closing(bind("[::1]:0")) as sock:
        assert sock.family == socket.AF_INET6
        assert address_of(sock).startswith("[::1]:")


def test_a_taken_address_is_named_with_the_next_move() -> None:
    with closing(bind("127.0.0.1:0")) as first:
        address = address_of(first)
        with pytest.raises(Conflict, match=f"address {address} is taken; stop .* or choose another with --grpc"):
            bind(address, "--grpc")


def test_an_address_can_be_taken_again_at_once() -> None:
    with closing(bind("127.0.0.1:0")) as first:
        address = address_of(first)
        with socket.create_connection(first.getsockname(), timeout=5):
            first.setblocking(True)
            first.accept()[0].close()  # it is this side that must wait for stragglers now
    bind(address).close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("7700", "write host:port", id="no host"),
        pytest.param("192.0.2.1:0", "choose an address of this machine with --http", id="not ours"),
        pytest.param("no.such.host.invalid:0", "is not known here; correct --http", id="unknown"),
        pytest.param(f"{'a' * 70}.b:0", "is not known here", id="no name at all"),
    ],
)
def test_what_cannot_be_bound_says_why(address: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        bind(address)
