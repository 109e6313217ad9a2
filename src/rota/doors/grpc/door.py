"""The verbs over gRPC: the methods, and what happens around each call before its operation is asked.

`handlers` gives what `link.open.serve_link` takes as `more`: the API has no port of its own, it shares the node link's.
The contracts are those in `proto/rota/v1` and, as seed 001 wrote it, `proto/crawler.proto`; a verb names its method
there (`doors.grpc.verbs`).

A caller's deadline limits how long we wait for the leader on its behalf: the answer is sent shortly before it.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from datetime import timedelta
from typing import Any, TypeVar

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from rota.doors import offered, verbs
from rota.doors.behind import NodeBackend
from rota.doors.grpc import introspection, wire
from rota.doors.grpc import verbs as verb_grpc
from rota.doors.grpc.methods import NOBODY, GrpcCall, Method, StreamingMethod
from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.grpc.pb import crawler_pb2, jobs_pb2, safety_pb2, services_pb2, streams_pb2
from rota.doors.grpc.refusals import Context, TooLarge, guarded, read, send, write
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.fleet.core.access.gate import Access, AdmittedCaller, TurnedAway
from rota.link.address import caller_address
from rota.model.errors import Invalid, Unavailable

T = TypeVar("T")

KEY = "idempotency-key"
STALLED = 30.0
"""Seconds a caller may stop reading before its call ends."""


def handlers(
    behind: NodeBackend, health: HealthChecks, stopping: asyncio.Event, doorkeeper: Doorkeeper | None = None
) -> list[grpc.GenericRpcHandler]:
    """The gRPC handlers; `stopping` ends the streams. The doorkeeper identifies callers; without one they are
    anonymous."""

    def handler(described: MethodDescriptor) -> "grpc.RpcMethodHandler[Any, Any]":
        match METHODS[described.full_name]:
            case StreamingMethod() as stream:
                return _stream_handler(described, stream, behind, doorkeeper)
            case method:
                return _handler(described, method, behind, doorkeeper)

    offered = [
        grpc.method_handlers_generic_handler(
            service.full_name,
            {method.name: handler(method) for method in service.methods},
        )
        for service in SERVICES
    ]
    return [*offered, *introspection.handlers(SERVICES, health, stopping)]


def needed(path: str) -> Access | None:
    """The access that a caller of `/service/method` needs; None: no token is needed.

    A method that is not the API's belongs to the node link or to no service: it needs the access of a node.
    """
    service, _, method = path.removeprefix("/").partition("/")
    if service == introspection.HEALTH.full_name:
        return None
    if service in (introspection.REFLECTION.full_name, introspection.OLDER_REFLECTION):
        return Access.VIEW
    found = METHODS.get(f"{service}.{method}")
    return verbs.OPERATIONS[found.operation] if found else Access.NODE


def turned_away(doorkeeper: Doorkeeper, path: str, authorization: str | None) -> TurnedAway | None:
    """Why a call is refused; None if it is admitted."""
    access = needed(path)
    judged = doorkeeper.judge(authorization, access) if access else None
    return judged if isinstance(judged, TurnedAway) else None


def _handler(
    described: MethodDescriptor, method: Method, behind: NodeBackend, doorkeeper: Doorkeeper | None
) -> "grpc.RpcMethodHandler[Any, Any]":
    kind = message_factory.GetMessageClass(described.input_type)

    async def answer(content: bytes, context: Context) -> bytes:
        request, remaining = read(kind, content), context.time_remaining()
        left = None if remaining is None else timedelta(seconds=remaining)
        _refuse_key(method.operation, context)
        caller = _caller(doorkeeper, context)
        origin = f"grpc {caller_address(context.peer())}"
        store = behind.store_for(caller.name, origin, method.operation)
        call = GrpcCall(store, behind, left, caller, origin)
        if method.operation not in verbs.HEAVY:
            return write(await method.answer(call, request))
        async with behind.budget.heavy(caller.name):
            return write(await method.answer(call, request))

    async def handle(content: bytes, context: Context) -> bytes:
        return await guarded(
            context, _within_budget(behind, doorkeeper, context, answer(content, context)), method.conflict
        )

    return grpc.unary_unary_rpc_method_handler(handle)


def _stream_handler(
    described: MethodDescriptor, stream: StreamingMethod, behind: NodeBackend, doorkeeper: Doorkeeper | None
) -> "grpc.RpcMethodHandler[Any, Any]":
    kind = message_factory.GetMessageClass(described.input_type)

    async def answer(content: bytes, context: Context) -> None:
        call = GrpcCall(behind.present_store(), behind, None)
        async with aclosing(stream.answer(call, behind.watches, read(kind, content))) as batches:
            async for batch in batches:
                for message in batch:
                    await _send(context, message)
        raise Unavailable("this node is stopping; ask another, or again later", code="stopping")

    async def handle(content: bytes, context: Context) -> None:
        await guarded(context, _within_budget(behind, doorkeeper, context, answer(content, context)))

    return grpc.unary_stream_rpc_method_handler(handle)


def _refuse_key(operation: str, context: Context) -> None:
    """Invalid if a change has an idempotency key in its metadata, where it has no effect."""
    is_change = verbs.OPERATIONS[operation] is not Access.VIEW
    if is_change and any(key == KEY for key, _ in context.invocation_metadata() or ()):
        raise Invalid(
            f"metadata {KEY} has no effect over gRPC; rota.v1.Resources/Create and rota.v1.Jobs/Start take the field "
            "idempotency_key, other changes take a key over HTTP alone"
        )


async def _within_budget(
    behind: NodeBackend, doorkeeper: Doorkeeper | None, context: Context, work: Coroutine[Any, Any, T]
) -> T:
    """What `work` returns, charged to the caller; Busy if that has used up its share."""
    who, has_begun = _caller(doorkeeper, context).name, False
    try:
        async with behind.budget.admit(who):
            has_begun = True
            return await behind.budget.timed(who, work)
    finally:
        if not has_begun:
            work.close()


def _caller(doorkeeper: Doorkeeper | None, context: Context) -> AdmittedCaller:
    """The name of the caller, which the guard has admitted already."""
    shown = next((str(value) for key, value in context.invocation_metadata() or () if key == "authorization"), None)
    judged = doorkeeper.judge(shown, Access.VIEW) if doorkeeper else NOBODY
    return judged if isinstance(judged, AdmittedCaller) else NOBODY


async def _send(context: Context, message: Message) -> None:
    try:
        async with asyncio.timeout(STALLED):
            await send(context, message)
    except TimeoutError:
        raise TooLarge(f"the caller took nothing for {STALLED:.0f} s; read faster, or watch less") from None


SERVICES: tuple[ServiceDescriptor, ...] = (
    *pb.DESCRIPTOR.services_by_name.values(),
    *jobs_pb2.DESCRIPTOR.services_by_name.values(),
    *streams_pb2.DESCRIPTOR.services_by_name.values(),
    *services_pb2.DESCRIPTOR.services_by_name.values(),
    *safety_pb2.DESCRIPTOR.services_by_name.values(),
    *crawler_pb2.DESCRIPTOR.services_by_name.values(),
)
METHODS: dict[str, Method | StreamingMethod] = {
    method.full_name: verb_grpc.method(method) for service in SERVICES for method in service.methods
}
"""What answers each method of the contracts."""

_KNOWN = offered, wire
"""What declares verbs, and what their messages have in another way."""
