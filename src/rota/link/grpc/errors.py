"""Errors across the wire: Rota's own as a `Refusal` in the trailing metadata, gRPC's translated into Rota's.

The question for a call is whether the other node may have carried it out. It certainly did not if the call was never
sent (`NOT_SENT`), or if the node itself says so in a refusal. Everything else, from a timeout to a broken connection,
is Unknown for a call that changes something, and Unavailable for one that only reads.
"""

from typing import NoReturn

import grpc
from google.protobuf.message import DecodeError

from rota.link.pb import link_pb2 as pb
from rota.link.port import NotMe
from rota.link.records import Whom
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, SessionId

REFUSAL = "rota-refusal-bin"
MOST_TEXT = 500
"""How many characters of a text travel; all metadata of a call must stay below 8 KiB, whatever the script."""

MOST_DETAILS = 100
"""The same for the status, where a character may take 12 bytes. Only debugging tools show it."""

NOT_SENT = ("failed to connect to all addresses", "errors resolving", "DNS resolution failed")

_CODES: dict[type[RotaError], grpc.StatusCode] = {
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    Conflict: grpc.StatusCode.FAILED_PRECONDITION,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Unknown: grpc.StatusCode.UNKNOWN,
}
_FAMILIES: dict[str, type[RotaError]] = {family.__name__: family for family in _CODES}


async def refuse(context: "grpc.aio.ServicerContext[object, object]", error: Exception) -> NoReturn:
    """End a call with an error; the details of errors that are not Rota's own are not sent."""
    if not isinstance(error, RotaError):
        await context.abort(grpc.StatusCode.INTERNAL, "it failed inside; see the log of that node")
    refusal = to_refusal(error)
    metadata = ((REFUSAL, refusal.SerializeToString()),)
    await context.abort(_CODES[_family(error)], refusal.message[:MOST_DETAILS], trailing_metadata=metadata)


def translate(error: grpc.aio.AioRpcError, peer: str, meant: Whom | None, *, is_write: bool) -> RotaError:
    """The error for the caller of a link; `is_write` if the call may have changed something."""
    if (refusal := _read_refusal(error)) is not None:
        return from_refusal(refusal, peer, meant)
    text = " ".join((error.details() or error.code().name).split())
    if text.startswith(NOT_SENT):
        return _unreachable(peer, text)
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return Invalid(f"node link {peer}: it does not know this call; do both nodes run the same Rota?")
    if is_write:
        return Unknown(f"node link {peer}: the outcome is not known ({text}); read before you repeat it")
    return Unavailable(f"node link {peer}: no answer ({text}); is the node well?")


def to_refusal(error: RotaError) -> pb.Refusal:
    """An error as a record."""
    refusal = pb.Refusal(family=_family(error).__name__, message=str(error)[:MOST_TEXT])
    if isinstance(error, NotMe):
        refusal.family, refusal.node, refusal.session = "NotMe", error.node, error.session
    return refusal


def from_refusal(refusal: pb.Refusal, peer: str, meant: Whom | None) -> RotaError:
    """The error in a record."""
    if refusal.family == "NotMe" and meant is not None:
        return NotMe(meant, NodeId(refusal.node), SessionId(refusal.session))
    # A newer peer may have a kind that is unknown here: then the outcome is not known.
    return _FAMILIES.get(refusal.family, Unknown)(refusal.message or f"node link {peer}: refused")


def closed(peer: str) -> Unavailable:
    """For a call on a link that we have closed."""
    return Unavailable(f"node link {peer}: closed; open it again")


def cut_short(peer: str, *, is_write: bool) -> RotaError:
    """For a call that was under way when we closed the link."""
    return Unknown(f"node link {peer}: closed before it was answered") if is_write else closed(peer)


def not_connected(peer: str, seconds: float) -> Unavailable:
    """For a call that was not sent, because there was no connection in time."""
    return Unavailable(f"node link {peer}: no connection within {seconds:g} s; is the way there open?")


def _family(error: RotaError) -> type[RotaError]:
    return next((family for family in _CODES if isinstance(error, family)), Unknown)


def _read_refusal(error: grpc.aio.AioRpcError) -> pb.Refusal | None:
    for key, value in error.trailing_metadata() or ():
        if key == REFUSAL and isinstance(value, bytes):
            try:
                return pb.Refusal.FromString(value)
            except DecodeError:
                return None
    return None


def _unreachable(peer: str, text: str) -> Unavailable:
    why = text.rpartition("last error: ")[2].removeprefix("UNKNOWN: ").removeprefix("UNAVAILABLE: ")
    is_tls = "handshake" in why.lower() or "certificate" in why.lower()
    move = "do the certificates of both nodes fit?" if is_tls else "is the node running there?"
    return Unavailable(f"node link {peer}: cannot connect ({why}); {move}")
