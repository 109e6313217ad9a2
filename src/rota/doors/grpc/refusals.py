"""How calls over gRPC are read, answered and refused, whatever they ask.

Messages are bytes to gRPC and are decoded here: gRPC answers only "Exception deserializing request!" to a message that
it cannot decode, and has one size limit for the whole port, while the node link needs a higher one than the API.

Each code has its status (`model.problems`); the details are its sentence, and a trailer has the code (`link.details`).
What is not Rota's own is logged, and not reported.
"""

import asyncio
import logging
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from rota.doors.guard.budget import paced
from rota.link.details import details
from rota.model.errors import Invalid, RotaError
from rota.model.problems import PROBLEMS

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
M = TypeVar("M", bound=Message)
T = TypeVar("T")

ABORTED = grpc.StatusCode.ABORTED

LARGEST = 1024 * 1024
"""Bytes of a request, as over HTTP."""

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer; callers take no more unless they say so."""

MOST_DETAILS = 400
"""Characters of a sentence that travel: each may take 18 bytes, with the details, and 8 KiB is all there is."""

LAST_WRITE = 1.0
"""Seconds that the end of a stream waits for the message that is on its way."""


class TooLarge(RotaError):
    """A message is larger than the limit; request less, or send less."""

    code = "too_large"


def read(kind: type[M], content: bytes) -> M:
    """Decode a message; Invalid or TooLarge if it is not acceptable."""
    if len(content) > LARGEST:
        raise TooLarge(f"the request has {len(content)} bytes; at most {LARGEST} are taken: send less")
    try:
        return kind.FromString(content)
    except DecodeError:
        raise Invalid(
            f"the request is no {kind.DESCRIPTOR.full_name}; was the caller generated from this node's contract?"
        ) from None


def write(message: Message) -> bytes:
    """The bytes of an answer; TooLarge if it exceeds the default limit of gRPC clients."""
    content = message.SerializeToString()
    if len(content) > LARGEST_ANSWER:
        raise TooLarge(f"the answer has {len(content)} bytes; at most {LARGEST_ANSWER} are sent: ask for less")
    return content


async def send(context: Context, message: Message) -> None:
    """Write a message of a stream, whole also if the stream is ended meanwhile.

    While a message is being written, gRPC accepts no status: the caller of a stream cancelled at that moment would get
    none, and wait. A caller that does not read is waited for no longer than `LAST_WRITE`.
    """
    writing = asyncio.ensure_future(paced(context.write(write(message))))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        try:
            await asyncio.wait({writing}, timeout=LAST_WRITE)
        finally:  # it may be cancelled once more
            writing.add_done_callback(_forget)
            writing.cancel()
        raise


def _forget(writing: "asyncio.Future[Any]") -> None:
    """Consume the result of the last write of a stream that has ended."""
    if not writing.cancelled():
        writing.exception()


async def guarded(context: Context, work: Awaitable[T], conflict: grpc.StatusCode = ABORTED) -> T:
    """What `work` returns; what it raises ends the call with a status and a sentence."""
    try:
        return await work
    except Exception as error:
        await _refuse(context, error, conflict)


async def _refuse(context: Context, error: Exception, conflict: grpc.StatusCode) -> NoReturn:
    code = error.code if isinstance(error, RotaError) else RotaError.code
    status, sentence = grpc.StatusCode[PROBLEMS[code].grpc], str(error)
    if PROBLEMS[code].status == HTTPStatus.CONFLICT:
        status = conflict
    if status == grpc.StatusCode.INTERNAL:
        log.error("a call of the gRPC API failed", extra={"peer": context.peer()}, exc_info=error)
        sentence = "something went wrong in this node, not in your request; its log has the traceback"
    if len(sentence) > MOST_DETAILS:
        sentence = f"{sentence[: MOST_DETAILS - 1]}…"
    await context.abort(status, sentence, trailing_metadata=(details(status.value[0], sentence, code),))
