"""The HTTP door of a node: health, metrics, and what the node knows of itself.

`door` makes the application, `serve` serves it inside the caller's event loop on a socket that the caller has bound
and keeps. Cancelling `serve` stops it: no new connection is accepted, answers under way are finished within a few
seconds, and then connections are closed. It touches no signal, writes no access log and uses no time while idle.

Every error is answered with a code for programs and a sentence that says what to do (`doors.http.problems`), also what
uvicorn refuses before any route is called.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from email.utils import format_datetime
from http import HTTPStatus

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.doors.guard.budget import Busy, CallerBudget
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.guard.places import Full, OpenConnection, room_for
from rota.doors.guard.sessions import Sessions
from rota.doors.health import HealthChecks, HealthVerdict
from rota.doors.http import problems, session
from rota.doors.http.entry import CUT, FREE, EntryMiddleware, cut_off
from rota.doors.http.forwarded import Forwarded, Network, is_trusted
from rota.fleet.core.access.logins import source_of
from rota.kit.time.clock import SYSTEM, Clock
from rota.kit.time.instant import Instant
from rota.model.errors import RotaError

log = logging.getLogger(__name__)

STOP = 3
"""Seconds that answers under way may take when the door closes."""

KEEP_ALIVE = 15
"""Seconds a connection may stay open without a request."""

STALLED = 30.0
"""Seconds a client may stop reading before its connection is closed."""

HEADERS_WITHIN = 20.0
"""Seconds from a connection, or the previous answer, until all headers of a request have arrived."""

HEADERS = 16 * 1024
"""The most bytes of incomplete headers."""

FIRST_WITHIN = 5.0
"""Seconds from a connection until its first byte."""

CONNECTIONS = 200
"""Connections at a time; for the next one an idle one is closed, or it is answered 503."""

CONNECTIONS_FOR_PROBES = 20
"""Connections beyond these, on which only probes are answered."""

CONNECTIONS_OF_ONE = 100
"""Connections at a time from one address that is no trusted proxy."""

_INTERNAL = RotaError.code


def door(
    health: HealthChecks,
    registry: CollectorRegistry,
    node: Callable[[], object],
    *,
    gate: Doorkeeper,
    hosts: Collection[str] = (),
    more: Sequence[BaseRoute] = (),
    is_page: Callable[[str], bool] = lambda path: False,
    refresh: Callable[[], Awaitable[None]] | None = None,
    sessions: Sessions | None = None,
    clock: Clock = SYSTEM,
    budget: CallerBudget | None = None,
) -> Starlette:
    """The application; `node` gives what `/v1/node` shows, `more` is what else the node answers.

    `gate` judges callers, `sessions` knows the browsers that have logged in. `hosts` are the names of this node, beside
    those of the loopback. `is_page` says which paths are public files. `refresh` is awaited before metrics are written,
    for figures that take a while to collect. `budget` limits what each caller may use of this node.
    """

    async def healthz(request: Request) -> Response:
        return _verdict(health.healthy())

    async def readyz(request: Request) -> Response:
        return _verdict(health.ready())

    async def livez(request: Request) -> Response:
        return _json({"ok": True})  # any answer at all shows that the node is alive

    async def metrics(request: Request) -> Response:
        if refresh is not None:
            await refresh()
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    async def this_node(request: Request) -> Response:
        return _json(node())

    routes: list[BaseRoute] = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/livez", livez),
        Route("/metrics", metrics),
        Route("/v1/node", this_node),
        *session.routes(),
        *more,
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_Manners, clock=clock),
            Middleware(
                EntryMiddleware, doorkeeper=gate, hosts=hosts, is_page=is_page, budget=budget, sessions=sessions
            ),
        ],
        exception_handlers={HTTPException: _refusal(routes)},
    )


async def serve(
    sock: socket.socket, app: ASGIApp, tls: ssl.SSLContext | None = None, proxies: Sequence[Network] = ()
) -> None:
    """Answer on a listening socket until cancelled. The socket stays open: it is the caller's.

    `proxies` are the proxies whose `X-Forwarded-…` headers are trusted.
    """
    config = uvicorn.Config(
        Forwarded(app, proxies),
        proxy_headers=False,  # uvicorn would trust every connection from the loopback
        http=_connection(proxies),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=STOP,
        h11_max_incomplete_event_size=HEADERS,
    )
    config.load()
    config.ssl = tls  # made by us, and changed when certificates are renewed
    server = _Server(config)
    serving = asyncio.create_task(server.serve([sock.dup()]), name="http")
    try:
        await asyncio.wait([serving])
        serving.result()
    finally:
        server.leave()
        # A little more than uvicorn takes at the worst; then it is not asked any more.
        await asyncio.wait([serving], timeout=STOP + 2)
        serving.cancel()
        server.cut()


def _connection(proxies: Sequence[Network]) -> "type[_HttpConnection]":
    """Connections of a door with these trusted proxies."""
    return type("_Connection", (_HttpConnection,), {"proxies": proxies})


class _HttpConnection(H11Protocol):
    """A connection that is closed when its client stops reading, or does not send a request in time.

    When there are too many, idle ones are closed (`doors.guard.places`).
    """

    proxies: Sequence[Network] = ()
    _cut: asyncio.TimerHandle | None = None
    _asked: asyncio.TimerHandle | None = None
    _since = Instant(0.0)
    _source = ""
    _has_spoken = _has_asked = _is_for_probes = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or refuse."""
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        self._since, self._source = Instant(self.loop.time()), source_of(peer)
        is_proxy = is_trusted(peer, self.proxies)
        found = room_for(
            self._source, self._seats(False), most=CONNECTIONS, most_of_one=CONNECTIONS_OF_ONE, is_exempt=is_proxy
        )
        if isinstance(found, Full):
            self._is_for_probes, self.app = True, _probes_only(self.app, found.why)
            most = CONNECTIONS_FOR_PROBES
            found = room_for(self._source, self._seats(True), most=most, most_of_one=most)
        if isinstance(found, Full):
            self._refuse("too_busy", found.why)
            return
        if found.instead_of is not None:
            found.instead_of.transport.abort()
        self._await_headers(FIRST_WITHIN)

    def _seats(self, are_for_probes: bool) -> "list[OpenConnection[_HttpConnection]]":
        """The other connections."""
        return [
            each.seat
            for each in self.connections
            if isinstance(each, _HttpConnection)
            and each is not self
            and each._is_for_probes is are_for_probes
            and not each.transport.is_closing()
        ]

    @property
    def seat(self) -> "OpenConnection[_HttpConnection]":
        """This connection, as one that may be closed for another."""
        is_idle = self.cycle is None or self.cycle.response_complete
        return OpenConnection(self, self._source, is_idle, self._has_asked, self._since)

    def data_received(self, data: bytes) -> None:
        """Note that the client sends, and parse what it sent."""
        if self.transport.is_closing():
            return
        if not self._has_spoken:
            self._has_spoken = True
            self._await_headers()
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with a code like every other error."""
        self._refuse("bad_request", f"{msg.rstrip('.')}; send an HTTP/1.1 request")

    def _refuse(self, code: str, sentence: str) -> None:
        """Answer with an error and close the connection."""
        refusal = problems.answer(code, sentence, {"connection": "close"})
        head = f"HTTP/1.1 {refusal.status_code} {HTTPStatus(refusal.status_code).phrase}\r\n".encode()
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in refusal.raw_headers)
        self.transport.write(head + lines + b"\r\n" + bytes(refusal.body))
        self.transport.close()

    def handle_events(self) -> None:
        """Handle what was parsed; note when the headers of a request are complete."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._has_asked = True
            self.cycle.scope["extensions"] = {CUT: self.transport.abort}  # type: ignore[dict-item]
            if self._asked is not None:
                self._asked.cancel()

    def on_response_complete(self) -> None:
        """Note that the request was answered; the next one may arrive."""
        self._await_headers()
        super().on_response_complete()

    def _await_headers(self, within: float | None = None) -> None:
        if self._asked is not None:
            self._asked.cancel()
        self._asked = self.loop.call_later(within or HEADERS_WITHIN, self.transport.abort)

    def pause_writing(self) -> None:
        """The write buffer is full: the client does not read; close the connection if that lasts."""
        super().pause_writing()
        self._cut = self.loop.call_later(STALLED, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._spare()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed by either side: free its place."""
        self._spare()
        if self._asked is not None:
            self._asked.cancel()
        super().connection_lost(exc)

    def _spare(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None


def _probes_only(app: ASGIApp, why: str) -> ASGIApp:
    """The application for a connection that may only send probes."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in FREE:
            await app(scope, receive, send)
            return
        await problems.answer("too_busy", why, {"connection": "close"})(scope, receive, send)

    return answer


class _Server(uvicorn.Server):
    """uvicorn as a part of a node: it leaves signals alone, and does not wake while idle."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Stop accepting, and finish the answers under way."""
        self.should_exit = True
        self._leaving.set()

    def cut(self) -> None:
        """Drop the connections that did not end."""
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    async def main_loop(self) -> None:
        """Wait until it is time to go; uvicorn's own loop wakes ten times a second."""
        await self._leaving.wait()
        # A connection that asyncio accepts in the very moment its server is closed is neither served nor closed
        # (before 3.13). So stop accepting, let what was accepted arrive, and be closed after that.
        for server in self.servers:
            for sock in server.sockets:
                asyncio.get_running_loop().remove_reader(sock.fileno())
        await asyncio.sleep(0)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the node's."""
        yield


class _Manners:
    """Adds the common headers (date, no sniffing, no caching), and turns exceptions into error answers."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app, self._clock = app, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def polite(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *self._headers()]
            await send(message)

        try:
            await self._app(scope, receive, polite)
        except Exception as error:
            if has_begun:
                await _break_off(error, scope, receive)
                return
            await _failed(error, scope)(scope, receive, polite)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"date", format_datetime(self._clock.wall(), usegmt=True).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]


async def _break_off(error: Exception, scope: Scope, receive: Receive) -> None:
    """Break off an answer that has begun and cannot go on; a repeated request gets the error. A bug is raised as it
    is."""
    if not isinstance(error, RotaError) or error.code == _INTERNAL or not await cut_off(scope, receive):
        raise error
    log.info("answer broken off", extra={"path": scope["path"], "why": str(error)})


def _failed(error: Exception, scope: Scope) -> Response:
    """The answer for an uncaught error. One of Rota's is shown; a bug is logged, and not shown."""
    if isinstance(error, Busy):
        return problems.answer(error.code, str(error), {"retry-after": str(error.after)})
    if isinstance(error, RotaError) and error.code != _INTERNAL:
        return problems.answer(error.code, str(error))
    log.error("request failed", extra={"method": scope["method"], "path": scope["path"]}, exc_info=error)
    sentence = "something went wrong in this node, not in your request; its log has the traceback"
    return problems.answer(_INTERNAL, sentence)


def _refusal(routes: Sequence[BaseRoute]) -> Callable[[Request, Exception], Response]:
    """The answers to requests that match no route or no method."""

    def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, method = request.url.path, request.method
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.NOT_FOUND:
            near = problems.nearest(path, (route.path for route in routes if isinstance(route, Route)))
            guess = f"did you mean {near}?" if near else "/openapi.json lists every path"
            code, sentence = "path_not_found", f"there is nothing at {path[:200]}; {guess}"
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            code, sentence = "method_not_allowed", f"{path} does not take {method}; use {headers.get('Allow') or 'GET'}"
        else:
            code, sentence = "bad_request", error.detail
        return problems.answer(code, sentence, headers)

    return refuse


def _verdict(verdict: HealthVerdict) -> Response:
    """200, or 503 with the reasons by name."""
    if verdict.is_well:
        return _json({"ok": True})
    return _json({"ok": False, "reasons": dict(verdict.reasons)}, HTTPStatus.SERVICE_UNAVAILABLE)


def _json(content: object, status: int = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
