"""The calling end of the node link on gRPC.

One channel per link. A call is sent once: gRPC's own retries are off, for they would hide that a start was sent twice.
Before a call the channel must be connected, within the call's time-out; so a call that found no connection certainly
did not happen, and only what was sent can be Unknown.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import Message

from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    Whom,
)
from rota.rpc import handover, rules
from rota.rpc.address import Address
from rota.rpc.grpc import errors, guard, options, wire
from rota.rpc.grpc.ending import Ending
from rota.rpc.grpc.stream import Stream
from rota.rpc.pb import link_pb2 as pb
from rota.rpc.port import IsRevoked, Link, Shown
from rota.rpc.settings import LinkSettings, TlsFiles

if TYPE_CHECKING:
    from rota.rpc.grpc.vetting import Vetting

SERVICE = pb.DESCRIPTOR.services_by_name["Link"].full_name

Response = TypeVar("Response")
T = TypeVar("T")


def open(
    address: Address,
    meant: Whom | None,
    token: Shown,
    settings: LinkSettings,
    tls: TlsFiles | None,
    is_revoked: IsRevoked,
) -> Link:
    """A link; its connection is made when it is first used."""
    target, tuned = f"dns:///{address.authority}", options.of_link(settings, tls)
    if tls is None:
        return GrpcLink(str(address), meant, token, settings, grpc.aio.insecure_channel(target, tuned))
    from rota.rpc.grpc.vetting import Vetting  # noqa: PLC0415  # what reads certificates is an extra

    channel = grpc.aio.secure_channel(target, options.link_credentials(tls), tuned)
    vetting = Vetting(address, meant.node if meant else None, tls, is_revoked)
    return GrpcLink(str(address), meant, token, settings, channel, vetting)


class GrpcLink:
    """The way to one node over one channel."""

    def __init__(
        self,
        peer: str,
        meant: Whom | None,
        token: Shown,
        settings: LinkSettings,
        channel: grpc.aio.Channel,
        vetting: "Vetting | None" = None,
    ) -> None:
        self._peer, self._meant, self._settings = peer, meant, settings
        self._vetting = vetting
        self._token = token
        self._channel = channel
        self._is_closed = False
        self._check = channel.unary_unary(*_method("Check", pb.CheckRequest, pb.CheckAnswer))
        self._report = channel.unary_unary(*_method("Report", pb.ReportRequest, pb.ReportAnswer))
        self._dispatch = channel.unary_unary(*_method("Dispatch", pb.DispatchRequest, pb.DispatchAnswer))
        self._dispatch_many = channel.unary_unary(
            *_method("DispatchMany", pb.DispatchManyRequest, pb.DispatchManyAnswer)
        )
        self._control = channel.unary_unary(*_method("Control", pb.ControlRequest, pb.ControlAnswer))
        self._hand_over = channel.stream_stream(*_method("HandOver", pb.HandOverRequest, pb.HandOverAnswer))
        self._follow_log = channel.unary_stream(*_method("FollowLog", pb.FollowLogRequest, pb.LogChunk))

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        request = pb.CheckRequest(meant=wire.to_whom(self._meant))
        return wire.from_presence(
            await self._call(self._check, request, timeout or self._settings.check, is_write=False)
        )

    async def report(self, report: Report, *, timeout: timedelta | None = None) -> NotLeader | None:
        rules.check_report(report)
        request = wire.to_report(self._meant, report)
        return wire.from_reported(await self._call(self._report, request, timeout or self._settings.report))

    async def dispatch(self, start: Start, *, timeout: timedelta | None = None) -> Accepted | Refused:
        rules.check_start(start)
        request = wire.to_start(self._meant, start)
        return wire.from_dispatched(await self._call(self._dispatch, request, timeout or self._settings.dispatch))

    async def dispatch_many(
        self, starts: Sequence[Start], *, timeout: timedelta | None = None
    ) -> list[Accepted | Refused]:
        rules.check_starts(starts)
        request = wire.to_starts(self._meant, starts)
        answer = await self._call(self._dispatch_many, request, timeout or self._settings.dispatch)
        return wire.from_all_dispatched(answer, len(starts))

    async def control(self, control: Control, *, timeout: timedelta | None = None) -> bool:
        rules.check_control(control)
        request = wire.to_control(self._meant, control)
        answer: pb.ControlAnswer = await self._call(self._control, request, timeout or self._settings.control)
        return answer.is_here

    async def hand_over(
        self, source: NodeId, relay_map: int, batches: AsyncIterable[Batch], *, silence: timedelta | None = None
    ) -> AsyncGenerator[int, None]:
        rules.check_hand_over(source, relay_map)
        silence = silence or self._settings.silence
        opening = pb.HandOverOpening(
            meant=wire.to_whom(self._meant),
            source=source,
            relay_map=relay_map,
            silence=wire.to_duration(silence),
        )
        await self._connected(silence.total_seconds())
        with self._translated(is_write=False):
            call: Any = self._hand_over(metadata=guard.shown(self._token))
        ending, answers = Ending(call), aiter(call)
        stream: Stream[Batch, int, pb.HandOverRequest, pb.HandOverAnswer] = Stream(
            peer=self._peer,
            silence=silence.total_seconds(),
            write=partial(self._during, ending, call.write),
            read=partial(self._during, ending, partial(anext, answers, grpc.aio.EOF)),
            encode=wire.to_batch,
            decode=self._acked,
            beat=pb.HandOverRequest(),
            end=partial(self._during, ending, call.done_writing),
        )
        async with aclosing(answers), _living(call, stream):
            await self._during(ending, call.write, pb.HandOverRequest(opening=opening))
            async with aclosing(handover.send(stream, batches, self._settings.window, self._peer)) as acks:
                async for acked in acks:
                    yield acked

    async def follow_log(
        self, attempt: AttemptId, offset: int = 0, *, silence: timedelta | None = None
    ) -> AsyncGenerator[Chunk, None]:
        rules.check_attempt(attempt, offset)
        silence = silence or self._settings.silence
        request = pb.FollowLogRequest(
            meant=wire.to_whom(self._meant),
            attempt=wire.to_attempt(attempt),
            offset=offset,
            silence=wire.to_duration(silence),
        )
        await self._connected(silence.total_seconds())
        with self._translated(is_write=False):
            call = self._follow_log(request, metadata=guard.shown(self._token))
        stream: Stream[None, Chunk, None, pb.LogChunk] = Stream(
            peer=self._peer,
            silence=silence.total_seconds(),
            write=_nothing,
            read=partial(self._during, Ending(call), call.read),
            encode=lambda item: item,
            decode=wire.from_chunk,
            beat=None,
            end=_nothing,
        )
        try:
            while (chunk := await stream.receive()) is not None:
                yield chunk
        finally:
            call.cancel()

    async def close(self) -> None:
        self._is_closed = True
        await self._channel.close()

    async def _call(
        self, method: Callable[..., Awaitable[Response]], request: Message, timeout: timedelta, *, is_write: bool = True
    ) -> Response:
        left = await self._connected(timeout.total_seconds())
        with self._translated(is_write=is_write):
            return await method(request, timeout=left, metadata=guard.shown(self._token))

    async def _connected(self, timeout: float) -> float:
        """Wait for the connection, and say how much time is left; Unavailable if it does not come about.

        A connection that has just failed is left to the call, which then fails at once and says why. One that stands
        is used only if the node may be called.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            with self._translated(is_write=False):
                async with asyncio.timeout_at(deadline):
                    while (state := self._channel.get_state(try_to_connect=True)) in _ON_THE_WAY:
                        if self._vetting is not None:
                            self._vetting.forget()
                        await self._channel.wait_for_state_change(state)
                    if self._vetting is not None and state is grpc.ChannelConnectivity.READY:
                        await self._vetting.check()
        except TimeoutError:
            raise errors.not_connected(self._peer, timeout) from None
        if state is grpc.ChannelConnectivity.SHUTDOWN:
            raise errors.closed(self._peer)
        return deadline - loop.time()

    async def _during(self, ending: Ending, operation: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """One reading or writing of a stream; Rota's error if the stream has ended with one."""
        with self._translated(is_write=False):
            try:
                return await operation(*arguments)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it has ended; how, need not be in the error
                status = await ending.status()
                if status.code() is grpc.StatusCode.OK:
                    raise Unavailable(f"node link {self._peer}: the other end of the stream is gone") from None
                raise status from None

    def _acked(self, message: pb.HandOverAnswer) -> int | None:
        """The sequence of an ack; raises a refusal."""
        if message.HasField("refusal"):
            raise errors.from_refusal(message.refusal, self._peer, self._meant)
        return wire.from_acked(message)

    @contextmanager
    def _translated(self, *, is_write: bool) -> Iterator[None]:
        """Raises gRPC's errors as Rota's."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise errors.translate(error, self._peer, self._meant, is_write=is_write) from error
        except grpc.aio.UsageError as error:
            raise errors.closed(self._peer) from error
        except asyncio.CancelledError as error:
            if not self._is_closed or _is_cancelled():
                raise
            # The channel cancels its calls when it is closed; the caller's task is not being cancelled.
            raise errors.cut_short(self._peer, is_write=is_write) from error


_ON_THE_WAY = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)


def _method(name: str, request: Any, response: Any) -> tuple[str, Callable[[Any], bytes], Callable[[bytes], Any]]:
    return f"/{SERVICE}/{name}", request.SerializeToString, response.FromString


@asynccontextmanager
async def _living(call: Any, stream: "Stream[Any, Any, Any, Any]") -> AsyncIterator[None]:
    """Inside, the stream gives signs of life; in the end it is let go."""
    living = asyncio.ensure_future(stream.live())
    try:
        yield
    finally:
        living.cancel()
        call.cancel()
        await asyncio.wait({living})


async def _nothing(*_: object) -> None:
    """A log is read only; there is nothing to write."""


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
