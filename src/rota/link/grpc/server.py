"""The answering end of the node link on gRPC: decode, ask the reception, encode.

gRPC binds the port itself: `grpc.aio` accepts no listening socket. So the port cannot be kept over a restart, and
another program may take it meanwhile; and `0.0.0.0` means IPv6 too, as gRPC opens one socket for both.

An address that is not available is detected with a socket of our own first: gRPC only says that it failed.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import grpc

from rota.link.address import Address
from rota.link.grpc import errors, options, wire
from rota.link.grpc.guard import GuardInterceptor
from rota.link.grpc.link import SERVICE
from rota.link.pb import link_pb2 as pb
from rota.link.port import Admit, IsRevoked, LinkServer, NodeHandler, TakeNote
from rota.link.reception import Reception
from rota.link.settings import LinkSettings, TlsFiles
from rota.model.errors import Conflict, Denied, Invalid, RotaError

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")


async def serve(
    address: Address,
    handler: NodeHandler,
    settings: LinkSettings,
    tls: TlsFiles | None,
    more: Callable[[], Sequence[grpc.GenericRpcHandler]] | None,
    admit: Admit | None,
    take_note: TakeNote | None,
    is_revoked: IsRevoked,
) -> LinkServer:
    """A door at `address`; Conflict if the address is in use, Denied if this user may not bind it."""
    credentials = options.server_credentials(tls) if tls else None
    await _check_place(address)
    reception = Reception(handler)
    guards: list[grpc.aio.ServerInterceptor] = [GuardInterceptor(admit, take_note)] if admit else []
    if tls is not None:
        from rota.link.grpc.inspector import Inspector  # noqa: PLC0415  # what reads certificates is an extra

        guards.append(Inspector(is_revoked, take_note))
    server = grpc.aio.server(interceptors=guards, options=options.of_server(settings))
    server.add_generic_rpc_handlers((_handlers(LinkServicer(reception)), *(more() if more else ())))
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


class LinkServicer:
    """One method per call of the contract."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    async def check(self, request: pb.CheckRequest) -> pb.CheckAnswer:
        """Answer with this node's presence."""
        return wire.to_presence(self._reception.check(wire.from_whom(request)))

    async def dispatch_many(self, request: pb.DispatchManyRequest) -> pb.DispatchManyAnswer:
        """Start attempts."""
        starts = [wire.from_start(each) for each in request.starts]
        answers = await self._reception.dispatch_many(wire.from_whom(request), starts)
        return pb.DispatchManyAnswer(answers=[wire.to_dispatched(answer) for answer in answers])

    async def read_log(self, request: pb.ReadLogRequest) -> pb.ReadLogAnswer:
        """Read a piece of a log."""
        attempt = wire.from_attempt(request.attempt)
        return wire.to_log_answer(await self._reception.read_log(wire.from_whom(request), attempt, request.offset))


def _handlers(answers: LinkServicer) -> grpc.GenericRpcHandler:
    def unary(work: Callable[[Any], Awaitable[Any]], request: Any, response: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            partial(_answer, work), request.FromString, response.SerializeToString
        )

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Check": unary(answers.check, pb.CheckRequest, pb.CheckAnswer),
            "DispatchMany": unary(answers.dispatch_many, pb.DispatchManyRequest, pb.DispatchManyAnswer),
            "ReadLog": unary(answers.read_log, pb.ReadLogRequest, pb.ReadLogAnswer),
        },
    )


async def _answer(work: Callable[[Any], Awaitable[T]], request: Any, context: Context) -> T:
    """What `work` returns; an error ends the call as a refusal that the caller can decode."""
    try:
        return await work(request)
    except Exception as error:
        if not isinstance(error, RotaError):
            log.exception("a call of the node link failed", extra={"peer": context.peer()})
        await errors.refuse(context, error)


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
