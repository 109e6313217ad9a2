"""The guard of a gRPC port: each call is judged by what its caller shows, before any of it is read."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from rota.decide.access import TurnedAway
from rota.model.errors import Denied
from rota.rpc.grpc import errors
from rota.rpc.port import Admit

AUTHORIZATION = "authorization"
MOST_DETAILS = 500
"""Characters of a sentence that travel: in a status each may take 12 bytes, and 8 KiB is all there is."""


def shown(token: str | None) -> tuple[tuple[str, str], ...]:
    """What a caller with this token sends along."""
    return ((AUTHORIZATION, f"Bearer {token}"),) if token else ()


class Guard(grpc.aio.ServerInterceptor):
    """Stands before every service of a port."""

    def __init__(self, admit: Admit) -> None:
        self._admit = admit

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """What answers the call: its own handler, or a refusal."""
        details = handler_call_details
        authorization = next((str(value) for key, value in details.invocation_metadata if key == AUTHORIZATION), None)
        if refused := self._admit(details.method, authorization):
            return _refusal(refused)
        return await continuation(details)


def _refusal(refused: TurnedAway) -> "grpc.RpcMethodHandler[Any, Any]":
    """A handler that only refuses; as a stream, since that does not wait for the caller's first message."""
    code = grpc.StatusCode.UNAUTHENTICATED if refused.is_stranger else grpc.StatusCode.PERMISSION_DENIED
    told = ((errors.REFUSAL, errors.to_refusal(Denied(refused.why)).SerializeToString()),)

    async def refuse(_: object, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        await context.abort(code, refused.why[:MOST_DETAILS], trailing_metadata=told)

    return grpc.stream_stream_rpc_method_handler(refuse)
