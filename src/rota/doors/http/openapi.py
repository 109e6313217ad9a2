"""The OpenAPI description, made from the verbs and from the records that they take and answer with.

Nothing is described twice. An operation's text is its docstring, a field's the text below it (`kit.text.docs`), a
parameter's its type (`doors.parameters`), and the errors are those of `model.problems`; so the description always
matches the code. `_SAME` names the records whose texts a view shares.

`describe` takes a tenth of a second the first time, for it reads sources: the door makes it once, in a thread.
"""

import enum
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any, get_args, get_type_hints

import msgspec

from rota import __version__
from rota.doors import bodies, parameters
from rota.doors.http import problems, session
from rota.doors.http.calls import Endpoint
from rota.doors.http.examples import example
from rota.doors.parameters import Parameter
from rota.doors.verbs import VERBS, Sort, Verb, Where
from rota.fleet.core.access import token
from rota.fleet.core.access.gate import Access
from rota.fleet.core.hooks import record as hook
from rota.fleet.doors import bodies as fleet_bodies
from rota.fleet.doors import hooks, tokens
from rota.fleet.doors.nodes import answers as node_schema
from rota.jobs.core import records as job
from rota.jobs.doors import answers as job_schema
from rota.jobs.doors import bodies as job_bodies
from rota.kit.text.docs import class_doc, field_docs
from rota.model import node
from rota.model.problems import PROBLEMS
from rota.resources.core import records as resource
from rota.resources.doors import answers as resource_schema
from rota.streams.core import records as stream
from rota.streams.doors import answers as stream_schema

_SAME: Mapping[type, tuple[type, ...]] = {
    resource_schema.ResourceView: (resource.ResourceRecord,),
    resource.WantedResource: (resource.ResourceRecord,),
    resource_schema.KindView: (resource.KindRecord,),
    node_schema.NodeView: (node.Node,),
    job_schema.RunView: (job.RunRecord, job.Outcome),
    job_schema.JobView: (job.JobRecord, job.JobSpec),
    hooks.HookView: (hook.Hook,),
    job_bodies.JobBody: (job.JobSpec,),
    fleet_bodies.HookBody: (hook.Hook,),
    stream_schema.StreamView: (stream.StreamStatus, stream.StreamWishes),
    stream_schema.StreamTaskView: (stream.StreamTaskStatus,),
    stream_schema.GroupView: (stream.Group,),
    tokens.TokenView: (token.TokenRecord,),
    tokens.NewToken: (token.TokenRecord,),
    fleet_bodies.TokenBody: (token.TokenRecord,),
}
"""Record → those whose texts count for fields of the same name without a text; the first of them counts most."""

BYTES = "read_log"
"""The operation that answers with bytes."""

_RESOURCE = {"kind": "room", "id": "1", "spec": {}, "priority": 5, "replicas": 2}
_BODY_EXAMPLES: Mapping[str, dict[str, Any]] = {
    "WantedResource": _RESOURCE,
    "Changes": {"priority": 10, "replicas": 3},
}

_TAGS: Mapping[str, tuple[str, str]] = {
    "resources": ("Resources", "What the fleet keeps covered, and the kinds that apps declare."),
    "kinds": ("Resources", ""),
    "sources": ("Resources", ""),
    "nodes": ("Nodes", "The machines of the fleet, what they hold, and what would move."),
    "node": ("Nodes", ""),
    "plan": ("Nodes", ""),
    "why": ("Nodes", ""),
    "services": ("Services", "Services of the app, and its code."),
    "logs": ("Resources", ""),
    "relays": ("Messages", "Relays, sinks, and what was counted."),
    "jobs": ("Jobs", "What is done by the clock or on demand."),
    "runs": ("Runs", "What jobs did, and their output."),
    "streams": ("Streams", "What is read from sources and published."),
    "events": ("Events", "What happened, and the fleet at a glance."),
    "overview": ("Events", ""),
    "status": ("Events", ""),
    "pulse": ("Events", ""),
    "hooks": ("Hooks", "What is called or run when something happens."),
    "tokens": ("Access", "Tokens, sessions and the audit trail."),
    "session": ("Access", ""),
    "audit": ("Access", ""),
    "crawler": ("Resources by name", "The paths of an older system, for programs that call them."),
    "": ("Health", "Probes, metrics and this description."),
}
"""The tag of each first part of a path, and what the tag is about where that is said first."""

_NOT_FOUND: Mapping[str, str] = {
    "resources": "resource_not_found",
    "nodes": "node_not_found",
    "jobs": "job_not_found",
    "runs": "run_not_found",
    "streams": "stream_not_found",
    "hooks": "hook_not_found",
    "tokens": "token_not_found",
}

_EVERYWHERE = (
    "unauthenticated", "foreign_page", "wrong_host", "invalid", "unknown_parameter", "too_many_requests", "internal",
    "unavailable", "not_joined", "stopping", "too_busy",
)  # fmt: skip
_WITH_BODY = ("bad_json", "body_incomplete", "body_timeout", "too_large", "not_json", "unknown_field")
_CHANGING = ("conflict", "unknown_outcome")
_CODES_OF_HEADERS: Mapping[str, str] = {"Idempotency-Key": "key_reused", "If-Match": "stale_version"}

_NONE = re.compile(r"\bNone\b")
_DURATION = "A duration, such as `10s`, `1h30m` or `250ms`; `PT10S` is accepted too."


class _PlainPath(msgspec.Struct, frozen=True):
    """A path that is no operation of the fleet but part of the door."""

    method: str
    path: str
    name: str
    doc: str
    access: Access | None = None
    answer: type | None = None
    media: str = "application/json"
    body: type | None = None
    codes: tuple[str, ...] = ()


_PLAIN = (
    _PlainPath("GET", "/healthz", "healthz", "Whether the node makes progress.", answer=bodies.Health),
    _PlainPath(
        "GET", "/readyz", "readyz", "Whether the node is in the fleet and its workers are ready.", answer=bodies.Health
    ),
    _PlainPath("GET", "/livez", "livez", "Whether the node answers at all.", answer=bodies.Health),
    _PlainPath(
        "GET",
        "/metrics",
        "metrics",
        "The metrics of the node, as Prometheus text or OpenMetrics.",
        Access.VIEW,
        media="text/plain",
    ),
    _PlainPath("GET", "/v1/node", "this_node", "What the node that is asked knows of itself.", Access.VIEW),
    _PlainPath(
        "POST",
        session.PATH,
        "begin_session",
        "Exchange a token for a session: a cookie, and a word that a page sends as `x-rota-csrf` with each change.",
        answer=bodies.Session,
        body=bodies.SessionBody,
        codes=("unauthenticated", "foreign_page", "too_many_requests", "invalid", *_WITH_BODY),
    ),
    _PlainPath("GET", session.PATH, "show_session", "Whose session it is, and its word.", Access.VIEW, bodies.Session),
    _PlainPath("DELETE", session.PATH, "end_session", "End the session: the cookie is removed.", Access.VIEW),
    _PlainPath("GET", "/openapi.json", "describe", "This description.", Access.VIEW),
)

_TEXT = """The API of a Rota fleet. Every node answers it, whether it leads or not.

Send `authorization: Bearer TOKEN` with every request but those of health. `x-role` says which role the token needs:
`view`, `operate`, `admin` or `node`; each includes those before it. Times are ISO 8601 with their zone. Durations are
written like `10s` or `1h30m`; `PT10S` is accepted too. Lists are read in pages: `next` of an answer is the `token`
of the next request. A field or parameter that does not exist is refused.

Errors are `application/problem+json` with a stable `code`; `x-error-codes` lists those of each operation."""


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of these endpoints, and of what every door has."""
    schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(VERBS[endpoint.operation], schemas)
    for plain in _PLAIN:
        paths.setdefault(plain.path, {})[plain.method.lower()] = _plain(plain, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rota",
            "version": __version__,
            "summary": "Keeps work running on a fleet of machines.",
            "description": _TEXT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The node that is asked."}],
        "tags": [{"name": name, "description": doc} for name, doc in _TAGS.values() if doc],
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": schemas,
            "responses": {
                _named(status): _refusal(status) for status in sorted({each.status for each in PROBLEMS.values()})
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the fleet. The scopes of an operation name the role that it needs.",
                }
            },
        },
    }


# Schemas


def _schemas() -> dict[str, Any]:
    """Every record, with a text at each property."""
    plain = (bodies.Session, bodies.SessionBody, bodies.Health, bodies.Problem)
    kinds = dict.fromkeys((*_answers(), *(verb.body for verb in VERBS.values() if verb.body), *plain))
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for kind in _reached(kinds):
        found = schemas.get(kind.__name__)
        if found is None:
            continue
        found["description"] = _kind_text(kind)
        texts, hints = texts_of(kind), get_type_hints(kind)
        for name, each in found.get("properties", {}).items():
            if datetime in (hint := hints.get(name), *get_args(hint)):
                _mark_time(each)
            if name in texts:
                each["description"] = texts[name]
            if _is_duration(each):
                each["description"] = f"{each.get('description', '')} {_DURATION}".strip()
    _with_items(schemas)
    schemas["Changes"] = _changes(schemas["WantedResource"])
    schemas["Problem"]["properties"]["code"]["examples"] = list(PROBLEMS)  # no enum: a newer node may have others
    return schemas


def _answers() -> Iterator[type]:
    """The record each verb answers with, except for those that delete, stream or send bytes."""
    return (verb.record for verb in VERBS.values() if not (verb.deletes or verb.goes_on or verb.name == BYTES))


def texts_of(kind: type) -> dict[str, str]:
    """Field → its text, or that of the record it is shown from; in the words of JSON."""
    found: dict[str, str] = {}
    for each in (*reversed(_SAME.get(kind, ())), kind):
        found |= field_docs(each)
    return {name: _NONE.sub("null", text) for name, text in found.items()}


def _with_items(part: Any) -> None:
    """Lists without a type, or with one for each place, are lists of anything: generators of clients know no others."""
    if isinstance(part, dict):
        if part.get("type") == "array" and ("prefixItems" in part or "items" not in part):
            part.pop("prefixItems", None)
            part["items"] = {}
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            _with_items(each)


def _mark_time(schema: dict[str, Any]) -> None:
    """Times have their zone, whatever their type would allow."""
    for each in (schema, *schema.get("anyOf", ())):
        if each.get("type") == "string":
            each["format"] = "date-time"


def _reached(kinds: Sequence[type] | dict[type, None]) -> Iterator[type]:
    """Every record and every set of words that these kinds hold."""
    seen: set[type] = set()
    waiting: list[Any] = list(kinds)
    while waiting:
        each = waiting.pop()
        waiting += get_args(each)
        if not isinstance(each, type) or each in seen:
            continue
        seen.add(each)
        if is_dataclass(each) or issubclass(each, msgspec.Struct):
            waiting += get_type_hints(each).values()
            yield each
        elif issubclass(each, enum.Enum):
            yield each


def _kind_text(kind: type) -> str:
    said = class_doc(kind)
    if not issubclass(kind, enum.Enum):
        return said
    words = field_docs(kind)
    told = [f"`{each.value}`: {words[each.name]}" for each in kind if each.name in words]
    return " ".join([said, *told])


def _is_duration(schema: dict[str, Any]) -> bool:
    return any(each.get("format") == "duration" for each in (schema, *schema.get("anyOf", ())))


def _changes(wanted: dict[str, Any]) -> dict[str, Any]:
    """The schema of an update: the fields of a new resource, without its name."""
    fields = {
        name: {word: said for word, said in field.items() if word != "default"}  # what is not named stays as it is
        for name, field in wanted["properties"].items()
        if name not in ("kind", "id")
    }
    return {
        "title": "Changes",
        "description": "The fields of a resource that are to change; null puts one back to its default.",
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


# Operations


def _operation(verb: Verb, schemas: dict[str, Any]) -> dict[str, Any]:
    body = "Changes" if verb.name == "update_resource" else verb.body.__name__ if verb.body else ""
    described: dict[str, Any] = {
        **_said(verb.function.__doc__ or "", verb.name, verb.path, verb.access),
        "parameters": [*_in_path(verb), *_in_query(verb), *_in_headers(verb)],
    }
    if body:
        described["requestBody"] = _body(body, verb.body, schemas, is_required=verb.is_body_needed)
    described["responses"] = {**_success(verb, schemas), **_errors(codes := _codes(verb, has_body=bool(body)))}
    described["x-error-codes"] = codes
    return described


def _plain(plain: _PlainPath, schemas: dict[str, Any]) -> dict[str, Any]:
    codes = [*plain.codes, "wrong_host", "internal", "too_busy"]
    if plain.access is not None:
        codes += ["unauthenticated", "too_many_requests", "foreign_page"]
    if plain.answer is bodies.Health:
        codes = ["too_busy", "internal"]
    described = {**_said(plain.doc, plain.name, plain.path, plain.access), "parameters": []}
    if plain.access is None:
        described["security"] = []
    if plain.body is not None:
        described["requestBody"] = _body(plain.body.__name__, plain.body, schemas, is_required=True)
    if plain.method == "DELETE":
        success: dict[str, Any] = {"204": {"description": "The session has ended."}}
    else:
        content = {plain.media: _content(plain.answer, schemas)}
        success = {"200": {"description": plain.doc, "content": content}}
    refused = _errors(sorted(set(codes), key=list(PROBLEMS).index))
    if plain.answer is bodies.Health:
        either = {"application/json": _content(plain.answer, schemas)}
        refused["503"] = {
            "description": "The node is not well; or too much is asked at once.",
            "content": {**either, **_problem([503])},
        }
    described["responses"] = {**success, **refused}
    described["x-error-codes"] = sorted(set(codes), key=list(PROBLEMS).index)
    return described


def _said(doc: str, name: str, path: str, access: Access | None) -> dict[str, Any]:
    """The text of an operation, and the role it needs."""
    summary, _, rest = inspect.cleandoc(doc).partition("\n")
    needs = f"Needs a token with the role `{access}`." if access else "Needs no token."
    more = "\n\n".join(" ".join(part.split()) for part in (summary, *rest.strip().split("\n\n")) if part)
    said: dict[str, Any] = {
        "operationId": name,
        "tags": [_tag(path)],
        "summary": summary.partition(". ")[0].partition("; ")[0].rstrip(".") + ".",
        "description": f"{more}\n\n{needs}",
    }
    if access:
        said |= {"x-role": str(access), "security": [{"token": [str(access)]}]}
    return said


def _first(path: str) -> str:
    """The first part of a path that is a word of the API."""
    return path.removeprefix("/v1").split("/")[1] if path.startswith(("/v1/", "/crawler/")) else ""


def _tag(path: str) -> str:
    return _TAGS["services" if "/services" in path else _first(path)][0]


def _body(name: str, kind: type | None, schemas: dict[str, Any], *, is_required: bool) -> dict[str, Any]:
    shown = _BODY_EXAMPLES.get(name) or getattr(kind, "example", {})
    return {
        "description": schemas[name]["description"],
        "required": is_required,
        "content": {"application/json": {"schema": _ref(name), "example": shown}},
    }


def _content(kind: type | None, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {}
    return {"schema": _ref(kind.__name__), "example": example(_ref(kind.__name__), schemas)}


def _success(verb: Verb, schemas: dict[str, Any]) -> dict[str, Any]:
    if verb.deletes:
        return {"204": {"description": "It is deleted."}}
    if verb.goes_on:
        return {"200": {"description": verb.goes_on, "content": {"text/event-stream": {}}}}
    if verb.name == BYTES:
        headers = {
            "rota-attempt": _header("The number of the attempt.", "1"),
            "rota-next": _header("The offset to go on with.", "4096"),
            "rota-whole": _header("`true` if the output ends here.", "true"),
        }
        return {"200": {"description": "The bytes.", "headers": headers, "content": {"application/octet-stream": {}}}}
    code, said = ("201", "It is made. ") if verb.makes else ("200", "")
    content = {"application/json": _content(verb.record, schemas)}
    headers = {}
    if verb.is_versioned:
        headers["ETag"] = _header("Its version, for `If-Match`.", '"12"')
    if verb.found_at:
        headers["Location"] = _header("Its path.", "/v1/resources/room/1")
    answer = {"description": said + class_doc(verb.record), "content": content}
    return {code: {**answer, "headers": headers} if headers else answer}


def _header(doc: str, shown: str) -> dict[str, Any]:
    return {"description": doc, "schema": {"type": "string"}, "example": shown}


# Errors


def _codes(verb: Verb, *, has_body: bool) -> list[str]:
    """The error codes of an operation, in the order of the table."""
    found = {*_EVERYWHERE, *verb.codes}
    if verb.access is not Access.VIEW:
        found.add("denied")
    if has_body or verb.method in ("POST", "PUT", "PATCH"):
        found |= {*_WITH_BODY}
    if verb.method != "GET":
        found |= {*_CHANGING}
    if "{" in verb.path and (code := _NOT_FOUND.get(_first(verb.path))):
        found.add(code)
    if "/services" in verb.path:
        found.add("service_not_found")
    found |= {_CODES_OF_HEADERS[each.header] for each in _headers(verb) if each.header in _CODES_OF_HEADERS}
    return [code for code in PROBLEMS if code in found]


def _errors(codes: Sequence[str]) -> dict[str, Any]:
    """The error answers with these codes, by status; a newer Rota may have others."""
    statuses = sorted({PROBLEMS[code].status for code in codes})
    known = {str(status): {"$ref": f"#/components/responses/{_named(status)}"} for status in statuses}
    return {**known, "4XX": _other("The request is refused."), "5XX": _other("The node could not answer.")}


def _other(said: str) -> dict[str, Any]:
    return {"description": said, "content": {problems.MEDIA_TYPE: {"schema": _ref("Problem")}}}


def _named(status: int) -> str:
    return f"Error{status}"


def _refusal(status: int) -> dict[str, Any]:
    """The answer of one status, with an example for each of its codes."""
    own = [problem for problem in PROBLEMS.values() if problem.status == status]
    said = " ".join(f"`{each.code}`: {each.title}. {each.doc}" for each in own)
    headers = {}
    if any(each.retry_after is not None for each in own):
        headers["Retry-After"] = _header("Seconds after which the request may succeed.", "1")
    if status == 405:
        headers["Allow"] = _header("The methods that the path takes.", "GET, HEAD")
    if status == 401:
        headers["WWW-Authenticate"] = _header("How to authenticate.", "Bearer")
    answer = {"description": said, "content": _problem([status])}
    return {**answer, "headers": headers} if headers else answer


def _problem(statuses: Sequence[int]) -> dict[str, Any]:
    own = [problem for problem in PROBLEMS.values() if problem.status in statuses]
    shown = {
        each.code: {"summary": each.title, "value": problems.content(each.code, f"{each.title}. {each.doc}")}
        for each in own
    }
    return {problems.MEDIA_TYPE: {"schema": _ref("Problem"), "examples": shown}}


# Parameters


def _in_path(verb: Verb) -> Iterator[dict[str, Any]]:
    for part in verb.path.split("/"):
        if part.startswith("{"):
            name = part[1:-1]
            yield {**_parameter(name, "path", _path_part(verb, name)), "required": True}


def _path_part(verb: Verb, name: str) -> Parameter:
    """The text of a path's placeholder; if an operation has it in its body, another operation of the path describes
    it."""
    for each in (verb, *(other for other in VERBS.values() if other.path == verb.path)):
        for field in each.fields:
            if field.where is Where.PATH and field.parameter is not None:
                if name in field.parameter.parts:
                    return field.parameter.parts[name]
                if field.key == name:
                    return field.parameter
    raise LookupError(f"{verb.name}: {{{name}}} in its path has no description")


def _in_query(verb: Verb) -> Iterator[dict[str, Any]]:
    for field in verb.fields:
        if field.where is Where.QUERY and field.parameter is not None:
            yield _parameter(field.key, "query", field.parameter)
    if verb.page_by is not None:
        yield _parameter("limit", "query", parameters.WHOLE_PAGE)
        yield _parameter("token", "query", parameters.FORWARD)


def _headers(verb: Verb) -> Iterator[Parameter]:
    """The request headers that an operation uses."""
    for field in verb.fields:
        if field.where is Where.HEADER and field.sort is Sort.COUNT and field.parameter is not None:
            yield field.parameter
        if field.sort is Sort.AFTER:
            yield parameters.LAST_EVENT_ID
    if verb.access is not Access.VIEW and not verb.is_noted:
        yield parameters.IDEMPOTENCY_KEY


def _in_headers(verb: Verb) -> Iterator[dict[str, Any]]:
    for each in _headers(verb):
        yield _parameter(each.header, "header", each)


def _parameter(name: str, where: str, known: Parameter) -> dict[str, Any]:
    return {"name": name, "in": where, "description": known.doc, "schema": dict(known.schema), "example": known.example}
