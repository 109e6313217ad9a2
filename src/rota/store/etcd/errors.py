"""Errors of gRPC and etcd, translated into Rota's.

The question for a commit is whether etcd may have applied it. Only the errors in NOT_SENT and NOT_DONE prove that it
did not: the call was never sent, or etcd refused it before it wrote. Everything else, from a timeout to a change of
leader, is Unknown. Reads change nothing, so their errors are always Unavailable.
"""

import grpc

from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown

NOT_SENT = (
    "connections to all backends failing",
    "failed to connect to all addresses",
    "errors resolving",
    "DNS resolution failed",
)
NOT_DONE = {
    "etcdserver: no leader": "try again once its members have elected one",
    "etcdserver: too many requests": "try again later",
    "etcdserver: mvcc: database space exceeded": "compact and defragment etcd, then disarm its alarm",
}
"""Errors that etcd returns before it does anything, each with what to do."""

COMPACTED = "etcdserver: mvcc: required revision has been compacted"
FUTURE = "etcdserver: mvcc: required revision is a future revision"
LEASE_GONE = "etcdserver: requested lease not found"

NO_AUTHENTICATION = "etcdserver: authentication is not enabled"
NO_USER = "etcdserver: user name is empty"
STALE_TOKEN = ("etcdserver: invalid auth token", "etcdserver: revision in auth store is old", NO_USER)
DENIED = ("etcdserver: authentication failed", "etcdserver: permission denied")

_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)


class EtcdRefused(Invalid):
    """etcd understood the request and said no; `text` is what it said."""

    def __init__(self, store: str, text: str) -> None:
        super().__init__(f"store {store}: etcd refused: {text}")
        self.text = text


class StaleToken(Denied):
    """etcd does not know our token, or not any more; logging in may help."""


def is_stale_token(error: grpc.aio.AioRpcError) -> bool:
    """Whether logging in again may help: tokens die with the server, and with every change of its users."""
    return error.code() == grpc.StatusCode.UNAUTHENTICATED or _text(error).startswith(STALE_TOKEN)


def translate(error: grpc.aio.AioRpcError, store: str, *, is_write: bool) -> RotaError:
    """The error for the caller of the store; `is_write` if the call may have changed something."""
    code, text = error.code(), _text(error)
    if code == grpc.StatusCode.PERMISSION_DENIED or is_stale_token(error) or text.startswith(DENIED):
        denied = StaleToken if is_stale_token(error) else Denied
        return denied(f"store {store}: {text}; {_way_in(text)}")
    if text.startswith(NOT_SENT):
        return _unreachable(store, text)
    if text in NOT_DONE:
        return Unavailable(f"store {store}: {text}; {NOT_DONE[text]}")
    if code in _REFUSALS:
        return EtcdRefused(store, text)
    if is_write:
        return Unknown(f"store {store}: the write's outcome is not known ({text}); read before you repeat it")
    return Unavailable(f"store {store}: no answer ({text}); is etcd well?")


def is_from_there(error: BaseException | None) -> bool:
    """Does a failed call show that etcd was reached? A server that disconnects before the first call may require
    TLS."""
    if not isinstance(error, grpc.aio.AioRpcError) or error.code() != grpc.StatusCode.UNAVAILABLE:
        return False
    return not _text(error).startswith(NOT_SENT)


def closed(store: str) -> Unavailable:
    """For a call on a store that we have closed."""
    return Unavailable(f"store {store}: closed; open it again")


def cut_short(store: str, *, is_write: bool) -> RotaError:
    """For a call that was under way when we closed the store."""
    return Unknown(f"store {store}: closed before the write was answered; read again") if is_write else closed(store)


def _text(error: grpc.aio.AioRpcError) -> str:
    """The details on one line, with the status where there are none."""
    return " ".join((error.details() or error.code().name).split())


def _way_in(text: str) -> str:
    if text.startswith(NO_USER):
        return "name a user in the URL and give its password"
    if "permission denied" in text:
        return "grant the user's role the whole prefix, such as --prefix /rota"
    return "check the user and the password"


def _unreachable(store: str, text: str) -> Unavailable:
    why = text.rpartition("last error: ")[2].removeprefix("UNKNOWN: ").removeprefix("UNAVAILABLE: ")
    is_tls = "handshake" in why.lower() or "certificate" in why.lower()
    move = "check tls, ca, cert, key and server_name" if is_tls else "is etcd running there?"
    return Unavailable(f"store {store}: cannot connect ({why}); {move}")
