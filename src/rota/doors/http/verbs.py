"""Verbs over HTTP: the request is read into the parameters of the operation, and its answer is written.

The verb (`doors.verbs`) says how each parameter is read. An answer that is not JSON has a function of its own, which
`answers` puts in `SPECIAL`: the bytes of a log, event streams.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from rota.doors import paging
from rota.doors.http import calls, sse
from rota.doors.http.calls import Endpoint, HttpCall
from rota.doors.http.forwarded import address_of
from rota.doors.http.sse import EventStream, ServerEvent
from rota.doors.verbs import VERBS, Sort, Verb, VerbField, Where
from rota.kit.time import durations
from rota.model.errors import Invalid

Special: TypeAlias = Callable[[HttpCall, Mapping[str, Any]], Awaitable[Response]]
Reader: TypeAlias = Callable[[HttpCall, VerbField], Any]

SHOWN = 80
"""Characters of a wrong value that its refusal shows."""

SPECIAL: dict[str, Special] = {}
"""Operation → what answers it, where that is not JSON."""


def answers(name: str) -> Callable[[Special], Special]:
    """Declares what answers an operation over HTTP."""

    def declare(function: Special) -> Special:
        SPECIAL[name] = function
        return function

    return declare


def endpoints() -> Iterator[Endpoint]:
    """The endpoint of every verb."""
    for verb in VERBS.values():
        yield Endpoint(verb.method, verb.path, verb.name, _answer(verb), verb.query())


def _answer(verb: Verb) -> calls.Answer:
    async def answer(call: HttpCall) -> Response:
        given = await _given(verb, call)
        if verb.is_noted:
            call.behind.note(by=call.caller.name, origin=f"http {address_of(call.request)}", what=verb.note(given))
        if special := SPECIAL.get(verb.name):
            return await special(call, given)
        found = await verb.ask(call, given)
        if verb.deletes:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        if verb.page_by is None:
            return _written(verb, verb.wrap(found, given))
        limit = calls.count(call.request, "limit", paging.LONGEST)
        return _written(verb, verb.page(found, limit, call.request.query_params.get("token")))

    return answer


# Requests


async def _given(verb: Verb, call: HttpCall) -> dict[str, Any]:
    """The request's values by parameter of the operation; parameters that the request leaves out are left out here
    too."""
    given: dict[str, Any] = {}
    body = await _body(verb, call)
    for field in verb.fields:
        found = (
            _in_body(verb, call, field, body) if field.where is Where.BODY else _PLACES[field.where](call, field, body)
        )
        if found is not _LEFT_OUT:
            given[field.name] = found
    return given


_LEFT_OUT = object()


async def _body(verb: Verb, call: HttpCall) -> dict[str, Any]:
    if any(field.where is Where.WHOLE for field in verb.fields):
        return _named(verb, call, await calls.body(call.request))
    if verb.body is not None and not verb.body.__struct_config__.forbid_unknown_fields:
        return await calls.body(call.request)
    if verb.method in ("GET", "DELETE"):
        return {}
    return await calls.fields(call, *(verb.body.__struct_fields__ if verb.body else ()))


def _named(verb: Verb, call: HttpCall, body: dict[str, Any]) -> dict[str, Any]:
    """The body with the name from the path; the body may contain the name too, if it is the same."""
    asked = {field.key for field in verb.fields if field.where is Where.PATH}
    for key, name in call.path.items():
        if key not in asked and body.setdefault(key, name) != name:
            thing = verb.path.split("/")[2].rstrip("s")
            raise Invalid(f'the path says {thing} "{name}", and the body "{body[key]}"; say the same, or leave it out')
    return body


def _in_path(call: HttpCall, field: VerbField, _: Mapping[str, Any]) -> Any:
    if field.parameter is not None and field.parameter.parts:
        return "/".join(call.path[part] for part in field.parameter.parts)
    return call.path[field.key]


def _in_query(call: HttpCall, field: VerbField, _: Mapping[str, Any]) -> Any:
    request, key = call.request, field.key
    if field.sort is Sort.AFTER:
        return sse.resumed_after(call)
    if field.sort is Sort.TIME and field.is_needed:
        return calls.moment(key, request.query_params.get(key))
    return _QUERY.get(field.sort, _text)(request, key) if key in request.query_params else _LEFT_OUT


def _text(request: Request, key: str) -> str:
    return request.query_params[key]


_QUERY: Mapping[Sort, Callable[[Request, str], Any]] = {
    Sort.COUNT: lambda request, key: calls.count(request, key, 0),
    Sort.FLAG: calls.flag,
    Sort.SPAN: calls.duration,
    Sort.TIME: calls.time,
    Sort.TEXTS: lambda request, key: request.query_params.getlist(key),
}


def _in_body(verb: Verb, call: HttpCall, field: VerbField, body: Mapping[str, Any]) -> Any:
    key, value = field.key, body.get(field.key)
    if field.sort is Sort.TIME:
        return calls.moment(key, value)
    if key not in body or (value is None and field.sort in _TYPES and (field.is_nullable or field.is_needed)):
        if field.is_needed:
            raise Invalid(_refusal(verb, call, key) or f"{key} is missing; {_must_be(field)}")
        return _LEFT_OUT
    if field.sort is Sort.SPAN and isinstance(value, str):
        try:
            return durations.parse(value)
        except ValueError as error:
            raise Invalid(f"{key}: {error}") from None
    if field.sort in _TYPES and not isinstance(value, _TYPES[field.sort][0]):
        raise Invalid(_refusal(verb, call, key) or f"{key} is {_shown(value)}; {_must_be(field)}")
    return value


def _shown(value: object) -> str:
    """A value for a sentence, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


_TYPES: Mapping[Sort, tuple[type, str]] = {
    Sort.TEXT: (str, "a text"),
    Sort.FLAG: (bool, "true or false"),
    Sort.SPAN: (timedelta, "a text, such as 10s"),
    Sort.LIST: (list, "a list"),
    Sort.OBJECT: (dict, "an object"),
}


def _must_be(field: VerbField) -> str:
    return f"it must be {_TYPES[field.sort][1]}" if field.sort in _TYPES else "give it"


def _refusal(verb: Verb, call: HttpCall, key: str) -> str:
    """The sentence that a body has for a field, if it has one."""
    said: str = getattr(verb.body, "refusals", {}).get(key, "")
    for part, value in call.path.items():
        said = said.replace(f"{{{part}}}", value)
    return said


def _in_header(call: HttpCall, field: VerbField, _: Mapping[str, Any]) -> Any:
    assert field.parameter is not None
    if field.sort is Sort.COUNT:
        return calls.version(call.request)
    return call.request.headers.get(field.parameter.header.lower(), _LEFT_OUT)


_PLACES: Mapping[Where, Callable[[HttpCall, VerbField, Mapping[str, Any]], Any]] = {
    Where.PATH: _in_path,
    Where.QUERY: _in_query,
    Where.WHOLE: lambda _, __, body: body,
    Where.HEADER: _in_header,
}


# Answers


def _written(verb: Verb, found: Any) -> Response:
    headers = {}
    if verb.found_at:
        headers["location"] = location(verb.found_at, found)
    if verb.is_versioned:
        headers["etag"] = f'"{found.version}"'
    return calls.json(found, HTTPStatus.CREATED if verb.makes else HTTPStatus.OK, headers or None)


def location(path: str, found: Any) -> str:
    """The path of the thing that was made. The id of a run is two parts of the path."""
    for name in found.__struct_fields__:
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(getattr(found, name), safe=""))
    if "{run}" in path:
        path = path.replace("{run}", "/".join(quote(part, safe="") for part in found.id.split("/")))
    return path


def events(batches: AsyncGenerator[Any, None], call: HttpCall, render: Callable[[Any], ServerEvent]) -> EventStream:
    """A streamed answer of server-sent events."""
    return EventStream(sse.as_events(call.watches.each(batches), render))


async def one_by_one(items: AsyncGenerator[Any, None]) -> AsyncGenerator[tuple[Any, ...], None]:
    """Each item as a batch of its own."""
    async with aclosing(items):
        async for item in items:
            yield (item,)
