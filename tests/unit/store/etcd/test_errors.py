"""What gRPC and etcd say, in Rota's words; above all, when a commit's outcome is certain."""

import grpc
import pytest
from grpc import StatusCode

from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.store.etcd.errors import EtcdRefused, cut_short, is_from_there, is_stale_token, translate

STORE = "etcd://user@127.0.0.1:2379"
REFUSED = "UNKNOWN: ipv4:127.0.0.1:2379: Failed to connect to remote host: Connection refused"


def error(code: StatusCode, details: str | None) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


def both(code: StatusCode, details: str | None) -> tuple[RotaError, RotaError]:
    """What a reader and a writer are told."""
    return translate(error(code, details), STORE, is_write=False), translate(error(code, details), STORE, is_write=True)


@pytest.mark.parametrize(
    ("code", "details"),
    [
        pytest.param(StatusCode.UNAVAILABLE, f"connections to all backends failing; last error: {REFUSED}", id="away"),
        pytest.param(StatusCode.UNAVAILABLE, f"failed to connect to all addresses; last error: {REFUSED}", id="one"),
        pytest.param(StatusCode.UNAVAILABLE, "errors resolving nosuch.invalid:2379: [not found]", id="name"),
        pytest.param(StatusCode.UNAVAILABLE, "DNS resolution failed for nosuch.invalid:2379", id="older name"),
        pytest.param(StatusCode.UNAVAILABLE, "etcdserver: no leader", id="no leader"),
        pytest.param(StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", id="busy"),
        pytest.param(StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", id="full"),
    ],
)
def test_what_certainly_did_nothing_is_unavailable(code: StatusCode, details: str) -> None:
    assert [type(told) for told in both(code, details)] == [Unavailable, Unavailable]


@pytest.mark.parametrize(
    ("code", "details"),
    [
        pytest.param(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", id="time-out"),
        pytest.param(StatusCode.UNAVAILABLE, "Socket closed", id="closed"),
        pytest.param(StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer", id="reset"),
        pytest.param(StatusCode.UNAVAILABLE, "ping timeout", id="frozen"),
        pytest.param(StatusCode.UNAVAILABLE, "etcdserver: request timed out", id="etcd's time-out"),
        pytest.param(StatusCode.UNAVAILABLE, "etcdserver: leader changed", id="new leader"),
        pytest.param(StatusCode.UNAVAILABLE, "etcdserver: server stopped", id="stopped"),
        pytest.param(StatusCode.RESOURCE_EXHAUSTED, "ENHANCE_YOUR_CALM", id="not etcd's words"),
        pytest.param(StatusCode.CANCELLED, "context canceled", id="canceled"),
        pytest.param(StatusCode.UNKNOWN, "raft proposal dropped", id="unknown"),
        pytest.param(StatusCode.INTERNAL, None, id="no details"),
    ],
)
def test_whatever_else_is_unknown_to_writers_only(code: StatusCode, details: str | None) -> None:
    assert [type(told) for told in both(code, details)] == [Unavailable, Unknown]


@pytest.mark.parametrize(
    ("code", "details", "move"),
    [
        pytest.param(
            StatusCode.INVALID_ARGUMENT,
            "etcdserver: authentication failed, invalid user ID or password",
            "check the user and the password",
            id="password",
        ),
        pytest.param(StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", "grant the user's role", id="role"),
        pytest.param(StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", "check the user", id="token"),
        pytest.param(StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", "name a user", id="nobody"),
    ],
)
def test_who_may_not_is_denied(code: StatusCode, details: str, move: str) -> None:
    for told in both(code, details):
        assert isinstance(told, Denied)
        assert move in str(told)


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted"),
        (StatusCode.NOT_FOUND, "etcdserver: requested lease not found"),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large"),
        (StatusCode.UNIMPLEMENTED, "unknown service etcdserverpb.KV"),
    ],
)
def test_a_no_of_etcd_keeps_its_words(code: StatusCode, details: str) -> None:
    for told in both(code, details):
        assert isinstance(told, EtcdRefused)
        assert isinstance(told, Invalid)
        assert told.text == details


def test_messages_name_the_store_and_the_next_move_on_one_line() -> None:
    told, _ = both(StatusCode.UNAVAILABLE, f"connections to all backends failing;\n last error: {REFUSED}")
    assert str(told) == (
        f"store {STORE}: cannot connect (ipv4:127.0.0.1:2379: Failed to connect to remote host: Connection refused); "
        "is etcd running there?"
    )


def test_a_failed_handshake_points_at_the_certificates() -> None:
    told, _ = both(StatusCode.UNAVAILABLE, "connections to all backends failing; last error: Ssl handshake failed")
    assert str(told).endswith("check tls, ca, cert, key and server_name")


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", True),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: revision in auth store is old", True),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", True),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password", False),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", False),
        (StatusCode.UNAVAILABLE, None, False),
    ],
)
def test_logging_in_again_helps_only_a_stale_token(code: StatusCode, details: str | None, expected: bool) -> None:
    assert is_stale_token(error(code, details)) is expected


def test_a_write_under_way_when_the_store_is_closed_is_unknown() -> None:
    assert isinstance(cut_short(STORE, is_write=True), Unknown)
    assert isinstance(cut_short(STORE, is_write=False), Unavailable)


@pytest.mark.parametrize(
    ("code", "details", "shows"),
    [
        pytest.param(StatusCode.UNAVAILABLE, "etcdserver: no leader", True, id="no leader"),
        pytest.param(StatusCode.UNAVAILABLE, "Socket closed", True, id="closed after it was sent"),
        pytest.param(
            StatusCode.UNAVAILABLE, f"failed to connect to all addresses; last error: {REFUSED}", False, id="away"
        ),
        pytest.param(
            StatusCode.UNAVAILABLE, "connections to all backends failing; last error: Socket closed", False, id="tls?"
        ),
        pytest.param(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", False, id="time-out"),
    ],
)
def test_only_a_call_that_was_sent_or_answered_shows_that_etcd_is_there(
    code: StatusCode, details: str, shows: bool
) -> None:
    assert is_from_there(error(code, details)) is shows
