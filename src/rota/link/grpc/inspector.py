"""The inspector of a gRPC port with TLS: checks each caller's certificate, once the caller is known.

gRPC itself has verified that the certificate is of our authority and has not expired. It does not know which ones were
revoked, and that callers of the API are no nodes. A stream may outlive a revocation, so the certificate is checked
again while the stream goes on.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc

from rota.fleet.core.access.gate import TurnedAway
from rota.kit.crypto import authority
from rota.link.address import caller_address
from rota.link.grpc.again import Context, parts, while_good
from rota.link.grpc.guard import end_refused
from rota.link.grpc.link import SERVICE
from rota.link.port import IsRevoked, TakeNote


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
        make, behaviour, goes_on = parts(handler)

        async def inspected(request: Any, context: Context) -> Any:
            await self._check(method, context)
            if not goes_on:
                return await behaviour(request, context)
            return await while_good(partial(self._check, method, context), behaviour(request, context))

        made: grpc.RpcMethodHandler[Any, Any] = make(
            inspected, handler.request_deserializer, handler.response_serializer
        )
        return made

    def objection(self, method: str, context: Context) -> TurnedAway | None:
        """Why the caller's certificate is refused; None if it is accepted."""
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
