"""The operations on tokens and on the audit trail over HTTP."""

from datetime import timedelta
from http import HTTPStatus
from urllib.parse import quote

from starlette.responses import Response

from rota.api import audit, calls, tokens
from rota.api.calls import Call, Endpoint
from rota.kit import durations
from rota.model.errors import Invalid


async def _list(call: Call) -> Response:
    found = await tokens.list_tokens(call.store, call.clock)
    page, further = calls.page(call, found, lambda view: view.name)
    return calls.json({"tokens": page, "next": further})


async def _get(call: Call) -> Response:
    return calls.json(await tokens.get_token(call.store, call.clock, call.path["name"]))


async def _create(call: Call) -> Response:
    fields = await calls.fields(call, "name", "role", "expires_in")
    made = await tokens.create_token(
        call.store,
        call.clock,
        _text(fields, "name"),
        _text(fields, "role"),
        by=call.caller.name,
        expires_in=_span(fields, "expires_in"),
        most=call.caller.access,
    )
    return calls.json(made, HTTPStatus.CREATED, {"location": f"/v1/tokens/{quote(made.name, safe='')}"})


async def _rotate(call: Call) -> Response:
    fields = await calls.fields(call, "keep_old", "expires_in")
    made = await tokens.rotate_token(
        call.store,
        call.clock,
        call.path["name"],
        by=call.caller.name,
        keep_old=_span(fields, "keep_old"),
        expires_in=_span(fields, "expires_in"),
        most=call.caller.access,
    )
    return calls.json(made)


async def _revoke(call: Call) -> Response:
    await calls.fields(call)
    return calls.json(await tokens.revoke_token(call.store, call.clock, call.path["name"], most=call.caller.access))


async def _read(call: Call) -> Response:
    page = await audit.read_audit(
        call.store,
        limit=calls.count(call.request, "limit", audit.PAGE),
        by=call.request.query_params.get("by", ""),
        refused=calls.flag(call.request, "refused"),
        since=calls.time(call.request, "since"),
        token=call.request.query_params.get("token"),
    )
    return calls.json(page)


async def _verify(call: Call) -> Response:
    return calls.json(await audit.verify_audit(call.store, noted=call.request.query_params.get("noted", "")))


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Invalid(f"{name} is {'missing' if value is None else 'no text'}; it must be a text")
    return value


def _span(fields: dict[str, object], name: str) -> timedelta | None:
    if fields.get(name) is None:
        return None
    try:
        return durations.parse(_text(fields, name))
    except ValueError as error:
        raise Invalid(f"{name}: {error}") from None


ENDPOINTS = (
    Endpoint("GET", "/v1/tokens", "list_tokens", _list, ("limit", "token")),
    Endpoint("GET", "/v1/tokens/{name}", "get_token", _get),
    Endpoint("POST", "/v1/tokens", "create_token", _create),
    Endpoint("POST", "/v1/tokens/{name}/rotate", "rotate_token", _rotate),
    Endpoint("POST", "/v1/tokens/{name}/revoke", "revoke_token", _revoke),
    Endpoint("GET", "/v1/audit", "read_audit", _read, ("limit", "token", "by", "refused", "since")),
    Endpoint("GET", "/v1/audit/verify", "verify_audit", _verify, ("noted",)),
)
