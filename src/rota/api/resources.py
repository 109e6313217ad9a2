"""The operations over HTTP: each request is decoded, one operation is called, its answer is encoded.

`routes` gives what `api.http.door` takes as `more`. Errors are left to the door, which gives each family its status and
a sentence.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api import (
    calls,
    crawler,
    fleet_status,
    hooks,
    job_http,
    labels,
    once,
    openapi,
    operations,
    overview,
    planning,
    printing,
    pulse,
    relays,
    safety_http,
    sse,
    steering,
    stream_http,
    syncing,
    watching,
)
from rota.api.behind import Behind
from rota.api.calls import Call, Endpoint
from rota.api.entry import caller_of, require
from rota.api.forwarded import address_of
from rota.api.schema import ResourceView, kind_view
from rota.api.sse import EventStream, Told
from rota.api.watching import Happened, ResourceChange, What
from rota.decide.access import Access
from rota.kit.record import replace
from rota.model.errors import Invalid
from rota.store.port import Store
from rota.workloads.checks import Check

T = TypeVar("T")


def routes(behind: Behind) -> list[Route]:
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
        *(Route(path, _handler(methods, behind), methods=list(methods), name=path) for path, methods in found.items()),
        Route("/openapi.json", description),
    ]


def _described() -> bytes:
    return msgspec.json.encode(openapi.describe(table()))


def table() -> tuple[Endpoint, ...]:
    """Every endpoint of the API."""
    return (
        *ENDPOINTS,
        *steering.ENDPOINTS,
        *printing.ENDPOINTS,
        *job_http.ENDPOINTS,
        *stream_http.ENDPOINTS,
        *safety_http.ENDPOINTS,
        *crawler.ENDPOINTS,
    )


def _handler(methods: Mapping[str, Endpoint], behind: Behind) -> Callable[[Request], Awaitable[Response]]:
    """What answers every method of one path."""

    async def handle(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        require(request, operations.OPERATIONS[endpoint.operation])
        calls.check_parameters(request, endpoint.parameters)
        caller, origin = caller_of(request), f"http {address_of(request)}"

        async def answer(store: Store) -> Response:
            own = behind.store_for(caller.name, origin, endpoint.operation, store)
            call = Call(own, behind, request, caller)
            if endpoint.operation not in operations.HEAVY:
                return await endpoint.answer(call)
            async with behind.budget.heavy(caller.name):
                return await endpoint.answer(call)

        is_change = operations.OPERATIONS[endpoint.operation] is not Access.VIEW
        if not is_change or once.HEADER not in request.headers:
            return await answer(behind.present_store())
        behind.keys_used.take(caller.name, behind.clock.monotonic())
        if endpoint.operation in once.FOUND_AGAIN:
            return await answer(behind.present_store())
        return await once.once(request, endpoint.operation, caller.name, behind.present_store(), answer)

    return handle


# Resources


async def _create(call: Call) -> Response:
    fields = await calls.body(call.request)
    key = call.request.headers.get("idempotency-key")
    wait = calls.duration(call.request, "wait")
    made = await operations.create_resource(call.store, call.clock, fields, key=key, wait=wait, by=call.caller.name)
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
    return EventStream(sse.told(call.watches.each(changes), _change))


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


async def _messages(call: Call) -> Response:
    return calls.json(await relays.count_messages(call.store, call.tallies, call.path["kind"], call.path["id"]))


async def _kinds(call: Call) -> Response:
    page, further = calls.page(call, await operations.list_kinds(call.store), lambda kind: kind.name)
    return calls.json({"kinds": [kind_view(each) for each in page], "next": further})


# Nodes, why, events


async def _nodes(call: Call) -> Response:
    listed = await operations.list_nodes(call.store)
    page, further = calls.page(call, listed.nodes, lambda node: node.id)
    return calls.json(replace(listed, nodes=page, next=further))


async def _node(call: Call) -> Response:
    return calls.json(await operations.get_node(call.store, call.path["node"]))


async def _idlest(call: Call) -> Response:
    return calls.json(await operations.idlest_node(call.store))


async def _relays(call: Call) -> Response:
    return calls.json(await relays.list_relays(call.store, node=call.request.query_params.get("node")))


async def _cordon(call: Call) -> Response:
    why = (await calls.fields(call, "why")).get("why") or ""
    if not isinstance(why, str):
        raise Invalid(f"why is {why!r}; it must be a text")
    return calls.json(await operations.cordon_node(call.store, call.clock, call.path["node"], why))


async def _uncordon(call: Call) -> Response:
    await calls.fields(call)
    had_one = await operations.uncordon_node(call.store, call.path["node"])
    return calls.json({"node": call.path["node"], "was_cordoned": had_one})


async def _drain(call: Call) -> Response:
    fields = await calls.fields(call, "why", "deadline")
    why, deadline = fields.get("why") or "", fields.get("deadline")
    if not isinstance(why, str):
        raise Invalid(f"why is {why!r}; it must be a text")
    span = None if deadline is None else Check("node", call.path["node"]).duration("deadline", deadline)
    return calls.json(await operations.drain_node(call.store, call.path["node"], why=why, deadline=span))


async def _undrain(call: Call) -> Response:
    await calls.fields(call)
    had_one = await operations.undrain_node(call.store, call.path["node"])
    return calls.json({"node": call.path["node"], "was_drained": had_one})


async def _plan(call: Call) -> Response:
    asked = call.request.query_params
    preview = await planning.plan(
        call.store,
        rebalance=calls.flag(call.request, "rebalance"),
        without=asked.getlist("without"),
        add=calls.count(call.request, "add", 0),
        like=asked.get("like", ""),
    )
    return calls.json(preview)


async def _change_node(call: Call) -> Response:
    node, fields = call.path["node"], await calls.fields(call, "slots")
    if "slots" not in fields:
        raise Invalid(f'node "{node}": nothing is to change; give slots, or null for as many as its settings say')
    given = await operations.set_slots(call.store, call.clock, node, fields["slots"])
    return calls.json({"node": node, "slots": given.slots if given else None})


async def _label_node(call: Call) -> Response:
    fields = await calls.fields(call, "labels", "reset")
    wanted, reset = fields.get("labels", {}), fields.get("reset", False)
    return calls.json(await labels.label_node(call.store, call.clock, call.path["node"], wanted, reset=reset))


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
        token=asked.get("token"),
    )
    return calls.json({"events": reading.events, "revision": reading.revision, "next": reading.next})


async def _watch_events(call: Call) -> Response:
    asked = call.request.query_params
    coming = watching.watch_events(
        call.store,
        kinds=asked.getlist("kind"),
        node=asked.get("node"),
        limit=calls.count(call.request, "limit", 50),
        after=sse.resumed_after(call),
    )
    return EventStream(sse.told(call.watches.each(coming), _happened))


async def _hooks(call: Call) -> Response:
    found = await hooks.list_hooks(call.store, call.caller.access)
    page, further = calls.page(call, found, lambda view: view.name)
    return calls.json({"hooks": page, "next": further})


async def _hook(call: Call) -> Response:
    return calls.json(await hooks.get_hook(call.store, call.path["name"], call.caller.access))


async def _create_hook(call: Call) -> Response:
    made = await hooks.create_hook(call.store, call.clock, await calls.body(call.request))
    return calls.json(made, HTTPStatus.CREATED, {"location": f"/v1/hooks/{quote(made.name, safe='')}"})


async def _enable_hook(call: Call) -> Response:
    name, fields = call.path["name"], await calls.fields(call, "enabled")
    if not isinstance(fields.get("enabled"), bool):
        raise Invalid(f'hook "{name}": enabled must be true or false, and is all that can change')
    changed = await hooks.enable_hook(call.store, name, bool(fields["enabled"]))
    return calls.json({"name": name, "enabled": changed.enabled})


async def _delete_hook(call: Call) -> Response:
    await hooks.delete_hook(call.store, call.path["name"])
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _try_hook(call: Call) -> Response:
    await calls.fields(call)
    return calls.json(await hooks.try_hook(call.store, call.clock, call.path["name"], call.caller.access))


async def _status(call: Call) -> Response:
    return calls.json(await fleet_status.fleet_status(call.store))


async def _sync(call: Call) -> Response:
    fields, wait = await calls.fields(call, "force", "no_wait"), calls.duration(call.request, "wait")
    for name, value in fields.items():
        if not isinstance(value, bool):
            raise Invalid(f"{name} is {value!r}; it must be true or false")
    operations.check_wait(wait)
    listing = await syncing.sync_source(
        call.store,
        call.path["kind"],
        force=bool(fields.get("force")),
        no_wait=bool(fields.get("no_wait")),
        wait=wait or operations.LONGEST_WAIT,
    )
    return calls.json({"listing": listing})


async def _overview(call: Call) -> Response:
    return calls.json(await overview.overview(call.store))


async def _watch_pulse(call: Call) -> Response:
    beats = call.watches.each(pulse.watch_pulse(call.store))
    return EventStream(sse.told(beats, lambda beat: Told("beat", beat)))


def _happened(one: Happened) -> Told:
    if one.event is None:
        return Told(What.SYNCED, {"revision": one.resume}, one.resume)
    return Told(What.HAPPENED, one.event, one.resume)


ENDPOINTS = (
    Endpoint("GET", "/v1/resources", "list_resources", _list, ("kind", "prefix", "pending", "limit", "token")),
    Endpoint("GET", "/v1/resources/watch", "watch_resources", _watch, ("kind", "prefix", "after")),
    Endpoint("POST", "/v1/resources", "create_resource", _create, ("wait",)),
    Endpoint("GET", "/v1/resources/{kind}/{id}", "get_resource", _get),
    Endpoint("PATCH", "/v1/resources/{kind}/{id}", "update_resource", _update),
    Endpoint("DELETE", "/v1/resources/{kind}/{id}", "delete_resource", _delete),
    Endpoint("GET", "/v1/resources/{kind}/{id}/messages", "count_messages", _messages),
    Endpoint("GET", "/v1/kinds", "list_kinds", _kinds, ("limit", "token")),
    Endpoint("GET", "/v1/nodes", "list_nodes", _nodes, ("limit", "token")),
    Endpoint("GET", "/v1/nodes/idlest", "idlest_node", _idlest),
    Endpoint("GET", "/v1/nodes/{node}", "get_node", _node),
    Endpoint("PATCH", "/v1/nodes/{node}", "set_slots", _change_node),
    Endpoint("PATCH", "/v1/nodes/{node}/labels", "label_node", _label_node),
    Endpoint("POST", "/v1/nodes/{node}/cordon", "cordon_node", _cordon),
    Endpoint("POST", "/v1/nodes/{node}/uncordon", "uncordon_node", _uncordon),
    Endpoint("POST", "/v1/nodes/{node}/drain", "drain_node", _drain),
    Endpoint("POST", "/v1/nodes/{node}/undrain", "undrain_node", _undrain),
    Endpoint("GET", "/v1/plan", "plan", _plan, ("rebalance", "without", "add", "like")),
    Endpoint("GET", "/v1/relays", "list_relays", _relays, ("node",)),
    Endpoint("GET", "/v1/why/{kind}/{id}", "why_resource", _why_resource),
    Endpoint("GET", "/v1/sources/{kind}/why", "why_source", _why_source),
    Endpoint("POST", "/v1/sources/{kind}/sync", "sync_source", _sync, ("wait",)),
    Endpoint("GET", "/v1/why/{node}", "why_node", _why_node),
    Endpoint("GET", "/v1/events", "read_events", _events, ("since", "until", "kind", "node", "limit", "token")),
    Endpoint("GET", "/v1/status", "fleet_status", _status),
    Endpoint("GET", "/v1/overview", "overview", _overview),
    Endpoint("GET", "/v1/pulse/watch", "watch_pulse", _watch_pulse),
    Endpoint("GET", "/v1/hooks", "list_hooks", _hooks, ("limit", "token")),
    Endpoint("GET", "/v1/hooks/{name}", "get_hook", _hook),
    Endpoint("POST", "/v1/hooks", "create_hook", _create_hook),
    Endpoint("PATCH", "/v1/hooks/{name}", "enable_hook", _enable_hook),
    Endpoint("DELETE", "/v1/hooks/{name}", "delete_hook", _delete_hook),
    Endpoint("POST", "/v1/hooks/{name}/test", "try_hook", _try_hook),
    Endpoint("GET", "/v1/events/watch", "watch_events", _watch_events, ("kind", "node", "limit", "after")),
)


def _resource(view: ResourceView, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    return calls.json(view, status, {**(headers or {}), "etag": f'"{view.version}"'})
