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
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api import http as http_door
from rota.api.health import Health
from rota.api.http import CONNECTIONS, HEADERS, door, serve
from rota.api.listen import bind
from rota.api.metrics import Figures, registry
from rota.kit.clock import SYSTEM
from tests.kit.waiting import eventually
from tests.unit.api.test_http import GATE, TOKEN


class Door:
    """A door with one room that can be made to wait."""

    def __init__(self) -> None:
        self.health = Health(SYSTEM)
        self.sock = bind("127.0.0.1:0")
        self.inside = asyncio.Event()
        self.may_leave = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def open(self) -> None:
        more = [Route("/slow", self._slow)]
        app = door(self.health, registry(Figures), lambda: {"id": "a"}, gate=GATE, more=more)
        self.task = asyncio.create_task(serve(self.sock, app))

    async def close(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled()

    async def _slow(self, request: Request) -> Response:
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


async def test_too_many_visitors_are_told_to_come_later() -> None:
    async with opened() as it:
        visitors = [
            await asyncio.to_thread(socket.create_connection, it.sock.getsockname(), 10) for _ in range(CONNECTIONS)
        ]
        try:
            assert await eventually(lambda: _is_refused(it))
            _, body = await it.ask("/livez")
            assert json.loads(body)["code"] == "too_busy"
        finally:
            for visitor in visitors:
                visitor.close()
        assert await eventually(lambda: _is_let_in(it))


async def _is_refused(it: Door) -> bool:
    return (await it.ask("/livez"))[0] == 503


async def _is_let_in(it: Door) -> bool:
    return (await it.ask("/livez"))[0] == 200


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /li"])
async def test_who_does_not_come_to_ask_is_cut(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "HEADERS_WITHIN", 0.3)
    async with opened() as it:
        reader, writer = await asyncio.open_connection(*it.sock.getsockname())
        writer.write(said)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 60)  # to its end
        monkeypatch.setattr(http_door, "HEADERS_WITHIN", 60.0)  # who asks now may take its time
        assert (await it.ask("/livez"))[0] == 200
        writer.close()
