"""Streams whose callers are judged again while they go on.

A call is judged when it begins. A stream may outlive its admission: a token may be revoked, rotated or expire, a role
may be removed, a certificate revoked. So each interceptor that judges callers wraps every handler that streams, in
either direction, whatever service it belongs to: a new stream cannot be forgotten.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

LOOK = 1.0
"""Seconds between checks of the caller of an open stream."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Any], Awaitable[Any]]


async def while_good(check: Callable[[], Awaitable[None]], work: Awaitable[Any]) -> Any:
    """Run the work of a stream for as long as `check`, which is awaited periodically, does not raise."""
    working = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({working}, timeout=LOOK))[0]:
            await check()
        return working.result()
    finally:
        working.cancel()
        await asyncio.wait({working})


def parts(handler: "grpc.RpcMethodHandler[Any, Any]") -> tuple[Callable[..., Any], Behaviour, bool]:
    """What makes a handler of this kind, what it does, and whether it is a stream."""
    kinds: dict[tuple[bool, bool], tuple[Callable[..., Any], Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    make, behaviour = kinds[handler.request_streaming, handler.response_streaming]
    return make, behaviour, handler.request_streaming or handler.response_streaming
