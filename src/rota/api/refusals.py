"""How calls over gRPC are read, answered and refused, whatever they ask.

Messages come and go as bytes and are decoded here, not by gRPC, which has only "Exception deserializing request!" for
what it cannot read, and one limit for the whole port: the node link needs a higher one than the API.

Each family of errors has its status; the details are its sentence. What is not Rota's own is logged, and not told.
"""

import logging
from collections.abc import Awaitable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from rota.api.budget import Busy
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
M = TypeVar("M", bound=Message)
T = TypeVar("T")

LARGEST = 1024 * 1024
"""Bytes of a request, as over HTTP."""

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer; callers take no more unless they say so."""

MOST_DETAILS = 500
"""Characters of a sentence that travel: in a status each may take 12 bytes, and 8 KiB is all there is."""

STATUS: dict[type[RotaError], grpc.StatusCode] = {
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    Conflict: grpc.StatusCode.ABORTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Unknown: grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""What each family of errors is in gRPC; any other is INTERNAL."""


class TooLarge(RotaError):
    """A message is larger than passes here; ask for less, or send less."""


def read(kind: type[M], content: bytes) -> M:
    """The message in some bytes; Invalid or TooLarge if it is none that we take."""
    if len(content) > LARGEST:
        raise TooLarge(f"the request has {len(content)} bytes; at most {LARGEST} are taken: send less")
    try:
        return kind.FromString(content)
    except DecodeError:
        raise Invalid(
            f"the request is no {kind.DESCRIPTOR.full_name}; was the caller generated from this node's contract?"
        ) from None


def write(message: Message) -> bytes:
    """The bytes of an answer; TooLarge if most callers would not take it."""
    content = message.SerializeToString()
    if len(content) > LARGEST_ANSWER:
        raise TooLarge(f"the answer has {len(content)} bytes; at most {LARGEST_ANSWER} are sent: ask for less")
    return content


async def guarded(context: Context, work: Awaitable[T], conflict: grpc.StatusCode = STATUS[Conflict]) -> T:
    """What `work` returns; what it raises ends the call with a status and a sentence."""
    try:
        return await work
    except Exception as error:
        await _refuse(context, error, conflict)


async def _refuse(context: Context, error: Exception, conflict: grpc.StatusCode) -> NoReturn:
    match error:
        case Conflict():
            code = conflict
        case TooLarge() | Busy():
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
        case _:
            code = next(
                (code for family, code in STATUS.items() if isinstance(error, family)), grpc.StatusCode.INTERNAL
            )
    sentence = str(error)
    if code == grpc.StatusCode.INTERNAL:
        log.error("a call of the gRPC API failed", extra={"peer": context.peer()}, exc_info=error)
        sentence = "something went wrong in this node, not in your request; its log has the traceback"
    await context.abort(code, sentence if len(sentence) <= MOST_DETAILS else f"{sentence[: MOST_DETAILS - 1]}…")
