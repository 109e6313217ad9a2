"""Both clients keep the same promises, against a real server in this process."""

import asyncio
import contextlib
import functools
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest

from rota import MAPLE_TASK
from rota.client import Answer, AsyncServiceClient, Refused, ServiceClient, TimedOut
from rota.client.sockets import close_gently
from rota.model.errors import Invalid, Unavailable, Unknown
from tests.kit.box_server import BoxServer, Cmd
from tests.kit.listening import listening
from tests.kit.waiting import eventually

T = TypeVar("T")

SHORT = "400ms"
"""For calls that get no answer."""

THREADS = ThreadPoolExecutor(32)
"""More than calls at a time; asyncio's own has few on a small machine."""


class Threaded:
    """The blocking client as an async one: each call in a thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = ServiceClient(*arguments, **options)

    async def call(self, *arguments: Any, **options: Any) -> Answer:
        return await self._run(self.client.call, *arguments, **options)

    async def send(self, *arguments: Any, **options: Any) -> int:
        return await self._run(self.client.send, *arguments, **options)

    async def aclose(self) -> None:
        await self._run(self.client.close)

    async def _run(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            THREADS, functools.partial(function, *arguments, **options)
        )


async def heard() -> None:
    """Let the loop turn until a client in it has heard what its server did; the loopback needs no time."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[BoxServer]:
    async with BoxServer() as server:
        yield server


@pytest.fixture(params=[Threaded, AsyncServiceClient], ids=["blocking", "asyncio"])
async def client_of(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Makes clients, and closes them in the end."""
    async with AsyncExitStack() as stack:

        def make(address: str, **options: Any) -> Any:
            client = request.param(address, **options)
            stack.push_async_callback(client.aclose)
            return client

        yield make


@pytest.fixture(params=["", "udp://"], ids=["tcp", "udp"])
async def client(request: pytest.FixtureRequest, server: BoxServer, client_of: Any) -> Any:
    """A client of the server, over TCP and over UDP."""
    return client_of(f"{request.param}{server.address}")


async def test_an_answer_has_what_the_service_sent(client: Any) -> None:
    answer = await client.call(Cmd.ECHO, b"hello")
    assert (answer.ret, answer.body, answer.cmd) == (0, b"hello", Cmd.ECHO)
    assert answer.raise_for_ret() is answer
    assert answer.fields["sn"] == answer.sn


async def test_text_and_json_travel(client: Any) -> None:
    assert (await client.call(Cmd.ECHO, "grüß")).body == "grüß".encode()
    assert (await client.call(Cmd.ECHO, json={"name": "Ada"})).json() == {"name": "Ada"}


async def test_many_calls_at_a_time_each_get_their_own_answer(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, size=4)
    bodies = [str(number).encode() for number in range(300)]
    answers = await asyncio.gather(*(client.call(Cmd.ECHO, body) for body in bodies))
    assert [answer.body for answer in answers] == bodies
    assert len({answer.sn for answer in answers}) == 300
    assert server.accepted <= 4


async def test_answers_in_another_order_find_their_calls(server: BoxServer) -> None:
    async with AsyncServiceClient(server.address) as client:
        calls = asyncio.gather(*(client.call(Cmd.HOLD, str(number)) for number in range(20)))
        await eventually(lambda: server.holds == 20)
        server.release()
        assert [int(answer.body) for answer in await calls] == list(range(20))
        assert server.accepted == 1


@pytest.mark.parametrize("cmd", [Cmd.TWICE, Cmd.PIECES, Cmd.STRANGER])
async def test_doubled_torn_and_strange_answers_confuse_nobody(cmd: Cmd, client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, size=1)
    for body in (b"a", b"b", b"c"):
        assert (await client.call(cmd, body)).body == body
    assert server.accepted == 1


async def test_a_long_answer_comes_whole(client_of: Any, server: BoxServer) -> None:
    body = bytes(range(256)) * 40_000
    assert (await client_of(server.address).call(Cmd.ECHO, body)).body == body


async def test_a_call_without_an_answer_times_out_and_says_that_it_may_have_run(client: Any) -> None:
    with pytest.raises(TimedOut, match="cmd 3 had no answer within 400ms; it may have run") as caught:
        await client.call(Cmd.SILENCE, timeout=SHORT)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, Unknown)
    assert (await client.call(Cmd.ECHO, b"next")).body == b"next"


async def test_a_late_answer_is_dropped_and_the_connection_stays(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, size=1)
    with pytest.raises(TimedOut):
        await client.call(Cmd.HOLD, b"late", timeout=SHORT)
    assert server.release() == 1
    assert (await client.call(Cmd.ECHO, b"next")).body == b"next"
    assert server.accepted == 1


@pytest.mark.parametrize("cmd", [Cmd.HANG_UP, Cmd.TORN])
async def test_a_connection_lost_with_the_request_sent_is_unknown(cmd: Cmd, client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address)
    with pytest.raises(Unknown, match=f"lost with cmd {cmd} sent .*check before you retry") as caught:
        await client.call(cmd, b"once")
    assert not isinstance(caught.value, TimedOut)
    assert server.bodies == [b"once"]
    assert (await client.call(Cmd.ECHO, b"again")).body == b"again"


async def test_a_service_that_dies_ends_all_its_calls(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, size=8)
    calls = asyncio.gather(*(client.call(Cmd.HOLD) for _ in range(8)), return_exceptions=True)
    await eventually(lambda: server.holds == 8)
    await server.stop()
    assert {type(outcome) for outcome in await calls} == {Unknown}


@pytest.mark.parametrize(("cmd", "why"), [(Cmd.GARBAGE, "magic"), (Cmd.LONG, "2147483647 bytes")])
async def test_what_is_no_answer_ends_the_connection(cmd: Cmd, why: str, client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address)
    with pytest.raises(Unknown, match=rf"what came is no answer: .*{why}"):
        await client.call(cmd)
    assert (await client.call(Cmd.ECHO, b"again")).body == b"again"
    assert server.accepted == 2


async def test_a_datagram_that_is_no_answer_is_passed_over(client_of: Any, server: BoxServer) -> None:
    client = client_of(f"udp://{server.address}")
    with pytest.raises(TimedOut):
        await client.call(Cmd.GARBAGE, timeout=SHORT)
    assert (await client.call(Cmd.TWICE, b"two in one")).body == b"two in one"


async def test_nobody_there_is_unavailable_and_says_why(client_of: Any, server: BoxServer) -> None:
    await server.stop()
    with pytest.raises(Unavailable, match=r"tcp://127\.0\.0\.1:\d+: no connection within 400ms: .*refused"):
        await client_of(server.address).call(Cmd.ECHO, timeout=SHORT)


async def test_nobody_there_by_udp_is_unknown(client_of: Any, server: BoxServer) -> None:
    await server.stop()
    with pytest.raises(Unknown, match="refused"):
        await client_of(f"udp://{server.address}").call(Cmd.ECHO)


async def test_a_call_waits_for_a_service_that_is_just_starting(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, timeout="20s")
    await client.call(Cmd.ECHO)
    await server.stop()
    await heard()
    call = asyncio.create_task(client.call(Cmd.ECHO, b"patience"))
    await asyncio.wait([call], timeout=0.1)
    assert not call.done()
    await server.start()
    assert (await call).body == b"patience"


async def test_a_connection_closed_while_idle_costs_no_call(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address, size=1)
    for round_ in range(5):
        assert (await client.call(Cmd.ECHO, str(round_))).body == str(round_).encode()
        server.hang_up()
        await eventually(lambda: not server.visitors)
        await heard()
    assert server.accepted == 5


async def test_when_all_connections_are_busy_a_blocking_call_is_unavailable(server: BoxServer) -> None:
    with ServiceClient(server.address, size=2) as client:
        busy = asyncio.gather(*(asyncio.to_thread(client.call, Cmd.HOLD) for _ in range(2)))
        await eventually(lambda: server.holds == 2)
        with pytest.raises(Unavailable, match=r"all 2 connections were busy for 400ms.*size="):
            await asyncio.to_thread(client.call, Cmd.ECHO, timeout=SHORT)
        server.release()
        await busy
        assert server.accepted == 2


@pytest.mark.parametrize("lanes", [1, 3])
async def test_calls_share_few_connections_on_asyncio(lanes: int, server: BoxServer) -> None:
    async with AsyncServiceClient(server.address, size=lanes) as client:
        calls = asyncio.gather(*(client.call(Cmd.HOLD) for _ in range(50)))
        await eventually(lambda: server.holds == 50)
        assert server.accepted == lanes
        server.release()
        await calls


async def test_a_request_stuck_half_way_did_not_happen_and_its_connection_is_not_used_again(server: BoxServer) -> None:
    with ServiceClient(server.address, size=1) as client:
        await asyncio.to_thread(client.send, Cmd.STOP_READING)
        with pytest.raises(Unavailable, match="was not taken within 400ms; nothing happened"):
            await asyncio.to_thread(client.call, Cmd.ECHO, bytes(8 << 20), timeout=SHORT)
        assert (await asyncio.to_thread(client.call, Cmd.ECHO, b"new")).body == b"new"
        assert server.accepted == 2


async def test_on_asyncio_calls_wait_unsent_while_a_service_does_not_read(server: BoxServer) -> None:
    async with AsyncServiceClient(server.address) as client:
        await client.send(Cmd.STOP_READING)
        with pytest.raises(TimedOut):  # it was handed over, and nobody knows how much of it has left
            await client.call(Cmd.ECHO, bytes(8 << 20), timeout=SHORT)
        with pytest.raises(Unavailable, match="took no request within 400ms; nothing happened"):
            await client.call(Cmd.ECHO, timeout=SHORT)


async def test_a_request_may_be_sent_without_waiting(client: Any, server: BoxServer) -> None:
    number = await client.send(Cmd.SILENCE, b"to whom it may concern")
    assert await eventually(lambda: server.bodies == [b"to whom it may concern"])
    assert (await client.call(Cmd.ECHO)).sn == number + 1


async def test_closing_ends_calls_under_way_and_refuses_new_ones(client: Any, server: BoxServer) -> None:
    call = asyncio.create_task(client.call(Cmd.HOLD))
    await eventually(lambda: server.holds)
    await client.aclose()
    with pytest.raises(Unknown, match="closed"):
        await call
    with pytest.raises(Invalid, match="is closed; make another one"):
        await client.call(Cmd.ECHO)


async def test_what_was_sent_leaves_before_the_client_closes(client_of: Any, server: BoxServer) -> None:
    client = client_of(server.address)
    await client.send(Cmd.SILENCE, bytes(1 << 20))
    await client.aclose()
    assert await eventually(lambda: [len(body) for body in server.bodies] == [1 << 20])


def serve_slowly(connection: socket.socket, arrived: list[int], each: float) -> None:
    """A service that reads a request, takes its time, and answers before it reads the next one."""
    with connection:
        while data := connection.recv(1000):
            arrived.append(len(data))
            time.sleep(each)
            connection.sendall(data)


@pytest.mark.parametrize(("requests", "each"), [(20, 0.01), (5, 0.15)])
async def test_closing_loses_nothing_while_the_service_is_between_two_requests(
    client_of: Any, requests: int, each: float
) -> None:
    """What it answers next would reset a connection that is closed, and the rest would be discarded unread."""
    arrived: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.get_running_loop().run_in_executor(
            THREADS, lambda: serve_slowly(listener.accept()[0], arrived, each)
        )
        client = client_of(f"127.0.0.1:{listener.getsockname()[1]}")
        for _ in range(requests):
            await client.send(1, b"x" * 976)
        await client.aclose()
        await serving
    assert sum(arrived) == requests * 1000


async def test_closing_during_a_call_loses_nothing_that_was_sent(client_of: Any) -> None:
    arrived: list[int] = []
    is_sent = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        while len(connection.recv(30_000, socket.MSG_PEEK)) < 21_000:
            time.sleep(0.001)
        is_sent.set()
        serve_slowly(connection, arrived, 0.01)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.get_running_loop().run_in_executor(THREADS, serve, listener)
        client = client_of(f"127.0.0.1:{listener.getsockname()[1]}", size=1)
        for _ in range(20):
            await client.send(1, b"x" * 976)
        call = asyncio.create_task(client.call(1, b"x" * 976))
        await eventually(is_sent.is_set)
        await client.aclose()
        with pytest.raises(Unknown, match="the client was closed"):
            await call
        await serving
    assert sum(arrived) == 21_000


async def test_who_asks_while_the_client_closes_is_told_that_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = AsyncServiceClient(f"127.0.0.1:{listener.getsockname()[1]}")
        await client.send(1, b"x")
        service, _ = listener.accept()
        closing = asyncio.create_task(client.aclose())
        await heard()
        for ask in (client.call, client.send):
            with pytest.raises(Invalid, match="is closed; make another one"):
                await ask(1, b"x")
        service.close()
        await closing


async def test_a_call_that_waits_for_the_service_to_read_ends_when_the_client_closes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = AsyncServiceClient(f"127.0.0.1:{listener.getsockname()[1]}")
        await client.send(1, bytes(1 << 20))
        service, _ = listener.accept()
        with contextlib.suppress(Unavailable):  # it does not read, so at some time no more is taken
            while True:
                await client.send(1, bytes(1 << 20), timeout=SHORT)
        call = asyncio.create_task(client.call(1, b"x", timeout="60s"))
        await heard()
        closing = asyncio.create_task(client.aclose())
        await heard()

        def drain() -> None:
            with service, contextlib.suppress(OSError):
                while service.recv(1 << 20):
                    pass

        await asyncio.gather(closing, asyncio.to_thread(drain))
        with pytest.raises(Invalid, match="is closed; make another one"):
            await call


async def test_a_connection_that_was_reset_keeps_no_other_from_closing_gently() -> None:
    arrived: list[int] = []

    def there(connection: socket.socket) -> int:
        with contextlib.suppress(BlockingIOError):
            return len(connection.recv(30_000, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return 0

    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = AsyncServiceClient(f"127.0.0.1:{listener.getsockname()[1]}", size=2)
        calls = [asyncio.create_task(client.call(1, b"x" * 976)) for _ in range(2)]  # one on each connection
        connections = [(await asyncio.to_thread(listener.accept))[0] for _ in calls]
        await eventually(lambda: [there(each) for each in connections] == [1000, 1000])
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        for _ in range(20):
            await client.send(1, b"x" * 976)
        await eventually(lambda: sorted(map(there, connections)) == [1000, 21_000])
        lost, sound = sorted(connections, key=there)
        lost.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        lost.close()
        await asyncio.gather(client.aclose(), asyncio.to_thread(serve_slowly, sound, arrived, 0.01))
    assert sum(arrived) == 21_000


def test_closing_with_unread_answers_resets_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = ServiceClient(f"127.0.0.1:{server.getsockname()[1]}")
        for _ in range(20):
            client.send(1, b"x" * 976)
        connection, _ = server.accept()
        with connection:
            connection.sendall(bytes(50_000))  # answers to `send` are read by no call
            client.close()
            assert sum(map(len, iter(lambda: connection.recv(65_536), b""))) == 20_000


def test_closing_reads_answers_without_which_the_service_would_read_nothing_more() -> None:
    arrived = []

    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                arrived.append(len(data))
                connection.sendall(data)  # it reads nothing before this is taken

    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        connection, _ = server.accept()
        echoing = threading.Thread(target=echo, args=[connection])
        echoing.start()
        client.settimeout(0.2)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while True:
                sent += client.send(bytes(65_536))
        close_gently([client])
        echoing.join(30)
    assert sum(arrived) == sent


@pytest.mark.parametrize("address", [["a:1", "b:1"], None, 7])
def test_an_address_that_is_no_text_is_invalid(address: Any) -> None:
    with pytest.raises(Invalid, match="write one address as text"):
        ServiceClient(address)


async def test_a_cancelled_call_leaves_no_trace(server: BoxServer) -> None:
    async with AsyncServiceClient(server.address) as client:
        call = asyncio.create_task(client.call(Cmd.HOLD))
        await eventually(lambda: server.holds)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        server.release()
        assert (await client.call(Cmd.ECHO, b"next")).body == b"next"
        assert server.accepted == 1


async def test_other_frames_are_matched_by_the_field_that_is_named(client_of: Any) -> None:
    async with BoxServer(MAPLE_TASK) as server:
        client = client_of(server.address, frame=MAPLE_TASK, numbered_by="tag")
        answers = await asyncio.gather(
            *(client.call(Cmd.ECHO, str(each), fields={"conn_id": each}) for each in range(9))
        )
    assert [(answer.body, answer.fields["conn_id"]) for answer in answers] == [
        (str(each).encode(), each) for each in range(9)
    ]


@pytest.mark.parametrize(
    ("cmd", "family"), [(Cmd.QUEUE_FULL, Unavailable), (Cmd.OWN_CODE, Refused)], ids=["queue full", "own code"]
)
async def test_codes_become_errors_when_asked(cmd: Cmd, family: type[Exception], client: Any) -> None:
    answer = await client.call(cmd)
    with pytest.raises(family, match=str(answer.ret)):
        answer.raise_for_ret()


async def test_a_request_too_long_for_a_datagram_is_invalid(server: BoxServer) -> None:
    with (
        ServiceClient(f"udp://{server.address}") as client,
        pytest.raises(Invalid, match="too long for UDP; use TCP"),
    ):
        await asyncio.to_thread(client.call, Cmd.ECHO, bytes(70_000))


class Mute(asyncio.Protocol):
    """Says nothing."""


async def test_ipv6_works() -> None:
    async with listening(Mute, "::1") as port, AsyncServiceClient(f"tcp://[::1]:{port}") as client:
        with pytest.raises(TimedOut, match=rf"tcp://\[::1\]:{port}"):
            await client.call(1, timeout=SHORT)
