"""The OpenAPI description, made from the table of endpoints and from the records that operations answer with.

What an operation is for is the first line of its docstring, so the description cannot say anything else than the code.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from rota import __version__
from rota.api import (
    audit,
    crawler,
    hooks,
    job_operations,
    job_why,
    operations,
    overview,
    planning,
    pulse,
    relays,
    steering,
    stream_operations,
    tokens,
    watching,
)
from rota.api.calls import Endpoint
from rota.api.job_schema import JobPage, JobView, RunPage, RunView
from rota.api.schema import IdlestNode, NodeList, ResourcePage, ResourceView, Why
from rota.api.stream_schema import PublishedPage, StreamDetail, StreamPage, StreamView
from rota.control.preview import Preview
from rota.model.event import Event
from rota.model.relay import ResourceTally
from rota.model.resource import Cordon, Drain, KindRecord, WantedResource

_RECORDS = (
    ResourceView, ResourcePage, WantedResource, NodeList, IdlestNode, Why, Cordon, Drain, Preview, KindRecord,
    Event,
    hooks.HookView, hooks.HookTrial, crawler.NodeSpec, relays.RelayList, ResourceTally,
    JobView, JobPage, RunView, RunPage,
    StreamView, StreamPage, StreamDetail, PublishedPage,
    tokens.TokenView, tokens.NewToken, audit.Verdict, overview.Overview, steering.ServiceList,
)  # fmt: skip

_MODULES = (
    operations, planning, watching, relays, hooks, job_operations, job_why, stream_operations, tokens, audit, crawler,
    overview, pulse, steering,
)  # fmt: skip
"""Where operations are."""

_ANSWERS: dict[str, str] = {
    "list_resources": "ResourcePage",
    "create_resource": "ResourceView",
    "get_resource": "ResourceView",
    "update_resource": "ResourceView",
    "list_nodes": "NodeList",
    "idlest_node": "IdlestNode",
    "create_hook": "HookView",
    "try_hook": "HookTrial",
    "cordon_node": "Cordon",
    "drain_node": "Drain",
    "plan": "Preview",
    "why_resource": "Why",
    "why_node": "Why",
    "why_source": "Why",
    "why_run": "Why",
    "why_job": "Why",
    "why_stream": "Why",
    "add_resource": "NodeSpec",
    "list_jobs": "JobPage",
    "get_job": "JobView",
    "put_job": "JobView",
    "enable_job": "JobView",
    "disable_job": "JobView",
    "run_job": "RunView",
    "list_runs": "RunPage",
    "get_run": "RunView",
    "restart_run": "RunView",
    "interrupt_run": "RunView",
    "list_streams": "StreamPage",
    "get_stream": "StreamView",
    "stream_status": "StreamDetail",
    "list_published": "PublishedPage",
    "suspend_stream": "StreamView",
    "resume_stream": "StreamView",
    "terminate_stream": "StreamView",
    "scale_stream": "StreamView",
    "hand_off_groups": "StreamView",
    "reset_stream": "StreamView",
    "reset_offsets": "StreamView",
    "list_relays": "RelayList",
    "overview": "Overview",
    "list_services": "ServiceList",
    "count_messages": "ResourceTally",
    "create_token": "NewToken",
    "rotate_token": "NewToken",
    "revoke_token": "TokenView",
    "verify_audit": "Verdict",
}
"""The record each operation answers with; the others answer with an object of their own, or with nothing."""

_MAKING = ("create_resource", "create_hook", "create_token", "run_job", "restart_run", "backfill_job")
_DELETING = ("delete_resource", "delete_hook", "delete_job", "delete_run")

_STREAMS: dict[str, str] = {
    "watch_resources": "Events put and delete, whose data is a ResourceView; synced; reset.",
    "watch_events": "Events happened, whose data is an Event; synced.",
    "watch_pulse": "Events beat, with parts and revision.",
    "follow_log": "Events output, with attempt, offset, text and next.",
}
"""What is told by the operations that go on."""

_JOB: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("cron", "every", "tz", "misfire", "jitter", "timeout", "cwd")},
        **{name: {"type": "array", "items": {"type": "string"}} for name in ("argv", "after")},
        **{name: {"type": "object", "additionalProperties": {"type": "string"}} for name in ("labels", "env")},
        **{name: {"type": "integer"} for name in ("retries", "concurrency")},
    },
    "required": ["argv"],
}

_BODIES: dict[str, dict[str, Any]] = {
    "create_resource": {"$ref": "#/components/schemas/WantedResource"},
    "cordon_node": {"type": "object", "properties": {"why": {"type": "string"}}},
    "drain_node": {"type": "object", "properties": {"why": {"type": "string"}, "deadline": {"type": "string"}}},
    "put_job": _JOB,
    "run_job": {"type": "object", "properties": {"payload": {}}},
    "backfill_job": {
        "type": "object",
        "properties": {
            **{name: {"type": "string", "format": "date-time"} for name in ("first", "last")},
            "force": {"type": "boolean"},
        },
        "required": ["first", "last"],
    },
    "interrupt_run": {"type": "object", "properties": {"why": {"type": "string"}}},
    "scale_stream": {
        "type": "object",
        "properties": {"tasks": {"type": ["integer", "null"], "minimum": 1}},
        "required": ["tasks"],
    },
    "hand_off_groups": {
        "type": "object",
        "properties": {"groups": {"type": "array", "items": {"type": "integer"}}},
    },
    "reset_stream": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "backfill": {"type": "boolean"}},
    },
    "reset_offsets": {
        "type": "object",
        "properties": {"offsets": {"type": "object", "additionalProperties": {"type": ["integer", "string"]}}},
        "required": ["offsets"],
    },
    "set_slots": {"type": "object", "properties": {"slots": {"type": ["integer", "null"]}}, "required": ["slots"]},
    "clear_service": {
        "type": "object",
        "properties": {"groups": {"type": ["array", "null"], "items": {"type": "integer"}}},
    },
    "resize_service": {
        "type": "object",
        "properties": {"group": {"type": "integer"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["group", "count"],
    },
    "create_hook": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "events": {"type": "array", "items": {"type": "string"}},
            "url": {"type": "string"},
            "command": {"type": "array", "items": {"type": "string"}},
            "timeout": {"type": "string"},
            "retries": {"type": "integer"},
            "per_minute": {"type": "integer"},
            "enabled": {"type": "boolean"},
        },
        "required": ["name", "events"],
    },
    "enable_hook": {"type": "object", "properties": {"enabled": {"type": "boolean"}}, "required": ["enabled"]},
    "create_token": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("name", "role", "expires_in")},
        "required": ["name", "role"],
    },
    "rotate_token": {"type": "object", "properties": {name: {"type": "string"} for name in ("keep_old", "expires_in")}},
    "add_resource": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "remove_resource": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}

_MAY_BE_EMPTY = (
    "cordon_node", "drain_node", "run_job", "interrupt_run", "hand_off_groups", "reset_stream", "rotate_token",
)  # fmt: skip
"""Operations that do without a body."""

_HEADERS: dict[str, tuple[str, ...]] = {
    "create_resource": ("Idempotency-Key",),
    "run_job": ("Idempotency-Key",),
    "update_resource": ("If-Match",),
    "put_job": ("If-Match",),
    "delete_resource": ("If-Match",),
    "watch_resources": ("Last-Event-ID",),
    "watch_events": ("Last-Event-ID",),
}

_PARAMETERS: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 0, "maximum": operations.MAX_PAGE},
    "after": {"type": "integer"},
    "all": {"type": "boolean"},
    "pending": {"type": "boolean"},
    "refused": {"type": "boolean"},
    "rebalance": {"type": "boolean"},
    "add": {"type": "integer", "minimum": 0, "maximum": planning.MOST_ADDED},
    "count": {"type": "integer"},
    "attempt": {"type": "integer"},
    "offset": {"type": "integer"},
    "first": {"type": "string", "format": "date-time"},
    "last": {"type": "string", "format": "date-time"},
    "since": {"type": "string", "format": "date-time"},
    "until": {"type": "string", "format": "date-time"},
}
"""What parameters are that are no plain text."""

_ERROR = {
    "description": "What is wrong, in a sentence.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        }
    },
}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of these endpoints."""
    _, schemas = msgspec.json.schema_components(_RECORDS, ref_template="#/components/schemas/{name}")
    schemas["Changes"] = _changes(schemas["WantedResource"])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rota", "version": __version__, "description": "Keeps work running on a fleet of machines."},
        "paths": paths,
        "security": [{"token": []}],
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _changes(wanted: dict[str, Any]) -> dict[str, Any]:
    """What an update takes: what can be asked of a new resource, but for its name."""
    fields = {name: field for name, field in wanted["properties"].items() if name not in ("kind", "id")}
    return {"title": "Changes", "type": "object", "properties": fields, "additionalProperties": False}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    name = endpoint.operation
    function = next(getattr(module, name) for module in _MODULES if hasattr(module, name))
    described: dict[str, Any] = {
        "operationId": name,
        "summary": (function.__doc__ or "").partition("\n")[0],
        "x-rota-access": operations.OPERATIONS[name],
        "parameters": [*_in_path(endpoint.path), *_in_query(endpoint), *_in_headers(name)],
        "responses": {**_success(name), "4XX": _ERROR, "5XX": _ERROR},
    }
    body = {"$ref": "#/components/schemas/Changes"} if name == "update_resource" else _BODIES.get(name)
    if body:
        described["requestBody"] = {
            "required": name not in _MAY_BE_EMPTY,
            "content": {"application/json": {"schema": body}},
        }
    return described


def _success(name: str) -> dict[str, Any]:
    if name in _DELETING:
        return {"204": {"description": "It is deleted."}}
    if name in _STREAMS:
        return {"200": {"description": _STREAMS[name], "content": {"text/event-stream": {}}}}
    schema = {"$ref": f"#/components/schemas/{_ANSWERS[name]}"} if name in _ANSWERS else {"type": "object"}
    if name == "read_log":
        return {"200": {"description": "The bytes.", "content": {"application/octet-stream": {}}}}
    code, said = ("201", "It is there.") if name in _MAKING else ("200", "The answer.")
    return {code: {"description": said, "content": {"application/json": {"schema": schema}}}}


def _in_path(path: str) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "schema": _PARAMETERS.get(name, {"type": "string"})}
        for name in endpoint.parameters
    ]


def _in_headers(name: str) -> list[dict[str, Any]]:
    return [{"name": header, "in": "header", "schema": {"type": "string"}} for header in _HEADERS.get(name, ())]
