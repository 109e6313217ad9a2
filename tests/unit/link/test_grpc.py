"""gRPC's edge: records there and back, errors there and back, and what strangers may send."""

from datetime import timedelta
from typing import Any

import grpc
import pytest
from grpc import StatusCode
from grpc.aio import Metadata

from rota.link import open_link, serve_link
from rota.link.grpc import errors, options, wire
from rota.link.grpc.link import SERVICE
from rota.link.pb import link_pb2 as pb
from rota.link.records import Accepted, AttemptRefused, LogPiece, Whom
from rota.link.settings import DEFAULT
from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId
from tests.kit.link_server import ATTEMPT, NODE, Desk, dispatch, start

MEANT = Whom(node=NodeId("b"))


def test_records_come_back_as_they_went() -> None:
    sent = wire.to_starts(MEANT, [start(), start("other", payload=b"\x00\xff")])
    assert [wire.from_start(each) for each in sent.starts] == [start(), start("other", payload=b"\x00\xff")]
    assert wire.from_whom(sent) == MEANT
    assert wire.from_whom(wire.to_starts(None, [])) is None
    for answer in (Accepted(), AttemptRefused(why="full"), AttemptRefused(why="")):
        assert wire.from_dispatched(pb.StartAnswer.FromString(wire.to_dispatched(answer).SerializeToString())) == answer
    for piece in (LogPiece(b"\x00\xff", is_last=False), LogPiece(b"", is_last=True)):
        assert wire.from_log_answer(wire.to_log_answer(piece)) == piece


def test_an_answer_that_says_neither_yes_nor_no_is_invalid() -> None:
    with pytest.raises(Invalid):
        wire.from_dispatched(pb.StartAnswer())


def test_nodes_of_the_contract_before_this_one_are_understood_and_understand() -> None:
    """As bytes, for their code is gone: what they send, and what they insist on."""
    accepted = b"\x0a\x0aexecutor 3"  # `reservation`, field 1
    assert wire.from_dispatched(pb.StartAnswer.FromString(accepted)) == Accepted()
    assert wire.to_dispatched(Accepted()).SerializeToString() == b"\x0a\x00", "field 1 is there: that means yes"
    theirs = wire.to_start(start()).SerializeToString() + b"\x30\x01"  # with `timeout`, field 6
    assert wire.from_start(pb.Start.FromString(theirs)) == start()
    assert b"\x22\x09nightly/1" in theirs, "field 4, `job`, which they refuse if it is empty"
    busy = b"\x0a\x01b\x12\x03b-1\x18\x05\x22\x02\x10\x0a\x28\x07"  # with `wall`, `load` and `relay_map`
    assert wire.from_presence(pb.CheckAnswer.FromString(busy)) == Desk().is_at


def failed(code: StatusCode, details: str, *metadata: tuple[str, bytes]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, Metadata(), Metadata(*metadata), details=details)


@pytest.mark.parametrize(
    ("code", "details", "of_write", "of_read"),
    [
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused", Unavailable, Unavailable),
        (StatusCode.UNAVAILABLE, "DNS resolution failed for x", Unavailable, Unavailable),
        (StatusCode.UNAVAILABLE, "Socket closed", Unknown, Unavailable),
        (StatusCode.UNAVAILABLE, "keepalive watchdog timeout", Unknown, Unavailable),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Unknown, Unavailable),
        (StatusCode.CANCELLED, "", Unknown, Unavailable),
        (StatusCode.INTERNAL, "it failed inside", Unknown, Unavailable),
        (StatusCode.UNIMPLEMENTED, "Method not found!", Invalid, Invalid),
    ],
)
def test_only_what_certainly_did_not_happen_is_unavailable(
    code: StatusCode, details: str, of_write: type[RotaError], of_read: type[RotaError]
) -> None:
    error = failed(code, details)
    assert type(errors.translate(error, "grpc://b:1", None, is_write=True)) is of_write
    assert type(errors.translate(error, "grpc://b:1", None, is_write=False)) is of_read


def test_a_refusal_of_a_kind_we_do_not_know_is_unknown() -> None:
    refusal = pb.Refusal(family="Tired", message="come back tomorrow").SerializeToString()
    error = failed(StatusCode.FAILED_PRECONDITION, "", (errors.REFUSAL, refusal))
    told = errors.translate(error, "grpc://b:1", None, is_write=True)
    assert (type(told), str(told)) == (Unknown, "come back tomorrow")


def test_a_refusal_that_cannot_be_read_falls_back_to_the_status() -> None:
    error = failed(StatusCode.FAILED_PRECONDITION, "no", (errors.REFUSAL, b"\xff\xff"))
    assert type(errors.translate(error, "grpc://b:1", None, is_write=True)) is Unknown


@pytest.mark.parametrize("letter", ["e", "é", "🚀"])
async def test_a_long_message_of_a_handler_arrives_shortened(letter: str) -> None:
    desk = Desk()
    async with serve_link("grpc://127.0.0.1:0", desk) as server, open_link(server.address) as link:
        desk.answer = Denied(letter * 20_000)
        with pytest.raises(Denied, match=f"^{letter * errors.MOST_TEXT}$"):
            await link.read_log(ATTEMPT)


def test_the_ping_that_notices_a_frozen_peer_has_its_time_out() -> None:
    tuned = dict(options.of_link(DEFAULT, None))
    assert tuned["grpc.http2.ping_timeout_ms"] == tuned["grpc.keepalive_timeout_ms"] == 3000
    assert (tuned["grpc.initial_reconnect_backoff_ms"], tuned["grpc.max_reconnect_backoff_ms"]) == (100, 1000)
    assert dict(options.of_server(DEFAULT))["grpc.so_reuseport"] == 0


async def test_a_stranger_that_sends_nonsense_is_refused_and_nothing_else_affected() -> None:
    desk = Desk()
    async with serve_link("grpc://127.0.0.1:0", desk) as server, open_link(server.address) as link:
        async with grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel:
            for method, negative in (
                ("DispatchMany", pb.DispatchManyRequest(starts=[pb.Start(epoch=-1)])),
                ("ReadLog", pb.ReadLogRequest(attempt=wire.to_attempt(ATTEMPT), offset=-1)),
            ):
                call: Any = channel.unary_unary(f"/{SERVICE}/{method}")
                for nonsense in (b"\xff" * 100, negative.SerializeToString()):
                    with pytest.raises(grpc.aio.AioRpcError):
                        await call(nonsense, timeout=60)
            explode: Any = channel.unary_unary(f"/{SERVICE}/Explode")
            with pytest.raises(grpc.aio.AioRpcError) as missing:
                await explode(b"", timeout=60)
            assert missing.value.code() is StatusCode.UNIMPLEMENTED
        assert (await link.check()).node == NODE
        assert not desk.was_asked


async def test_a_call_is_given_the_time_that_is_left() -> None:
    async with open_link("grpc://192.0.2.1:7701") as link:
        with pytest.raises(Unavailable):  # nothing was sent, however long the connecting took
            await dispatch(link, start(), timeout=timedelta(milliseconds=200))
