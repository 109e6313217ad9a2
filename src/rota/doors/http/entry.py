"""Who is let in over HTTP: callers that name this node and show a token that is good.

Everything but health needs both; the dashboard's files need the name alone. The name guards against DNS rebinding: a
page of another site may have its own name point to this machine, and a browser would send it our way with that name in
`Host`. An address cannot be made to mean another machine, so the one that a caller reached is a good name too.

A browser comes with the cookie of its session instead of the header; `doors.http.session` says what else it must show.

`EntryMiddleware` stands before all routes and asks for `view`; a route that needs more says so with `require`. It
judges the caller again while an answer goes on, whatever route gives it: a watch ends when its token does. What changes
something and was let in is carried through.
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
"""Seconds between looks at the caller of an answer that goes on."""

CUT = "rota.cut"
"""The extension of a request's scope that cuts its connection."""

FREE = frozenset({"/healthz", "/readyz", "/livez"})
"""What anybody may ask: probes carry no secrets, and are told none."""


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
    """Lets requests in, or answers why not."""

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
        """Answer, whatever becomes of the caller's token meanwhile: a change that has begun is carried through."""
        await self._app(request.scope, receive, send)

    async def _while_good(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer for as long as the caller is let in; a connection whose answer has begun by then is cut."""
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
        """The answer to who means another; None if this node is meant."""
        asked = host_of(request.headers.get("host", ""))
        reached = (request.scope.get("server") or ("",))[0]
        if is_loopback(asked) or asked in self._hosts or asked == reached:
            return None
        sentence = (
            f'this node does not answer to "{asked[:200]}"; use its address, or start it with --advertise and that name'
        )
        return problems.answer("wrong_host", sentence)

    async def _judged(self, request: Request) -> Response | None:
        """The answer to who may not even look; None if the caller may, and the request then says who that is."""
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
        """Who the caller is, if it may do what is needed."""
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
    """What a caller is answered who is not let in."""
    if refused.is_too_often:
        return problems.answer("too_many_requests", refused.why, {"retry-after": str(WAIT)})
    if refused.is_unsure:
        return problems.answer("unavailable", refused.why, {"retry-after": str(WAIT)})
    if not refused.is_stranger:
        return problems.answer("foreign_page" if refused.is_foreign_page else "denied", refused.why)
    return problems.answer("unauthenticated", refused.why, {"www-authenticate": "Bearer"})


def require(request: Request, needed: Access) -> None:
    """Denied unless the caller that was let in may do this."""
    caller, request.state.needed = caller_of(request), needed
    if refused := refusal(caller.access, needed, caller.name):
        raise Denied(_noted(request, refused).why)


def caller_of(request: Request) -> AdmittedCaller:
    """Who was let in with this request."""
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
