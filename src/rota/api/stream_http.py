"""The operations on streams over HTTP."""

from starlette.responses import Response

from rota.api import calls, stream_operations
from rota.api.calls import Call, Endpoint
from rota.api.operations import PAGE
from rota.model.errors import Invalid


async def _list(call: Call) -> Response:
    asked = call.request.query_params
    limit = calls.count(call.request, "limit", PAGE)
    page = await stream_operations.list_streams(
        call.store,
        prefix=asked.get("prefix", ""),
        with_past=calls.flag(call.request, "all"),
        limit=limit,
        token=asked.get("token"),
    )
    return calls.json(page)


async def _get(call: Call) -> Response:
    return calls.json(await stream_operations.get_stream(call.store, call.path["name"]))


async def _status(call: Call) -> Response:
    return calls.json(await stream_operations.stream_status(call.store, call.path["name"]))


async def _lag(call: Call) -> Response:
    return calls.json({"partitions": await stream_operations.stream_lag(call.store, call.path["name"])})


async def _history(call: Call) -> Response:
    return calls.json({"versions": await stream_operations.stream_history(call.store, call.path["name"])})


async def _published(call: Call) -> Response:
    limit, token = calls.count(call.request, "limit", PAGE), call.request.query_params.get("token")
    return calls.json(await stream_operations.list_published(call.store, call.path["name"], limit=limit, token=token))


async def _why(call: Call) -> Response:
    return calls.json(await stream_operations.why_stream(call.store, call.path["name"]))


async def _suspend(call: Call) -> Response:
    await calls.fields(call)
    wait = calls.duration(call.request, "wait")
    return calls.json(await stream_operations.suspend_stream(call.store, call.path["name"], by=call.by, wait=wait))


async def _resume(call: Call) -> Response:
    await calls.fields(call)
    wait = calls.duration(call.request, "wait")
    return calls.json(await stream_operations.resume_stream(call.store, call.path["name"], by=call.by, wait=wait))


async def _terminate(call: Call) -> Response:
    await calls.fields(call)
    wait = calls.duration(call.request, "wait")
    return calls.json(await stream_operations.terminate_stream(call.store, call.path["name"], by=call.by, wait=wait))


async def _scale(call: Call) -> Response:
    fields = await calls.fields(call, "tasks")
    if "tasks" not in fields:
        raise Invalid("tasks is missing; say how many, or null for as many as are declared")
    return calls.json(await stream_operations.scale_stream(call.store, call.path["name"], fields["tasks"], by=call.by))


async def _hand_off(call: Call) -> Response:
    groups = (await calls.fields(call, "groups")).get("groups", [])
    if not isinstance(groups, list):
        raise Invalid("groups must be a list of numbers, like [0, 1]; leave it out for all")
    wait = calls.duration(call.request, "wait")
    return calls.json(
        await stream_operations.hand_off_groups(call.store, call.path["name"], groups, by=call.by, wait=wait)
    )


async def _reset(call: Call) -> Response:
    fields, wait = await calls.fields(call, "to", "backfill"), calls.duration(call.request, "wait")
    to, backfill = fields.get("to"), fields.get("backfill", False)
    return calls.json(
        await stream_operations.reset_stream(
            call.store, call.path["name"], by=call.by, to=to, backfill=backfill, wait=wait
        )
    )


async def _reset_offsets(call: Call) -> Response:
    offsets = (await calls.fields(call, "offsets")).get("offsets")
    if not isinstance(offsets, dict):
        raise Invalid('offsets must be an object from partitions to places, like {"0": 120, "1": "earliest"}')
    wait = calls.duration(call.request, "wait")
    return calls.json(
        await stream_operations.reset_offsets(call.store, call.path["name"], offsets, by=call.by, wait=wait)
    )


ENDPOINTS = (
    Endpoint("GET", "/v1/streams", "list_streams", _list, ("prefix", "all", "limit", "token")),
    Endpoint("GET", "/v1/streams/{name}", "get_stream", _get),
    Endpoint("GET", "/v1/streams/{name}/status", "stream_status", _status),
    Endpoint("GET", "/v1/streams/{name}/why", "why_stream", _why),
    Endpoint("GET", "/v1/streams/{name}/lag", "stream_lag", _lag),
    Endpoint("GET", "/v1/streams/{name}/history", "stream_history", _history),
    Endpoint("GET", "/v1/streams/{name}/published", "list_published", _published, ("limit", "token")),
    Endpoint("POST", "/v1/streams/{name}/suspend", "suspend_stream", _suspend, ("wait",)),
    Endpoint("POST", "/v1/streams/{name}/resume", "resume_stream", _resume, ("wait",)),
    Endpoint("POST", "/v1/streams/{name}/terminate", "terminate_stream", _terminate, ("wait",)),
    Endpoint("POST", "/v1/streams/{name}/scale", "scale_stream", _scale),
    Endpoint("POST", "/v1/streams/{name}/handoff", "hand_off_groups", _hand_off, ("wait",)),
    Endpoint("POST", "/v1/streams/{name}/reset", "reset_stream", _reset, ("wait",)),
    Endpoint("POST", "/v1/streams/{name}/reset-offsets", "reset_offsets", _reset_offsets, ("wait",)),
)
