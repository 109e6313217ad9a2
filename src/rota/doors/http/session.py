"""Sessions of browsers over HTTP: a token becomes a cookie that scripts cannot read, and a word that pages must show.

The cookie holds a random id (`doors.guard.sessions`), never the token: browsers send cookies to every port of a host.
Its name has the port that the browser asked, so that nodes on one host do not overwrite each other's; under TLS it
begins with `__Host-`, so that no other name of the domain can set it.

A browser sends the cookie by itself, so the cookie alone would let a page of another site act for the user. Therefore
it is `SameSite=Strict`, and a request with it must also come from our own page: the `Origin` must be this node's, and
every change must have the CSRF word (`x-rota-csrf`), which only our pages get. The word is derived from the id, so that
every node can check it and none has to store it.

    POST /v1/session {"token": "rota_…"}   →  200, Set-Cookie, {"name", "access", "csrf"}
    GET /v1/session                        →  the same without a cookie, for a page that was loaded again
    DELETE /v1/session                     →  204, and the session is over on every node
"""

import hashlib
import hmac
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.guard.sessions import LIFE, Sessions
from rota.doors.http import calls, problems
from rota.doors.http.forwarded import address_of
from rota.fleet.core.access.gate import Access, AdmittedCaller, digest
from rota.model.errors import Denied, Invalid, Unavailable, Unknown

PATH = "/v1/session"
COOKIE = "rota_session"
HEADER = "x-rota-csrf"
LOOKING = frozenset({"GET", "HEAD"})


def routes() -> list[Route]:
    """The routes below `/v1/session`. `EntryMiddleware` admits the callers of the last two."""
    return [
        Route(PATH, _begin, methods=["POST"]),
        Route(PATH, _show, methods=["GET"]),
        Route(PATH, _end, methods=["DELETE"]),
    ]


def shown(request: Request) -> str | None:
    """The id of the session in the cookie of a request; None if there is none."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(cookie_name(request))
    except CookieError:
        return None
    return found.value if found is not None else None


def cookie_name(request: Request) -> str:
    """The name of the cookie for the host that the browser called; a load balancer's, if there is one."""
    is_secure = request.url.scheme == "https"
    _, _, port = request.headers.get("host", "").rpartition(":")
    number = port if port.isascii() and port.isdigit() else "443" if is_secure else "80"
    return f"{'__Host-' if is_secure else ''}{COOKIE}_{number}"


def objection(request: Request, id: str) -> str:
    """Why a request with a cookie may come from another site; empty if it does not."""
    if why := foreign(request):
        return why
    if request.method not in LOOKING:
        told = request.headers.get(HEADER, "")
        if not hmac.compare_digest(told.encode(errors="replace"), word(id).encode()):
            return f"a page that changes something must send the header {HEADER}, with what GET {PATH} says"
    return ""


def foreign(request: Request) -> str:
    """Why this request comes from a page of another site; empty if it does not."""
    origin = request.headers.get("origin")
    if origin is not None:
        asked, here = urlsplit(origin).netloc, request.headers.get("host", "")
        if asked.lower() != here.lower():
            return f"this comes from a page of {origin[:200]}; open the node's own page"
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "this comes from a page of another site; open the node's own page"
    return ""


def word(id: str) -> str:
    """The CSRF word that a page must send with every change in this session."""
    return hashlib.sha256(f"csrf {id}".encode(errors="replace")).hexdigest()


async def _begin(request: Request) -> Response:
    """Exchange a token for a cookie. This request was not judged before."""
    if why := foreign(request):
        raise Denied(why, code="foreign_page")
    token = (await calls.body(request)).get("token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or set(token) & set(' ";,\\'):
        raise Invalid("token must be a text without blanks; send the token that was made for you")
    doorkeeper: Doorkeeper = request.state.doorkeeper
    judged = doorkeeper.judge(f"Bearer {token}", Access.VIEW)
    if not isinstance(judged, AdmittedCaller):
        refused = doorkeeper.turn_away(judged, door="http", address=address_of(request), what=f"POST {PATH}")
        code = "too_many_requests" if refused.is_too_often else "unauthenticated"
        return problems.answer("unavailable" if refused.is_unsure else code, refused.why)
    sessions: Sessions = request.state.sessions
    id = await sessions.begin(digest(token))
    answer = calls.json(_answer(judged, id))
    answer.set_cookie(
        cookie_name(request),
        id,
        max_age=int(LIFE.total_seconds()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def _show(request: Request) -> Response:
    caller: AdmittedCaller = request.state.caller
    return calls.json(_answer(caller, shown(request) or ""))


async def _end(request: Request) -> Response:
    answer = Response(status_code=HTTPStatus.NO_CONTENT)
    sessions: Sessions = request.state.sessions
    try:
        await sessions.end(shown(request) or "")
    except (Unavailable, Unknown) as error:  # the browser forgets its id all the same
        sentence = f"the session was not ended in the store ({error}); it ends by itself within {LIFE}"
        answer = problems.answer("unavailable", sentence)
    is_secure = request.url.scheme == "https"
    answer.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict", secure=is_secure)
    return answer


def _answer(caller: AdmittedCaller, id: str) -> dict[str, str]:
    return {"name": caller.name, "access": caller.access, "csrf": word(id)}
