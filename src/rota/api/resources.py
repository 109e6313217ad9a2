"""The operations over HTTP: each request is decoded, one operation is called, its answer is encoded.

`routes` gives what `api.http.door` takes as `more`. Errors are left to the door, which gives each family its status and
a sentence.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api import calls, crawler, openapi, operations, planning, sse, watching
from rota.api.calls import Call, Endpoint
from rota.api.entry import require
from rota.api.schema import ResourceView
from rota.api.sse import EventStream, Told
from rota.api.watches import Watches
from rota.api.watching import Happened, ResourceChange, What
from rota.kit.clock import Clock
from rota.model.errors import Invalid, Unavailable
from rota.store.port import Store
from rota.workloads.checks import Check

T = TypeVar("T")


def routes(store: Callable[[], Store | None], clock: Clock, watches: Watches) -> list[Route]:
    """The routes; `store` gives the store, or None while this node has none. `watches` keeps those that go on."""
    table = (*ENDPOINTS, *crawler.ENDPOINTS)
    found: dict[str, dict[str, Endpoint]] = {}
    for endpoint in table:
        found.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    async def description(request: Request) -> Response:
        return calls.json(openapi.describe(table))

    return [
        *(
            Route(path, _handler(methods, store, clock, watches), methods=list(methods), name=path)
            for path, methods in found.items()
        ),
        Route("/openapi.json", description),
    ]


def _handler(
    methods: Mapping[str, Endpoint], store: Callable[[], Store | None], clock: Clock, watches: Watches
) -> Callable[[Request], Awaitable[Response]]:
    """What answers every method of one path."""

    async def handle(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        require(request, operations.OPERATIONS[endpoint.operation])
        calls.check_parameters(request, endpoint.parameters)
        present = store()
        if present is None:
            raise Unavailable("this node is not in the fleet yet; try again in a moment, or ask another node")
        return await endpoint.answer(Call(present, clock, request, watches))

    return handle


# Resources


async def _create(call: Call) -> Response:
    fields = await calls.body(call.request)
    key = call.request.headers.get("idempotency-key")
    wait = calls.duration(call.request, "wait")
    made = await operations.create_resource(call.store, call.clock, fields, key=key, wait=wait)
    location = f"/v1/resources/{quote(made.kind, safe='')}/{quote(made.id, safe='')}"
    return _resource(made, HTTPStatus.CREATED, {"location": location})


async def _get(call: Call) -> Response:
    return _resource(await operations.get_resource(call.store, call.path["kind"], call.path["id"]))


async def _list(call: Call) -> Response:
    asked = call.request.query_params
    page = await operations.list_resources(
        call.store,
        kind=asked.get("kind"),
        prefix=asked.get("prefix", ""),
        pending=calls.flag(call.request, "pending"),
        limit=calls.count(call.request, "limit", operations.PAGE),
        token=asked.get("token"),
    )
    return calls.json(page)


async def _watch(call: Call) -> Response:
    asked = call.request.query_params
    after = sse.resumed_after(call)
    changes = watching.watch_resources(call.store, kind=asked.get("kind"), prefix=asked.get("prefix", ""), after=after)
    return EventStream(_told(call.watches.each(changes), _change))


def _change(change: ResourceChange) -> Told:
    said = {"why": change.why} if change.what is What.RESET else {"revision": change.resume}
    return Told(change.what, change.resource or said, change.resume)


async def _update(call: Call) -> Response:
    version = calls.version(call.request)
    changes = await calls.body(call.request)
    changed = await operations.update_resource(call.store, call.path["kind"], call.path["id"], changes, version=version)
    return _resource(changed)


async def _delete(call: Call) -> Response:
    version = calls.version(call.request)
    await operations.delete_resource(call.store, call.path["kind"], call.path["id"], version=version)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _kinds(call: Call) -> Response:
    return calls.json({"kinds": await operations.list_kinds(call.store)})


# Nodes, why, events


async def _nodes(call: Call) -> Response:
    return calls.json(await operations.list_nodes(call.store))


async def _cordon(call: Call) -> Response:
    why = (await _fields(call, "why")).get("why") or ""
    if not isinstance(why, str):
        raise Invalid(f"why is {why!r}; it must be a text")
    return calls.json(await operations.cordon_node(call.store, call.clock, call.path["node"], why))


async def _uncordon(call: Call) -> Response:
    await _fields(call)
    had_one = await operations.uncordon_node(call.store, call.path["node"])
    return calls.json({"node": call.path["node"], "was_cordoned": had_one})


async def _drain(call: Call) -> Response:
    fields = await _fields(call, "why", "deadline")
    why, deadline = fields.get("why") or "", fields.get("deadline")
    if not isinstance(why, str):
        raise Invalid(f"why is {why!r}; it must be a text")
    span = None if deadline is None else Check("node", call.path["node"]).duration("deadline", deadline)
    return calls.json(await operations.drain_node(call.store, call.clock, call.path["node"], why=why, deadline=span))


async def _undrain(call: Call) -> Response:
    await _fields(call)
    had_one = await operations.undrain_node(call.store, call.path["node"])
    return calls.json({"node": call.path["node"], "was_drained": had_one})


async def _plan(call: Call) -> Response:
    asked = call.request.query_params
    preview = await planning.plan(
        call.store,
        call.clock,
        rebalance=calls.flag(call.request, "rebalance"),
        without=asked.getlist("without"),
        add=calls.count(call.request, "add", 0),
        like=asked.get("like", ""),
    )
    return calls.json(preview)


async def _change_node(call: Call) -> Response:
    node, fields = call.path["node"], await _fields(call, "slots")
    if "slots" not in fields:
        raise Invalid(f'node "{node}": nothing is to change; give slots, or null for as many as its settings say')
    given = await operations.set_slots(call.store, call.clock, node, fields["slots"])
    return calls.json({"node": node, "slots": given.slots if given else None})


async def _fields(call: Call, *known: str) -> dict[str, object]:
    """The fields of a body that may be empty."""
    fields = await calls.body(call.request, may_be_empty=True)
    if unknown := next((name for name in fields if name not in known), None):
        raise Invalid(f'there is no field "{unknown}"; there may be {" and ".join(known) or "none"}')
    return fields


async def _why_resource(call: Call) -> Response:
    return calls.json(await operations.why_resource(call.store, call.path["kind"], call.path["id"]))


async def _why_source(call: Call) -> Response:
    return calls.json(await operations.why_source(call.store, call.path["kind"]))


async def _why_node(call: Call) -> Response:
    return calls.json(await operations.why_node(call.store, call.path["node"]))


async def _events(call: Call) -> Response:
    asked = call.request.query_params
    reading = await operations.read_events(
        call.store,
        since=calls.time(call.request, "since"),
        until=calls.time(call.request, "until"),
        kinds=asked.getlist("kind"),
        node=asked.get("node"),
        limit=calls.count(call.request, "limit", 50),
    )
    return calls.json({"events": reading.events, "revision": reading.revision})


async def _watch_events(call: Call) -> Response:
    asked = call.request.query_params
    coming = watching.watch_events(
        call.store,
        kinds=asked.getlist("kind"),
        node=asked.get("node"),
        limit=calls.count(call.request, "limit", 50),
        after=sse.resumed_after(call),
    )
    return EventStream(_told(call.watches.each(coming), _happened))


def _happened(one: Happened) -> Told:
    if one.event is None:
        return Told(What.SYNCED, {"revision": one.resume}, one.resume)
    return Told(What.HAPPENED, one.event, one.resume)


async def _told(
    batches: AsyncGenerator[tuple[T, ...] | None, None], tell: Callable[[T], Told]
) -> AsyncGenerator[list[Told] | None, None]:
    """Batches as events; None stays None."""
    async with aclosing(batches):
        async for batch in batches:
            yield None if batch is None else [tell(each) for each in batch]


ENDPOINTS = (
    Endpoint("GET", "/v1/resources", "list_resources", _list, ("kind", "prefix", "pending", "limit", "token")),
    Endpoint("GET", "/v1/resources/watch", "watch_resources", _watch, ("kind", "prefix", "after")),
    Endpoint("POST", "/v1/resources", "create_resource", _create, ("wait",)),
    Endpoint("GET", "/v1/resources/{kind}/{id}", "get_resource", _get),
    Endpoint("PATCH", "/v1/resources/{kind}/{id}", "update_resource", _update),
    Endpoint("DELETE", "/v1/resources/{kind}/{id}", "delete_resource", _delete),
    Endpoint("GET", "/v1/kinds", "list_kinds", _kinds),
    Endpoint("GET", "/v1/nodes", "list_nodes", _nodes),
    Endpoint("PATCH", "/v1/nodes/{node}", "set_slots", _change_node),
    Endpoint("POST", "/v1/nodes/{node}/cordon", "cordon_node", _cordon),
    Endpoint("POST", "/v1/nodes/{node}/uncordon", "uncordon_node", _uncordon),
    Endpoint("POST", "/v1/nodes/{node}/drain", "drain_node", _drain),
    Endpoint("POST", "/v1/nodes/{node}/undrain", "undrain_node", _undrain),
    Endpoint("GET", "/v1/plan", "plan", _plan, ("rebalance", "without", "add", "like")),
    Endpoint("GET", "/v1/why/{kind}/{id}", "why_resource", _why_resource),
    Endpoint("GET", "/v1/sources/{kind}/why", "why_source", _why_source),
    Endpoint("GET", "/v1/why/{node}", "why_node", _why_node),
    Endpoint("GET", "/v1/events", "read_events", _events, ("since", "until", "kind", "node", "limit")),
    Endpoint("GET", "/v1/events/watch", "watch_events", _watch_events, ("kind", "node", "limit", "after")),
)


def _resource(view: ResourceView, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    return calls.json(view, status, {**(headers or {}), "etag": f'"{view.version}"'})
