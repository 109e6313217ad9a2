"""Admission over HTTP: requests that name this node in `Host` and have a valid token.

Everything but health needs both; the dashboard's files need the name alone. The name guards against DNS rebinding: a
page of another site may let its own name point to this machine, and a browser would send its requests here with that
name in `Host`. An address cannot be rebound, so the address that the client connected to is accepted too.

A browser sends the cookie of its session instead of the header; `doors.http.session` says what else it must send.

`EntryMiddleware` stands before all routes and requires `view`; a route that needs more says so with `require`. It
judges the caller again while an answer goes on, on every route: a watch ends when its token does. An admitted change is
completed.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.doors.guard.budget import CallerBudget
from rota.doors.guard.doorkeeper import WAIT, Doorkeeper
from rota.doors.guard.sessions import Sessions
from rota.doors.http import problems, session
from rota.doors.http.forwarded import address_of
from rota.fleet.core.access.gate import Access, AdmittedCaller, TurnedAway, refusal
from rota.model.config import is_loopback
from rota.model.errors import Denied

LOOK = 1.0
"""Seconds between checks of the caller of an answer that goes on."""

CUT = "rota.cut"
"""The extension of a request's scope that closes its connection."""

FREE = frozenset({"/healthz", "/readyz", "/livez"})
"""Paths without a token: probes send no secrets, and get none."""


async def cut_off(scope: Scope, receive: Receive) -> bool:
    """Cut the connection of a request whose answer has begun, so that it does not pass for whole; False if that cannot
    be done."""
    cut = scope.get("extensions", {}).get(CUT)
    if cut is None:
        return False
    cut()
    with suppress(TimeoutError):  # it is gone a moment later
        async with asyncio.timeout(LOOK):
            while (await receive())["type"] != "http.disconnect":
                pass
    return True


class EntryMiddleware:
    """Admits requests, or answers why not."""

    def __init__(
        self,
        app: ASGIApp,
        doorkeeper: Doorkeeper,
        hosts: Collection[str],
        is_page: Callable[[str], bool] = lambda path: False,
        budget: CallerBudget | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self._app, self._doorkeeper, self._hosts, self._is_page = app, doorkeeper, hosts, is_page
        self._budget, self._sessions = budget or CallerBudget(), sessions or Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._misdirected(request)
        if refused is None and not self._is_page(scope["path"]):
            refused = await self._judged(request)
        if refused is not None or not hasattr(request.state, "caller"):
            await (refused or self._app)(scope, receive, send)
            return
        who = caller_of(request).name
        answer = self._while_good if request.method in session.LOOKING else self._to_the_end
        async with self._budget.admit(who):
            await self._budget.timed(who, answer(request, receive, send))

    async def _to_the_end(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer even if the caller's token becomes invalid meanwhile: a change that has begun is completed."""
        await self._app(request.scope, receive, send)

    async def _while_good(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer while the caller's token is valid; if it ends, the connection of an answer that has begun is
        closed."""
        answering, loop = asyncio.current_task(), asyncio.get_running_loop()
        refused: TurnedAway | None = None
        looking: asyncio.TimerHandle
        has_begun = False

        async def begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        def look() -> None:
            nonlocal refused, looking
            judged = self._who(request, getattr(request.state, "needed", Access.VIEW))
            if isinstance(judged, TurnedAway) and answering is not None:
                refused = judged
                answering.cancel()
            else:
                looking = loop.call_later(LOOK, look)

        looking = loop.call_later(LOOK, look)
        try:
            await self._app(request.scope, receive, begin)
        except asyncio.CancelledError:
            if refused is None or answering is None or answering.uncancel():
                raise
            answer = _turned_away(_noted(request, refused))
            if not has_begun:
                await answer(request.scope, receive, send)
                return
            if not await cut_off(request.scope, receive):
                raise Denied(refused.why) from None
        finally:
            looking.cancel()

    def _misdirected(self, request: Request) -> Response | None:
        """The refusal of a request whose `Host` is not this node; None if it is."""
        asked = host_of(request.headers.get("host", ""))
        reached = (request.scope.get("server") or ("",))[0]
        if is_loopback(asked) or asked in self._hosts or asked == reached:
            return None
        sentence = (
            f'this node does not answer to "{asked[:200]}"; use its address, or start it with --advertise and that name'
        )
        return problems.answer("wrong_host", sentence)

    async def _judged(self, request: Request) -> Response | None:
        """The refusal of a caller without `view`; None if it is admitted, and the request then has its name."""
        request.state.doorkeeper, request.state.sessions = self._doorkeeper, self._sessions
        if request.method == "POST" and request.url.path == session.PATH:
            return None  # it brings a token in its body, and judges that itself
        if "authorization" not in request.headers and (id := session.shown(request)):
            await self._sessions.find(id)
        judged = self._who(request, Access.VIEW)
        if isinstance(judged, AdmittedCaller):
            request.state.caller = judged
            return None
        return _turned_away(_noted(request, judged))

    def _who(self, request: Request, needed: Access) -> AdmittedCaller | TurnedAway:
        """The caller, if it has the needed access; otherwise the refusal."""
        shown = request.headers.get("authorization")
        id = session.shown(request) if shown is None else None
        if not id:
            return self._doorkeeper.judge(shown, needed)
        if (record := self._sessions.known(id)) is None:
            return TurnedAway("this session has ended, or is not known here; log in again", True)
        judged = self._doorkeeper.judge_digest(bytes.fromhex(record.digest), needed)
        if isinstance(judged, AdmittedCaller) and (why := session.objection(request, id)):
            return TurnedAway(why, False, judged.name, is_foreign_page=True)
        return judged


def _turned_away(refused: TurnedAway) -> Response:
    """The answer to a caller that is not admitted."""
    if refused.is_too_often:
        return problems.answer("too_many_requests", refused.why, {"retry-after": str(WAIT)})
    if refused.is_unsure:
        return problems.answer("unavailable", refused.why, {"retry-after": str(WAIT)})
    if not refused.is_stranger:
        return problems.answer("foreign_page" if refused.is_foreign_page else "denied", refused.why)
    return problems.answer("unauthenticated", refused.why, {"www-authenticate": "Bearer"})


def require(request: Request, needed: Access) -> None:
    """Raise Denied unless the admitted caller may do this."""
    caller, request.state.needed = caller_of(request), needed
    if refused := refusal(caller.access, needed, caller.name):
        raise Denied(_noted(request, refused).why)


def caller_of(request: Request) -> AdmittedCaller:
    """The admitted caller of this request."""
    caller: AdmittedCaller = request.state.caller
    return caller


def _noted(request: Request, refused: TurnedAway) -> TurnedAway:
    doorkeeper: Doorkeeper = request.state.doorkeeper
    what = f"{request.method} {request.url.path}"
    return doorkeeper.turn_away(refused, door="http", address=address_of(request), what=what)


def host_of(header: str) -> str:
    """The name or address in a `Host` header, without its port, as it is compared."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name
