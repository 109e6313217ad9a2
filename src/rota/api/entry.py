"""Who is let in over HTTP: callers that name this node and show a token that is good.

Everything but health needs both; the dashboard's files need the name alone. The name guards against DNS rebinding: a
page of another site may have its own name point to this machine, and a browser would send it our way with that name in
`Host`. An address cannot be made to mean another machine, so the one that a caller reached is a good name too.

A browser comes with the cookie of its session instead of the header; `api.session` says what else it must show.

`Entry` stands before all routes and asks for `view`; a route that needs more says so with `require`.
"""

from collections.abc import Callable, Collection

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api import problems, session
from rota.api.budget import Budget
from rota.api.doorkeeper import WAIT, Doorkeeper
from rota.api.forwarded import address_of
from rota.decide.access import Access, Admitted, TurnedAway, refusal
from rota.model.config import is_loopback
from rota.model.errors import Denied

FREE = frozenset({"/healthz", "/readyz", "/livez"})
"""What anybody may ask: probes carry no secrets, and are told none."""


class Entry:
    """Lets requests in, or answers why not."""

    def __init__(
        self,
        app: ASGIApp,
        doorkeeper: Doorkeeper,
        hosts: Collection[str],
        is_page: Callable[[str], bool] = lambda path: False,
        budget: Budget | None = None,
    ) -> None:
        self._app, self._doorkeeper, self._hosts, self._is_page = app, doorkeeper, hosts, is_page
        self._budget = budget or Budget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._misdirected(request)
        if refused is None and not self._is_page(scope["path"]):
            refused = self._judged(request)
        if refused is not None or not hasattr(request.state, "caller"):
            await (refused or self._app)(scope, receive, send)
            return
        who = caller_of(request).name
        async with self._budget.admit(who):
            await self._budget.timed(who, _called(self._app, scope, receive, send))

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

    def _judged(self, request: Request) -> Response | None:
        """The answer to who may not even look; None if the caller may, and the request then says who that is."""
        request.state.doorkeeper = self._doorkeeper
        if request.method == "POST" and request.url.path == session.PATH:
            return None  # it brings a token in its body, and judges that itself
        shown = request.headers.get("authorization")
        cookie = session.shown(request) if shown is None else None
        judged = self._doorkeeper.judge(shown if cookie is None else f"Bearer {cookie}", Access.VIEW)
        if isinstance(judged, Admitted) and cookie is not None and (why := session.objection(request, cookie)):
            return problems.answer("foreign_page", _noted(request, TurnedAway(why, False, judged.name)).why)
        if isinstance(judged, Admitted):
            request.state.caller = judged
            return None
        judged = _noted(request, judged)
        if judged.is_too_often:
            return problems.answer("too_many_requests", judged.why, {"retry-after": str(WAIT)})
        return problems.answer("unauthenticated", judged.why, {"www-authenticate": "Bearer"})


def require(request: Request, needed: Access) -> None:
    """Denied unless the caller that was let in may do this."""
    caller = caller_of(request)
    if refused := refusal(caller.access, needed, caller.name):
        raise Denied(_noted(request, refused).why)


def caller_of(request: Request) -> Admitted:
    """Who was let in with this request."""
    caller: Admitted = request.state.caller
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


async def _called(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
