"""The guard of a gRPC port: each call is judged by its caller's token, before any of the call is read.

A stream is judged again while it goes on.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc

from rota.fleet.core.access.gate import TurnedAway
from rota.link.address import caller_address
from rota.link.details import details
from rota.link.grpc import errors
from rota.link.grpc.again import Context, parts, while_good
from rota.link.port import Admit, Shown, TakeNote
from rota.model.errors import Denied

AUTHORIZATION = "authorization"
MOST_DETAILS = 300
"""Characters of a sentence that travel: with its details each may take 23 bytes, and 8 KiB is all there is."""


def shown(token: Shown) -> tuple[tuple[str, str], ...]:
    """The metadata that a caller with this token sends."""
    token = token() if callable(token) else token
    return ((AUTHORIZATION, f"Bearer {token}"),) if token else ()


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Stands before every service of a port."""

    def __init__(self, admit: Admit, take_note: TakeNote | None = None) -> None:
        self._admit, self._take_note = admit, take_note

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """The handler of the call: its own, or a refusal."""
        details = handler_call_details
        authorization = next((str(value) for key, value in details.invocation_metadata if key == AUTHORIZATION), None)
        if refused := self._admit(details.method, authorization):
            return self._refusal(refused, details.method)
        handler = await continuation(details)
        if handler is None:
            return None
        make, behaviour, goes_on = parts(handler)
        if not goes_on:
            return handler

        async def guarded(request: Any, context: Context) -> Any:
            async def check() -> None:
                if refused := self._admit(details.method, authorization):
                    await self._turn_away(refused, details.method, context)

            return await while_good(check, behaviour(request, context))

        made: grpc.RpcMethodHandler[Any, Any] = make(guarded, handler.request_deserializer, handler.response_serializer)
        return made

    def _refusal(self, refused: TurnedAway, method: str) -> "grpc.RpcMethodHandler[Any, Any]":
        """A handler that only refuses; as a stream, since that does not wait for the caller's first message."""

        async def refuse(_: object, context: Context) -> None:
            await self._turn_away(refused, method, context)

        return grpc.stream_stream_rpc_method_handler(refuse)

    async def _turn_away(self, refused: TurnedAway, method: str, context: Context) -> None:
        final = self._take_note(refused, method, caller_address(context.peer())) if self._take_note else refused
        await end_refused(context, final)


async def end_refused(context: Context, refused: TurnedAway) -> NoReturn:
    """End a refused call."""
    status, code = _status(refused)
    sentence = refused.why[:MOST_DETAILS]
    told = (
        (errors.REFUSAL, errors.to_refusal(Denied(refused.why)).SerializeToString()),
        details(status.value[0], sentence, code),
    )
    await context.abort(status, sentence, trailing_metadata=told)


def _status(refused: TurnedAway) -> tuple[grpc.StatusCode, str]:
    if refused.is_too_often:
        return grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_requests"
    if refused.is_unsure:
        return grpc.StatusCode.UNAVAILABLE, "unavailable"
    if refused.is_stranger:
        return grpc.StatusCode.UNAUTHENTICATED, "unauthenticated"
    return grpc.StatusCode.PERMISSION_DENIED, "denied"
