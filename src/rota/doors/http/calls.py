"""Requests over HTTP as operations need them: requests are decoded and checked, answers are encoded.

A request is checked before anything is done: how large it is, that it is JSON and says so, and that no parameter is
misspelt. A page of another site cannot send `application/json` unless the browser asks first, so insisting on that type
also keeps such pages out.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rota.doors.behind import NodeBackend
from rota.doors.steer import PASSED_ON
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import AdmittedCaller
from rota.kit import collector
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model.errors import Invalid, RotaError
from rota.model.spec.checks import did_you_mean
from rota.store.port import Store

T = TypeVar("T")

LARGEST = 1024 * 1024
"""Bytes of a body."""

SLOWEST = 10.0
"""Seconds a body may take to arrive."""

_VERSION = re.compile(r'(?:W/)?"?(\d{1,18})"?')


class HttpCall(msgspec.Struct, frozen=True):
    """One request, as an operation needs it."""

    store: Store
    """The store; what is changed in it says who did."""

    behind: NodeBackend
    request: Request
    caller: AdmittedCaller

    @property
    def by(self) -> str:
        """The name recorded for what this request changes."""
        return self.caller.name or "api"

    @property
    def clock(self) -> Clock:
        """The node's clock."""
        return self.behind.clock

    @property
    def watches(self) -> Watches:
        """Keeps track of the open watches."""
        return self.behind.watches

    @property
    def was_passed_on(self) -> bool:
        """Did another node pass it on?"""
        return PASSED_ON in self.request.headers

    def bounded(self, wait: timedelta) -> timedelta:
        """The wait as it is: HTTP requests have no deadline."""
        return wait

    @property
    def path(self) -> dict[str, str]:
        """The values of the path's placeholders."""
        return self.request.path_params


Answer: TypeAlias = Callable[[HttpCall], Awaitable[Response]]


class Endpoint(msgspec.Struct, frozen=True):
    """A method of a path, and the operation behind it."""

    method: str
    path: str
    operation: str
    answer: Answer
    parameters: tuple[str, ...] = ()
    """The allowed query parameters."""


async def body(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The JSON object in the body. An empty body, where that is allowed, needs no content type.

    A page of another site can send a request without a body. It is refused anyway: such a page has no token, and a
    request with the cookie of a session must have its CSRF word (`doors.http.session`).
    """
    sent = await content(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not sent and may_be_empty and kind in ("", "application/json"):
        return {}
    if kind != "application/json":
        sent_as = kind or "none"
        raise RotaError(
            f"the body must be JSON, and its content type is {sent_as}; send the header content-type: application/json",
            code="not_json",
        )
    try:
        with collector.paused():
            fields = msgspec.json.decode(sent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RotaError(f"the body is not JSON: {error}", code="bad_json") from None
    except RecursionError:
        raise RotaError("the body is nested too deeply; send a plainer one", code="bad_json") from None
    if not isinstance(fields, dict):
        raise Invalid(f"the body is {_sort(fields)}; it must be an object: {{…}}")
    return fields


async def fields(call: HttpCall, *known: str) -> dict[str, object]:
    """The fields of a body that may be empty."""
    given = await body(call.request, may_be_empty=True)
    if unknown := next((name for name in given if name not in known), None):
        raise Invalid(
            f'there is no field "{unknown}"; there may be {" and ".join(known) or "none"}', code="unknown_field"
        )
    return given


async def content(request: Request) -> bytes:
    """The body, as long as it is not too large or too slow; it can be read again."""
    kept: bytes | None = getattr(request.state, "content", None)
    if kept is None:
        kept = request.state.content = await _content(request)
    return kept


async def _content(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    too_large = RotaError(f"the body is larger than {LARGEST} bytes; send less", code="too_large")
    if length.isdigit() and int(length) > LARGEST:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            async for part in request.stream():
                content += part
                if len(content) > LARGEST:
                    raise too_large
    except ClientDisconnect:
        raise RotaError("the body ended before its end; send all of it", code="body_incomplete") from None
    except TimeoutError:
        raise RotaError(f"the body did not arrive within {SLOWEST:.0f} s; send it again", code="body_timeout") from None
    return bytes(content)


def check_parameters(request: Request, known: tuple[str, ...]) -> None:
    """Raises Invalid naming the first unknown query parameter."""
    for name in request.query_params:
        if name not in known:
            there = f"; there are {', '.join(known)}" if known else f"; {request.url.path} has none"
            raise Invalid(
                f'there is no parameter "{name}"{did_you_mean(name, known) or there}', code="unknown_parameter"
            )


def version(request: Request) -> int | None:
    """The version that If-Match names; None if any will do."""
    wanted = request.headers.get("if-match", "*").strip()
    if wanted == "*":
        return None
    if not (found := _VERSION.fullmatch(wanted)):
        raise Invalid(f'If-Match is {wanted}; it must be one version, like "12", or *')
    return int(found[1])


def count(request: Request, name: str, default: int) -> int:
    """A parameter that is a whole number."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise Invalid(f'{name} is "{given}"; it must be a whole number')
    return int(given)


def flag(request: Request, name: str) -> bool:
    """A parameter that is true or false; false if it was not given."""
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise Invalid(f'{name} is "{given}"; it must be true or false')
    return given == "true"


def duration(request: Request, name: str) -> timedelta | None:
    """A parameter that is a duration, if it was given."""
    given = request.query_params.get(name)
    try:
        return None if given is None else durations.parse(given)
    except ValueError as error:
        raise Invalid(f"{name}: {error}") from None


def time(request: Request, name: str) -> datetime | None:
    """A parameter that is a time, if it was given."""
    given = request.query_params.get(name)
    return None if given is None else moment(name, given)


def moment(name: str, given: object) -> datetime:
    """Parse a time from a request."""
    try:
        found = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        shown = f'"{given}"' if isinstance(given, str) else "missing" if given is None else "no text"
        raise Invalid(f"{name} is {shown}; it must be a time with its zone, like 2026-01-31T12:00:00Z")
    return found


def _sort(value: object) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case None:
            return "null"
        case _:
            return "a number" if not isinstance(value, bool) else "true or false"


def json(content: object, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")
