"""The inspector of a gRPC port with TLS: each caller's certificate is looked at, once it is known who calls.

gRPC itself has made sure that the certificate is of our authority and has not ended. What it does not know is which
ones were taken back, and that callers of the API are no nodes. A stream may outlive a revocation, so the certificate is
looked at again while it goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from rota.decide.access import TurnedAway
from rota.kit import authority
from rota.rpc.address import caller_address
from rota.rpc.grpc.guard import end_refused
from rota.rpc.grpc.link import SERVICE
from rota.rpc.port import IsRevoked, TakeNote

LOOK = 1.0
"""Seconds between looks at the certificate of a caller whose stream goes on."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Any], Awaitable[Any]]


class Inspector(grpc.aio.ServerInterceptor):
    """Stands before every service of a port."""

    def __init__(self, is_revoked: IsRevoked, take_note: TakeNote | None) -> None:
        self._is_revoked, self._take_note = is_revoked, take_note

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """The handler of the call, behind a look at the caller's certificate."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None:
            return None
        make, behaviour, goes_on = _parts(handler)

        async def inspected(request: Any, context: Context) -> Any:
            await self._check(method, context)
            if not goes_on:
                return await behaviour(request, context)
            return await self._while_good(method, context, behaviour(request, context))

        made: grpc.RpcMethodHandler[Any, Any] = make(
            inspected, handler.request_deserializer, handler.response_serializer
        )
        return made

    def objection(self, method: str, context: Context) -> TurnedAway | None:
        """What is wrong with the caller's certificate; None if nothing is."""
        shown = next(iter(context.auth_context().get("x509_pem_cert", ())), b"")
        try:
            found = authority.read(bytes(shown))
        except ValueError:
            return TurnedAway("this needs a certificate of the fleet's authority; make one with rota tls issue", True)
        if self._is_revoked(found.serial):
            sentence = f"certificate {found.serial} of {found.name} was revoked; make another with rota tls issue"
            return TurnedAway(sentence, True, found.name)
        if found.kind == "client" and method.startswith(f"/{SERVICE}/"):
            return TurnedAway(
                f"the certificate of {found.name} is for a caller, and this is for nodes", False, found.name
            )
        return None

    async def _check(self, method: str, context: Context) -> None:
        """Ends the call unless the caller may go on."""
        refused = self.objection(method, context)
        if refused is None:
            return
        if self._take_note is not None:
            refused = self._take_note(refused, method, caller_address(context.peer()))
        await end_refused(context, refused)

    async def _while_good(self, method: str, context: Context, work: Awaitable[Any]) -> Any:
        """Do the work of a stream for as long as the caller's certificate is good."""
        working = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({working}, timeout=LOOK))[0]:
                await self._check(method, context)
            return working.result()
        finally:
            working.cancel()
            await asyncio.wait({working})


def _parts(handler: "grpc.RpcMethodHandler[Any, Any]") -> tuple[Callable[..., Any], Behaviour, bool]:
    """What makes a handler of this kind, what it does, and whether it is a stream."""
    kinds: dict[tuple[bool, bool], tuple[Callable[..., Any], Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    make, behaviour = kinds[handler.request_streaming, handler.response_streaming]
    return make, behaviour, handler.request_streaming or handler.response_streaming
