"""The calling end of the node link on gRPC.

One channel per link. A call is sent once: gRPC's own retries are off, for they would hide that a start was sent twice.
Before a call the channel must be connected, within the call's timeout; so a call without a connection certainly did not
happen, and only a call that was sent can be Unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import Message

from rota.link import rules
from rota.link.address import Address
from rota.link.grpc import errors, guard, options, wire
from rota.link.pb import link_pb2 as pb
from rota.link.port import IsRevoked, NodeLink, Shown
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.link.settings import LinkSettings, TlsFiles

if TYPE_CHECKING:
    from rota.link.grpc.vetting import Vetting

SERVICE = pb.DESCRIPTOR.services_by_name["Link"].full_name

Response = TypeVar("Response")


def open(
    address: Address,
    meant: Whom | None,
    token: Shown,
    settings: LinkSettings,
    tls: TlsFiles | None,
    is_revoked: IsRevoked,
) -> NodeLink:
    """A link; its connection is made when it is first used."""
    target, tuned = f"dns:///{address.authority}", options.of_link(settings, tls)
    if tls is None:
        return GrpcLink(str(address), meant, token, settings, grpc.aio.insecure_channel(target, tuned))
    from rota.link.grpc.vetting import Vetting  # noqa: PLC0415  # what reads certificates is an extra

    channel = grpc.aio.secure_channel(target, options.link_credentials(tls), tuned)
    vetting = Vetting(address, meant.node if meant else None, tls, is_revoked)
    return GrpcLink(str(address), meant, token, settings, channel, vetting)


class GrpcLink:
    """The link to one node over one channel."""

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
        self._dispatch_many = channel.unary_unary(
            *_method("DispatchMany", pb.DispatchManyRequest, pb.DispatchManyAnswer)
        )
        self._read_log = channel.unary_unary(*_method("ReadLog", pb.ReadLogRequest, pb.ReadLogAnswer))

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        request = pb.CheckRequest(meant=wire.to_whom(self._meant))
        return wire.from_presence(
            await self._call(self._check, request, timeout or self._settings.check, is_write=False)
        )

    async def dispatch_many(
        self, starts: Sequence[StartAttempt], *, timeout: timedelta | None = None
    ) -> list[Accepted | AttemptRefused]:
        rules.check_starts(starts)
        request = wire.to_starts(self._meant, starts)
        answer = await self._call(self._dispatch_many, request, timeout or self._settings.dispatch)
        return wire.from_all_dispatched(answer, len(starts))

    async def read_log(self, attempt: AttemptId, offset: int = 0, *, timeout: timedelta | None = None) -> LogPiece:
        rules.check_attempt(attempt, offset)
        request = wire.to_log_request(self._meant, attempt, offset)
        return wire.from_log_answer(
            await self._call(self._read_log, request, timeout or self._settings.read_log, is_write=False)
        )

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
        """Wait for the connection, and return how much time is left; Unavailable if there is none in time.

        A connection that has just failed is left to the call, which then fails at once with the reason. An established
        one is used only if the node may be called.
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


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
