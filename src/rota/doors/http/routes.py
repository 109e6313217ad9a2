"""The verbs over HTTP: the routes, and what happens before each operation is called.

`routes` gives what `doors.http.door.door` takes as `more`. Errors are left to the door, which gives each family its
status and a sentence.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.doors import offered, verbs
from rota.doors.behind import NodeBackend
from rota.doors.http import calls, once, openapi
from rota.doors.http import special as special_http
from rota.doors.http import verbs as verb_http
from rota.doors.http.calls import Endpoint, HttpCall
from rota.doors.http.entry import caller_of, require
from rota.doors.http.forwarded import address_of
from rota.fleet.core.access.gate import Access
from rota.store.port import Store

_KNOWN = offered, special_http
"""Modules that declare verbs, and answers that are not JSON."""


def routes(behind: NodeBackend) -> list[Route]:
    """The routes of the API."""
    found: dict[str, dict[str, Endpoint]] = {}
    for endpoint in table():
        found.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    made: list[bytes] = []
    making = asyncio.Lock()

    async def description(request: Request) -> Response:
        async with making:  # it takes a second, and callers share it
            if not made:
                made.append(await asyncio.to_thread(_described))
        return Response(made[0], media_type="application/json")

    return [
        *(Route(path, _handler(found[path], behind), methods=list(found[path]), name=path) for path in _ordered(found)),
        Route("/openapi.json", description),
    ]


def _ordered(paths: Iterable[str]) -> list[str]:
    """Paths in matching order: a fixed word before a placeholder in the same position."""
    return sorted(paths, key=lambda path: path.replace("{", "~"))


def _described() -> bytes:
    return msgspec.json.encode(openapi.describe(table()))


def table() -> tuple[Endpoint, ...]:
    """Every endpoint of the API."""
    return tuple(verb_http.endpoints())


def _handler(methods: Mapping[str, Endpoint], behind: NodeBackend) -> Callable[[Request], Awaitable[Response]]:
    """What answers every method of one path."""

    async def handle(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        require(request, verbs.OPERATIONS[endpoint.operation])
        calls.check_parameters(request, endpoint.parameters)
        caller, origin = caller_of(request), f"http {address_of(request)}"

        async def answer(store: Store) -> Response:
            own = behind.store_for(caller.name, origin, endpoint.operation, store)
            call = HttpCall(own, behind, request, caller)
            if endpoint.operation not in verbs.HEAVY:
                return await endpoint.answer(call)
            async with behind.budget.heavy(caller.name):
                return await endpoint.answer(call)

        is_change = verbs.OPERATIONS[endpoint.operation] is not Access.VIEW
        if not is_change or once.HEADER not in request.headers:
            return await answer(behind.present_store())
        behind.keys_used.take(caller.name, behind.clock.monotonic())
        if verbs.VERBS[endpoint.operation].keeps_keys:
            return await answer(behind.present_store())
        return await once.once(request, endpoint.operation, caller.name, behind.present_store(), answer)

    return handle
