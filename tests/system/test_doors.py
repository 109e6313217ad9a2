"""The HTTP door on a real socket: it answers, it stops, it gives the socket back."""

import asyncio
import http.client
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.compose.metrics import NodeFigures, registry
from rota.doors.health import HealthChecks
from rota.doors.http import door as http_door
from rota.doors.http.door import CONNECTIONS, CONNECTIONS_FOR_PROBES, CONNECTIONS_OF_ONE, HEADERS, door, serve
from rota.doors.http.forwarded import address_of
from rota.doors.http.listen import bind
from rota.kit.time.clock import SYSTEM
from rota.model.config import NodeConfig
from rota.model.errors import Invalid
from tests.kit.http_door import GATE, TOKEN
from tests.kit.waiting import eventually


class Door:
    """A door with one room that can be made to wait."""

    def __init__(self) -> None:
        self.health = HealthChecks(SYSTEM)
        self.sock = bind("127.0.0.1:0")
        self.inside = asyncio.Event()
        self.may_leave = asyncio.Event()
        self.visitors = 0
        self.task: asyncio.Task[None] | None = None

    def open(self) -> None:
        more = [Route("/slow", self._slow)]
        app = door(self.health, registry(NodeFigures), lambda: {"id": "a"}, gate=GATE, more=more)
        self.task = asyncio.create_task(serve(self.sock, app))

    async def close(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled()

    async def _slow(self, request: Request) -> Response:
        self.visitors += 1
        self.inside.set()
        await self.may_leave.wait()
        return Response("at last")

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(*self.sock.getsockname(), timeout=60)) as caller:
            caller.request("GET", path, headers={"authorization": f"Bearer {TOKEN}", **(headers or {})})
            answer = caller.getresponse()
            return answer.status, answer.read()

    async def ask(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Ask as a client in a thread of its own."""
        return await asyncio.to_thread(self.get, path, headers)


@asynccontextmanager
async def opened() -> AsyncIterator[Door]:
    it = Door()
    it.open()
    try:
        yield it
    finally:
        it.may_leave.set()
        await it.close()
        it.sock.close()


async def test_it_answers_over_a_real_socket() -> None:
    async with opened() as it:
        assert await it.ask("/livez") == (200, b'{"ok":true}')
        status, body = await it.ask("/v1/node")
        assert (status, json.loads(body)) == (200, {"id": "a"})
        status, body = await it.ask("/metrics")
        assert "rota_leader" in {family.name for family in text_string_to_metric_families(body.decode())}
        it.health.expect("tick", timedelta(microseconds=1))
        status, body = await it.ask("/healthz")
        assert status == 503
        assert "tick" in json.loads(body)["reasons"]


async def test_a_stopped_door_finishes_what_it_began() -> None:
    async with opened() as it:
        slow = asyncio.create_task(it.ask("/slow"))
        await it.inside.wait()
        closing_it = asyncio.create_task(it.close())
        asyncio.get_running_loop().call_later(0.3, it.may_leave.set)
        assert await slow == (200, b"at last")
        await closing_it
        it.open()


async def test_who_comes_while_the_door_is_closed_waits_until_it_opens() -> None:
    async with opened() as it:
        await it.ask("/livez")
        await it.close()
        with socket.create_connection(it.sock.getsockname(), timeout=10) as early:
            early.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            it.open()
            answer = await asyncio.to_thread(early.makefile("rb").read)
        assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_nobody_is_left_hanging_who_comes_while_the_door_closes() -> None:
    """At each step of closing: who is let in is answered or sent away, and does not wait for ever."""
    async with opened() as it:
        await it.ask("/livez")
        for step in range(12):
            closing_it = asyncio.create_task(it.close())
            for _ in range(step):
                await asyncio.sleep(0)
            with socket.create_connection(it.sock.getsockname(), timeout=60) as late:
                late.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                await closing_it
                it.open()
                answer = await asyncio.to_thread(_everything, late)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 200 OK"), f"at step {step}"


def _everything(late: socket.socket) -> bytes:
    try:
        return late.makefile("rb").read()
    except ConnectionResetError:
        return b""


async def test_a_door_stops_within_a_bound_whatever_its_visitors_do() -> None:
    async with opened() as it:
        silent = socket.create_connection(it.sock.getsockname(), timeout=10)
        slow = asyncio.create_task(it.ask("/slow"))
        await it.inside.wait()
        async with asyncio.timeout(60):
            await it.close()
        (answer,) = await asyncio.gather(slow, return_exceptions=True)
        assert isinstance(answer, http.client.HTTPException | ConnectionError) or answer[0] == 500
        silent.close()
        it.open()


async def test_signals_are_left_alone() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    async with opened() as it:
        await it.ask("/livez")
        assert {number: signal.getsignal(number) for number in before} == before
    assert threading.current_thread() is threading.main_thread()


async def test_headers_without_end_are_refused() -> None:
    async with opened() as it:
        with socket.create_connection(it.sock.getsockname(), timeout=10) as talker:
            talker.sendall(b"GET /livez HTTP/1.1\r\nx: " + b"y" * 2 * HEADERS)
            answer = await asyncio.to_thread(talker.makefile("rb").read)
        assert answer.startswith(b"HTTP/1.1 400 ")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["code"] == "bad_request"
        assert (await it.ask("/livez"))[0] == 200


@asynccontextmanager
async def visited(it: Door, count: int, said: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Connections to a door, each of which says the same."""
    visitors: list[socket.socket] = []
    try:
        for _ in range(count):
            visitors.append(await asyncio.to_thread(socket.create_connection, it.sock.getsockname(), 10))
            visitors[-1].sendall(said)
        yield visitors
    finally:
        for visitor in visitors:
            visitor.close()


@pytest.mark.parametrize("said", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"])
async def test_connections_that_ask_nothing_keep_no_caller_out(said: bytes) -> None:
    async with opened() as it, visited(it, CONNECTIONS + 10, said):
        assert (await it.ask("/livez"))[0] == 200
        assert (await it.ask("/readyz"))[0] == 200
        assert (await it.ask("/v1/node"))[0] == 200


async def test_where_all_connections_are_busy_probes_are_answered_and_others_told_to_come_later() -> None:
    busy = f"GET /slow HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    async with opened() as it, visited(it, CONNECTIONS_OF_ONE, busy):
        await eventually(lambda: it.visitors == CONNECTIONS_OF_ONE)
        status, said = await it.ask("/v1/node")
        assert status == 503
        assert "connections from your address" in json.loads(said)["error"]
        assert (await it.ask("/livez"))[0] == 200
        async with visited(it, CONNECTIONS_FOR_PROBES + 10):
            assert (await it.ask("/readyz"))[0] == 200
        it.may_leave.set()
        await eventually(lambda: _is_let_in(it))


async def _is_let_in(it: Door) -> bool:
    return (await it.ask("/v1/node"))[0] == 200


async def test_a_connection_that_says_nothing_is_closed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "FIRST_WITHIN", 0.2)
    async with opened() as it:
        reader, writer = await asyncio.open_connection(*it.sock.getsockname())
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_what_is_not_http_is_refused_with_a_code() -> None:
    async with opened() as it:
        reader, writer = await asyncio.open_connection(*it.sock.getsockname())
        writer.write(b"what is this?\r\n\r\n")
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in head
        assert json.loads(content)["code"] == "bad_request"
        writer.close()
        await writer.wait_closed()


# Behind a proxy


async def _seen(headers: dict[str, str], proxies: str = "") -> tuple[str, str]:
    """The caller's address and scheme, as a request with these headers has them."""

    async def show(request: Request) -> Response:
        return Response(f"{address_of(request)} {request.url.scheme}")

    sock = bind("127.0.0.1:0")
    config = NodeConfig(store="memory://", data=Path(), trusted_proxies=proxies)
    serving = asyncio.create_task(serve(sock, Starlette(routes=[Route("/", show)]), None, config.proxies))
    try:
        with closing(http.client.HTTPConnection(*sock.getsockname(), timeout=60)) as caller:
            await asyncio.to_thread(caller.request, "GET", "/", None, headers)
            answer = await asyncio.to_thread(caller.getresponse)
            address, _, scheme = answer.read().decode().rpartition(" ")
            return address, scheme
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        sock.close()


FORGED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}


async def test_forwarded_headers_are_not_believed_even_of_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    assert await _seen(FORGED) == ("127.0.0.1", "http")
    assert await _seen(FORGED, "10.0.0.0/8") == ("127.0.0.1", "http")


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        pytest.param("203.0.113.7", "203.0.113.7 via 127.0.0.1", id="the caller"),
        pytest.param("198.51.100.1, 203.0.113.7, 10.0.0.9", "203.0.113.7 via 127.0.0.1", id="behind two proxies"),
        pytest.param("203.0.113.7:4711", "203.0.113.7 via 127.0.0.1", id="with a port"),
        pytest.param("[2001:db8::1]:80", "2001:db8::1 via 127.0.0.1", id="IPv6"),
        pytest.param("203.0.113.7, evil", "127.0.0.1 via 127.0.0.1", id="what is no address ends the list"),
        pytest.param("", "127.0.0.1 via 127.0.0.1", id="nothing"),
    ],
)
async def test_forwarded_headers_of_a_trusted_proxy_name_the_caller_and_the_proxy(listed: str, found: str) -> None:
    headers = {"X-Forwarded-For": listed, "X-Forwarded-Proto": "https"}
    assert await _seen(headers, "127.0.0.1, 10.0.0.0/8") == (found, "https")


def test_a_proxy_that_is_no_network_is_refused() -> None:
    with pytest.raises(Invalid, match=r'trusted_proxies: "lb\.local" is no address or network'):
        NodeConfig(store="memory://", data=Path(), trusted_proxies="10.0.0.1,lb.local")


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /li"])
async def test_who_does_not_come_to_ask_is_cut(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "HEADERS_WITHIN", 0.3)
    monkeypatch.setattr(http_door, "FIRST_WITHIN", 0.3)
    async with opened() as it:
        reader, writer = await asyncio.open_connection(*it.sock.getsockname())
        writer.write(said)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 60)  # to its end
        monkeypatch.setattr(http_door, "HEADERS_WITHIN", 60.0)  # who asks now may take its time
        assert (await it.ask("/livez"))[0] == 200
        writer.close()
