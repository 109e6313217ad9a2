"""The answering end of the node link on gRPC: decode, ask the reception, encode.

gRPC binds the port itself: `grpc.aio` cannot be handed a listening socket. So a port that others may take meanwhile
cannot be kept over a restart; and `0.0.0.0` means IPv6 too, as gRPC opens one socket for both.

A place that cannot be had is found out with a socket of our own first: gRPC only says that it failed.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import grpc

from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable
from rota.model.ids import NodeId
from rota.model.link import Batch, Chunk
from rota.rpc.address import Address
from rota.rpc.grpc import errors, options, wire
from rota.rpc.grpc.guard import Guard
from rota.rpc.grpc.link import SERVICE
from rota.rpc.grpc.stream import Stream
from rota.rpc.pb import link_pb2 as pb
from rota.rpc.port import Admit, Handler, IsRevoked, Server, TakeNote
from rota.rpc.reception import Reception
from rota.rpc.settings import LinkSettings, TlsFiles

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")

SHORTEST_SILENCE = timedelta(milliseconds=100)
"""What a caller may ask for at least: signs of life cost something."""


async def serve(
    address: Address,
    handler: Handler,
    settings: LinkSettings,
    tls: TlsFiles | None,
    more: Callable[[], Sequence[grpc.GenericRpcHandler]] | None,
    admit: Admit | None,
    take_note: TakeNote | None,
    is_revoked: IsRevoked,
) -> Server:
    """A door at `address`; Conflict if the place is taken, Denied if we may not have it."""
    credentials = options.server_credentials(tls) if tls else None
    await _check_place(address)
    reception = Reception(handler, settings)
    guards: list[grpc.aio.ServerInterceptor] = [Guard(admit, take_note)] if admit else []
    if tls is not None:
        from rota.rpc.grpc.inspector import Inspector  # noqa: PLC0415  # what reads certificates is an extra

        guards.append(Inspector(is_revoked, take_note))
    server = grpc.aio.server(interceptors=guards, options=options.of_server(settings))
    server.add_generic_rpc_handlers((_handlers(Answers(reception)), *(more() if more else ())))
    try:
        if credentials is None:
            port = server.add_insecure_port(address.authority)
        else:
            port = server.add_secure_port(address.authority, credentials)
    except RuntimeError as error:
        raise _taken(address) from error
    await server.start()
    return GrpcServer(server, reception, Address(address.scheme, address.host, port))


class GrpcServer:
    """An open door."""

    def __init__(self, server: grpc.aio.Server, reception: Reception, address: Address) -> None:
        self._server, self._reception, self._address = server, reception, address

    @property
    def address(self) -> str:
        return str(self._address)

    async def close(self, grace: timedelta) -> None:
        stopping = asyncio.ensure_future(self._server.stop(grace.total_seconds() + 1))
        try:
            await self._reception.close(grace)
        finally:
            await stopping


class Answers:
    """One method per call of the contract."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    async def check(self, request: pb.CheckRequest) -> pb.CheckAnswer:
        """Who we are."""
        return wire.to_presence(self._reception.check(wire.from_whom(request)))

    async def report(self, request: pb.ReportRequest) -> pb.ReportAnswer:
        """Take a report."""
        return wire.to_reported(self._reception.report(wire.from_whom(request), wire.from_report(request)))

    async def dispatch(self, request: pb.DispatchRequest) -> pb.DispatchAnswer:
        """Start an attempt."""
        answer = await self._reception.dispatch(wire.from_whom(request), wire.from_start(request))
        return wire.to_dispatched(answer)

    async def dispatch_many(self, request: pb.DispatchManyRequest) -> pb.DispatchManyAnswer:
        """Start attempts that came together."""
        starts = [wire.from_start(each) for each in request.starts]
        answers = await self._reception.dispatch_many(wire.from_whom(request), starts)
        return pb.DispatchManyAnswer(answers=[wire.to_dispatched(answer) for answer in answers])

    async def control(self, request: pb.ControlRequest) -> pb.ControlAnswer:
        """Do something to a task."""
        is_here = await self._reception.control(wire.from_whom(request), wire.from_control(request))
        return pb.ControlAnswer(is_here=is_here)

    async def hand_over(self, context: Context) -> None:
        """Take batches, until the caller ends."""
        first = await context.read()
        if not isinstance(first, pb.HandOverRequest) or first.WhichOneof("part") != "opening":
            raise Invalid("a hand-over begins with its opening; do both nodes run the same Rota?")
        opening = first.opening
        stream: Stream[int, Batch, pb.HandOverAnswer, pb.HandOverRequest] = Stream(
            peer=context.peer(),
            silence=_silence(opening.silence),
            write=partial(_during, context.write),
            read=partial(_during, context.read),
            encode=wire.to_acked,
            decode=wire.from_batch,
            beat=pb.HandOverAnswer(),
            end=_nothing,
        )
        source = NodeId(opening.source)
        taking = self._reception.hand_over(wire.from_whom(opening), source, opening.relay_map, stream)
        try:
            await _beside(stream.live(), taking)
        except RotaError as error:
            await _during(context.write, pb.HandOverAnswer(refusal=errors.to_refusal(error)))

    async def follow_log(self, request: pb.FollowLogRequest, context: Context) -> None:
        """Send a log, until it ends."""
        stream: Stream[Chunk, None, pb.LogChunk, None] = Stream(
            peer=context.peer(),
            silence=_silence(request.silence),
            write=partial(_during, context.write),
            read=partial(_during, context.read),
            encode=wire.to_chunk,
            decode=lambda item: item,
            beat=pb.LogChunk(),
            end=_nothing,
        )
        attempt = wire.from_attempt(request.attempt)
        await _beside(
            stream.live(), self._reception.follow_log(wire.from_whom(request), attempt, request.offset, stream)
        )


def _handlers(answers: Answers) -> grpc.GenericRpcHandler:
    def unary(work: Callable[[Any], Awaitable[Any]], request: Any, response: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            partial(_answer, work), request.FromString, response.SerializeToString
        )

    async def hand_over(_: object, context: Context) -> None:
        await _guarded(context, answers.hand_over(context))

    async def follow_log(request: pb.FollowLogRequest, context: Context) -> None:
        await _guarded(context, answers.follow_log(request, context))

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Check": unary(answers.check, pb.CheckRequest, pb.CheckAnswer),
            "Report": unary(answers.report, pb.ReportRequest, pb.ReportAnswer),
            "Dispatch": unary(answers.dispatch, pb.DispatchRequest, pb.DispatchAnswer),
            "DispatchMany": unary(answers.dispatch_many, pb.DispatchManyRequest, pb.DispatchManyAnswer),
            "Control": unary(answers.control, pb.ControlRequest, pb.ControlAnswer),
            "HandOver": grpc.stream_stream_rpc_method_handler(
                hand_over, pb.HandOverRequest.FromString, pb.HandOverAnswer.SerializeToString
            ),
            "FollowLog": grpc.unary_stream_rpc_method_handler(
                follow_log, pb.FollowLogRequest.FromString, pb.LogChunk.SerializeToString
            ),
        },
    )


async def _answer(work: Callable[[Any], Awaitable[T]], request: Any, context: Context) -> T:
    return await _guarded(context, work(request))


async def _guarded(context: Context, work: Awaitable[T]) -> T:
    """What `work` returns; what it raises ends the call, in words the caller understands."""
    try:
        return await work
    except Exception as error:
        if not isinstance(error, RotaError):
            log.exception("a call of the node link failed", extra={"peer": context.peer()})
        await errors.refuse(context, error)


async def _beside(life: Coroutine[Any, Any, None], work: Awaitable[None]) -> None:
    """Do the work, with signs of life beside it."""
    living = asyncio.ensure_future(life)
    try:
        await work
    finally:
        living.cancel()
        await asyncio.wait({living})


async def _during(operation: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """One reading or writing of a stream; Unavailable when the caller is gone."""
    try:
        return await operation(*arguments)
    except (grpc.aio.BaseError, asyncio.InvalidStateError, grpc.RpcError) as error:
        raise Unavailable(f"the caller of the stream is gone ({error})") from error


async def _nothing() -> None:
    """The answering end ends with its call."""


def _silence(microseconds: int) -> float:
    return max(wire.from_duration(microseconds), SHORTEST_SILENCE).total_seconds()


async def _check_place(address: Address) -> None:
    """Raises why we cannot listen at an address."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise Invalid(f"{address}: no address found for {address.host} ({error.strerror}); check the name") from None
    for family, kind, protocol, _, place in found:
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what only lingers is not in the way
            try:
                attempt.bind(place)
            except OSError as error:
                raise _no_place(address, error) from None


def _no_place(address: Address, error: OSError) -> RotaError:
    if error.errno == errno.EADDRINUSE:
        return _taken(address)
    if error.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"{address}: this user may not listen there; choose a port from 1024 on")
    return Invalid(f"{address}: cannot listen there ({error.strerror}); is {address.host} an address of this machine?")


def _taken(address: Address) -> Conflict:
    return Conflict(f"{address} is taken; stop what listens there, or choose another port")
