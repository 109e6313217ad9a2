"""gRPC's edge: records there and back, errors there and back, and what strangers may send."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from grpc import StatusCode
from grpc.aio import Metadata

from rota.model.errors import Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.model.link import AttemptId, Batch, Whom
from rota.rpc import Link, StaleEpoch, open_link, serve_link
from rota.rpc.grpc import errors, options, wire
from rota.rpc.grpc.link import SERVICE
from rota.rpc.pb import link_pb2 as pb
from rota.rpc.settings import DEFAULT
from tests.kit.link_server import CALM, MAP, NODE, Desk, batch, change, report, start, stop

MEANT = Whom(node=NodeId("b"))


def test_records_come_back_as_they_went() -> None:
    assert wire.from_report(wire.to_report(MEANT, report(3, changes=(change(),)))) == report(3, changes=(change(),))
    assert wire.from_start(wire.to_start(None, start())) == start()
    for control in (stop(), stop(AttemptId("r", 2))):
        assert wire.from_control(wire.to_control(MEANT, control)) == control
    assert wire.from_batch(wire.to_batch(batch(1, b"", b"\x00\xff"))) == batch(1, b"", b"\x00\xff")
    assert wire.from_whom(wire.to_start(MEANT, start())) == MEANT
    assert wire.from_whom(wire.to_start(None, start())) is None


def test_signs_of_life_are_no_items() -> None:
    assert wire.from_batch(pb.HandOverRequest()) is None
    assert wire.from_acked(pb.HandOverAnswer()) is None
    assert wire.from_acked(pb.HandOverAnswer(acked=0)) == 0
    assert wire.from_chunk(pb.LogChunk()) is None


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda: wire.from_control(pb.ControlRequest(verb="explode", task="t")), id="verb"),
        pytest.param(lambda: wire.from_presence(pb.CheckAnswer(wall=2**62)), id="time"),
        pytest.param(lambda: wire.from_dispatched(pb.DispatchAnswer()), id="answer"),
    ],
)
def test_what_a_message_cannot_mean_is_invalid(read: object) -> None:
    with pytest.raises(Invalid):
        read()  # type: ignore[operator]


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
            await link.dispatch(start())
        desk.answer = StaleEpoch(letter * 20_000, Revision(1), Revision(2))
        with pytest.raises(StaleEpoch):
            await link.dispatch(start())


def test_the_ping_that_notices_a_frozen_peer_has_its_time_out() -> None:
    tuned = dict(options.of_link(DEFAULT, None))
    assert tuned["grpc.http2.ping_timeout_ms"] == tuned["grpc.keepalive_timeout_ms"] == 3000
    assert (tuned["grpc.initial_reconnect_backoff_ms"], tuned["grpc.max_reconnect_backoff_ms"]) == (100, 1000)
    assert dict(options.of_server(DEFAULT))["grpc.so_reuseport"] == 0


async def test_a_stranger_that_sends_nonsense_is_refused_and_nothing_else_affected() -> None:
    desk = Desk()
    async with serve_link("grpc://127.0.0.1:0", desk) as server, open_link(server.address) as link:
        async with grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel:
            dispatch: Any = channel.unary_unary(f"/{SERVICE}/Dispatch")
            for nonsense in (b"\xff" * 100, b"", pb.DispatchRequest(epoch=-1).SerializeToString()):
                with pytest.raises(grpc.aio.AioRpcError):
                    await dispatch(nonsense, timeout=60)
            hand_over: Any = channel.stream_stream(f"/{SERVICE}/HandOver")(timeout=60)
            await hand_over.write(wire.to_batch(batch(1)).SerializeToString())  # without an opening
            assert await hand_over.code() is StatusCode.INVALID_ARGUMENT
            explode: Any = channel.unary_unary(f"/{SERVICE}/Explode")
            with pytest.raises(grpc.aio.AioRpcError) as missing:
                await explode(b"", timeout=60)
            assert missing.value.code() is StatusCode.UNIMPLEMENTED
        assert (await link.check()).node == NODE
        assert not desk.was_asked


async def test_a_call_is_given_the_time_that_is_left() -> None:
    async with open_link("grpc://192.0.2.1:7701") as link:
        with pytest.raises(Unavailable):  # nothing was sent, however long the connecting took
            await link.dispatch(start(), timeout=timedelta(milliseconds=200))


@asynccontextmanager
async def link_to(hand_over: Callable[[Any, Any], Awaitable[None]]) -> AsyncIterator[Link]:
    """A link to a node that takes batches in a way of its own."""
    server = grpc.aio.server()
    taking = grpc.stream_stream_rpc_method_handler(
        hand_over, pb.HandOverRequest.FromString, pb.HandOverAnswer.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"HandOver": taking}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with open_link(f"grpc://127.0.0.1:{port}", settings=CALM) as link:
            yield link
    finally:
        await server.stop(None)


async def too_late(ended: asyncio.Event) -> AsyncIterator[Batch]:
    """A batch that is written when gRPC's own threads know that the call is over, and the loop does not know yet."""
    await ended.wait()
    time.sleep(0.1)  # noqa: ASYNC251  # the loop stands still
    yield batch(1)


async def hand_over_late(link: Link, ended: asyncio.Event, seen: Callable[[int], object] = lambda acked: None) -> None:
    """Hand over too late; after the first ack no more than one is read before."""
    async with aclosing(link.hand_over(NODE, MAP, too_late(ended))) as acks:
        async for acked in acks:
            seen(acked)
            await ended.wait()


async def test_a_write_that_finds_the_call_over_does_not_hide_its_status() -> None:
    ended = asyncio.Event()

    async def refuse(_: object, context: Any) -> None:
        await context.read()
        ended.set()
        await errors.refuse(context, Denied("the token was taken back"))

    async with link_to(refuse) as link:
        with pytest.raises(Denied, match="the token was taken back"):
            await hand_over_late(link, ended)


async def test_a_write_that_finds_the_call_over_does_not_hide_what_is_unread() -> None:
    ended, seen = asyncio.Event(), list[int]()

    async def refuse(_: object, context: Any) -> None:
        await context.read()
        for acked in (1, 2, 3):
            await context.write(wire.to_acked(acked))
        await context.write(pb.HandOverAnswer(refusal=errors.to_refusal(Denied("the token was taken back"))))
        ended.set()

    async with link_to(refuse) as link:
        with pytest.raises(Denied, match="the token was taken back"):
            await hand_over_late(link, ended, seen.append)
    assert seen == [1, 2, 3]
