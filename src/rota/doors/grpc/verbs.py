"""Verbs over gRPC: a request is read into the parameters of the operation, and its answer becomes a message, by name.

The contract (`proto/rota/v1`) defines the messages of a method; their descriptors define the fields and types
(`doors.grpc.transcode`). A request with another form than over HTTP has a function of its own in `READ`, an answer that
is no record in `WRITE` (`doors.grpc.wire`).
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message

from rota.doors.grpc import transcode
from rota.doors.grpc.methods import GrpcCall, Method, StreamingMethod
from rota.doors.grpc.refusals import LARGEST
from rota.doors.grpc.transcode import LEFT_OUT
from rota.doors.limits import PAGE
from rota.doors.verbs import VERBS, Sort, Verb, VerbField, Where, by_rpc
from rota.doors.watches import Watches
from rota.model.errors import Invalid

READ: dict[str, tuple[str, Callable[[Any], Any]]] = {}
"""Operation → the parameter that its message has in another form than a request over HTTP, and what reads it."""

WRITE: dict[str, Callable[[dict[str, Any], Any], Message]] = {}
"""Operation → the function that makes the message, where the answer is no record."""

_SHRINKING = frozenset({"list_resources"})
"""Lists whose page is asked for again with fewer entries if it would be too large."""


def method(described: MethodDescriptor) -> Method | StreamingMethod:
    """What answers a method."""
    verb = by_rpc()[described.full_name.removeprefix("rota.v1.")]
    if described.server_streaming:
        return StreamingMethod(verb.name, _stream(verb, described))
    conflict = "ALREADY_EXISTS" if "already_exists" in verb.codes else "ABORTED"
    return Method(verb.name, _answer(verb, described), grpc.StatusCode[conflict])


def _answer(verb: Verb, described: MethodDescriptor) -> Callable[[GrpcCall, Any], Any]:
    kind = described.output_type

    async def answer(call: GrpcCall, request: Message) -> Message:
        given = _given(verb, call, request, described.input_type)
        if verb.is_noted:
            call.note(verb.note(given))
        while True:
            message = _written(verb, request, given, await verb.ask(call, given), kind)
            limit = given.get("limit", PAGE)
            if verb.name not in _SHRINKING or message.ByteSize() <= LARGEST or limit == 1:
                return message
            given["limit"] = limit // 2

    return answer


def _stream(
    verb: Verb, described: MethodDescriptor
) -> Callable[[GrpcCall, Watches, Any], AsyncGenerator[list[Message], None]]:
    kind = described.output_type

    async def answer(call: GrpcCall, watches: Watches, request: Message) -> AsyncGenerator[list[Message], None]:
        items = verb.begin(call, _given(verb, call, request, described.input_type))
        async with aclosing(watches.each(items)) as batches:
            async for batch in batches:
                each = batch if isinstance(batch, tuple) else () if batch is None else (batch,)
                yield [transcode.encode(one, kind) for one in each]

    return answer


# Requests


def _given(verb: Verb, call: GrpcCall, request: Message, kind: Descriptor) -> dict[str, Any]:
    """The request's values by parameter of the operation; fields that the request leaves out are left out here too."""
    given: dict[str, Any] = {}
    for field, read in _readers(verb.name, kind):
        found = _read(call, field, read(request))
        if found is not LEFT_OUT:
            given[field.name] = found
        elif field.is_needed:
            given[field.name] = _empty(field, request, kind)
    return given


@cache
def _readers(name: str, kind: Descriptor) -> tuple[tuple[VerbField, Callable[[Message], Any]], ...]:
    """What reads each parameter of a verb."""
    fields = VERBS[name].fields
    named = {each for field in fields if field.where is not Where.WHOLE for each in names_of(field)}
    by_hand = dict([READ[name]] if name in READ else [])

    def whole(request: Message) -> dict[str, Any]:
        return transcode.fields_of(request, *named)

    def reader(field: VerbField) -> Callable[[Message], Any]:
        if field.name in by_hand:
            return by_hand[field.name]
        if field.where is Where.WHOLE:
            return whole
        found: Callable[[Message], Any] = transcode.reader(kind, names_of(field))
        return found

    return tuple((field, reader(field)) for field in fields)


def _read(call: GrpcCall, field: VerbField, found: Any) -> Any:
    """A value as the operation takes it."""
    if found is LEFT_OUT:
        return found
    if field.sort is Sort.SPAN and field.key == "wait":
        return call.wait(found)
    if field.sort is Sort.AFTER and found < 0:
        raise Invalid(f"after is {found}; it must be the resume of a message that was sent, or be left out")
    return found


def names_of(field: VerbField) -> tuple[str, ...]:
    """The names that a message may have for a parameter."""
    header = field.parameter.header.lower().replace("-", "_") if field.parameter else ""
    return (field.name, field.key, header)


def _empty(field: VerbField, request: Message, kind: Descriptor) -> Any:
    """What a parameter is that has no default, and was left out."""
    if field.sort is Sort.TIME:
        raise Invalid(f"{field.key} is missing; it must be a time")
    told = next(found for name in names_of(field) if (found := kind.fields_by_name.get(name)) is not None)
    return None if told.has_presence else getattr(request, told.name)


# Answers


def _written(verb: Verb, request: Message, given: dict[str, Any], found: Any, kind: Descriptor) -> Message:
    if verb.name in WRITE:
        return WRITE[verb.name](given, found)
    if verb.page_by is not None:
        limit, token = transcode.given(request, "limit"), request.token  # type: ignore[attr-defined]
        return transcode.encode(verb.page(found, limit, token), kind)
    if verb.deletes and found is None:
        return _echoed(request, kind)
    return transcode.encode(found if verb.deletes else verb.wrap(found, given), kind)


def _echoed(request: Message, kind: Descriptor) -> Message:
    """A message that says what was asked about."""
    make = message_factory.GetMessageClass(kind)
    return make(**{field.name: getattr(request, field.name) for field in kind.fields})
