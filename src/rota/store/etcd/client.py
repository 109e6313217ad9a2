"""A thin client of etcd's v3 API on `grpc.aio`.

One channel, one method per call, messages in and out; what they mean is `store.py`'s business. Each call goes to the
next member in turn. A call is sent once: gRPC's own retries are off, for they would hide that a commit was sent
twice. The one exception is a token that etcd no longer knows, which it checks before it does anything: then the
client logs in and asks again, so such a call may take three time-outs.

Every call asks for a member that has a leader (`hasleader`): a member cut off from the others answers at once
instead of holding the call, and ends its watches, so that they move on to a healthy one.

`grpc.http2.ping_timeout_ms` is not in the usual lists of keepalive options. Without it a frozen server is noticed
after a minute, with it after 13 s at most.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from rota.kit.time import backoff
from rota.model.errors import Denied, RotaError, Unavailable
from rota.store.etcd import endpoints, errors
from rota.store.etcd.errors import StaleToken
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.etcd.settings import EtcdSettings

OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # a store is a neighbour; a proxy for the web is not the way to it
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Not a wait but the least time that one attempt to connect gets. A member 100 ms away must be reachable.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd disconnects a client that pings more often than every 5 s
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.ping_timeout_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
)
FIRST_WAIT = timedelta(milliseconds=50)
LONGEST_WAIT = timedelta(seconds=1)

log = logging.getLogger(__name__)

Metadata = tuple[tuple[str, str], ...]
LEADER_ONLY: Metadata = (("hasleader", "true"),)

Response = TypeVar("Response")


async def connect(settings: EtcdSettings) -> "EtcdClient":
    """A client for these settings; etcd itself is reached by the first call."""
    target = await endpoints.target(settings.endpoints, settings.store)
    return EtcdClient(settings, _channel(settings, target))


class EtcdClient:
    """A channel to etcd, and the token it is used with."""

    def __init__(self, settings: EtcdSettings, channel: grpc.aio.Channel) -> None:
        self._store, self._timeout = settings.store, settings.timeout
        self._user, self._password = settings.user, settings.password
        self._metadata = LEADER_ONLY
        self._logging_in = asyncio.Lock()
        self._is_closed = False
        self._channel = channel
        self._range = channel.unary_unary(
            "/etcdserverpb.KV/Range", pb.RangeRequest.SerializeToString, pb.RangeResponse.FromString
        )
        self._txn = channel.unary_unary(
            "/etcdserverpb.KV/Txn", pb.TxnRequest.SerializeToString, pb.TxnResponse.FromString
        )
        self._compact = channel.unary_unary(
            "/etcdserverpb.KV/Compact", pb.CompactionRequest.SerializeToString, pb.CompactionResponse.FromString
        )
        self._watch = channel.stream_stream(
            "/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString
        )
        self._lease_grant = channel.unary_unary(
            "/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest.SerializeToString, pb.LeaseGrantResponse.FromString
        )
        self._lease_revoke = channel.unary_unary(
            "/etcdserverpb.Lease/LeaseRevoke",
            pb.LeaseRevokeRequest.SerializeToString,
            pb.LeaseRevokeResponse.FromString,
        )
        self._lease_keep_alive = channel.stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            pb.LeaseKeepAliveRequest.SerializeToString,
            pb.LeaseKeepAliveResponse.FromString,
        )
        self._lease_time_to_live = channel.unary_unary(
            "/etcdserverpb.Lease/LeaseTimeToLive",
            pb.LeaseTimeToLiveRequest.SerializeToString,
            pb.LeaseTimeToLiveResponse.FromString,
        )
        self._authenticate = channel.unary_unary(
            "/etcdserverpb.Auth/Authenticate",
            pb.AuthenticateRequest.SerializeToString,
            pb.AuthenticateResponse.FromString,
        )

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Read keys."""
        return await self._call(self._range, request)

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Compare, then write or read; Unknown if it may have been applied."""
        return await self._call(self._txn, request, is_write=True)

    async def compact(self, request: pb.CompactionRequest) -> None:
        """Forget history."""
        await self._call(self._compact, request)

    async def grant(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        """Grant a lease; one whose answer got lost has no keys and expires by itself."""
        return await self._call(self._lease_grant, request)

    async def revoke(self, request: pb.LeaseRevokeRequest) -> None:
        """End a lease; Unknown if it may have been done."""
        await self._call(self._lease_revoke, request, is_write=True)

    async def keep_alive(self, request: pb.LeaseKeepAliveRequest) -> pb.LeaseKeepAliveResponse:
        """Renew a lease; a TTL of 0 says that it has ended."""
        return await self._call(self._keep_alive_once, request)

    async def time_to_live(self, request: pb.LeaseTimeToLiveRequest) -> pb.LeaseTimeToLiveResponse:
        """Query a lease; a TTL of -1 says that it has ended."""
        return await self._call(self._lease_time_to_live, request)

    async def watch(self, request: Callable[[], pb.WatchRequest]) -> AsyncGenerator[pb.WatchResponse, None]:
        """Answers to `request`, until cancelled: when a stream ends, a new one is made with a new request."""
        waits, was_denied = _waits(), False
        while True:
            metadata = self._metadata
            try:
                async with aclosing(self._stream(request(), metadata)) as responses:
                    async for response in responses:
                        yield response
                        waits, was_denied = _waits(), False
            except Denied as denied:
                was_denied = await self._let_in_again(denied, metadata, was_denied=was_denied)
            except RotaError as why:
                if self._is_closed:
                    raise
                log.info("watch broke off", extra={"store": self._store, "why": str(why)})
            await asyncio.sleep(next(waits).total_seconds())

    async def close(self) -> None:
        """Close the channel; calls under way end."""
        self._is_closed = True
        await self._channel.close()

    async def _call(
        self, method: Callable[..., Awaitable[Response]], request: Message, *, is_write: bool = False
    ) -> Response:
        with self._translated(is_write=is_write):
            metadata = self._metadata
            try:
                return await method(request, timeout=self._timeout, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if self._user is None or not errors.is_stale_token(error):
                    raise
            await self._log_in(metadata)
            return await method(request, timeout=self._timeout, metadata=self._metadata)

    async def _stream(self, request: pb.WatchRequest, metadata: Metadata) -> AsyncGenerator[pb.WatchResponse, None]:
        """The answers of one stream, until it ends."""
        with self._translated():
            call = self._watch(metadata=metadata, wait_for_ready=True)
            try:
                await call.write(request)
                while isinstance(response := await call.read(), pb.WatchResponse):
                    _check_not_canceled(response)
                    yield response
            finally:
                call.cancel()

    async def _keep_alive_once(
        self, request: pb.LeaseKeepAliveRequest, *, timeout: float, metadata: Metadata
    ) -> pb.LeaseKeepAliveResponse:
        call = self._lease_keep_alive(timeout=timeout, metadata=metadata)
        try:
            await call.write(request)
            response = await call.read()
        finally:
            call.cancel()
        if isinstance(response, pb.LeaseKeepAliveResponse):
            return response
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details="etcd ended the stream"
        )

    async def _log_in(self, stale: Metadata) -> None:
        """Get a new token, unless another call has got one in place of `stale` meanwhile."""
        async with self._logging_in:
            if self._metadata is stale:
                with self._translated():
                    self._metadata = (*LEADER_ONLY, *await self._token())

    async def _token(self) -> Metadata:
        """A new token; nothing where etcd knows no users."""
        request = pb.AuthenticateRequest(name=self._user or "", password=self._password)
        try:
            response = await self._authenticate(request, timeout=self._timeout, metadata=LEADER_ONLY)
        except grpc.aio.AioRpcError as error:
            if error.details() == errors.NO_AUTHENTICATION:
                return ()
            raise
        return (("token", response.token),)

    async def _let_in_again(self, why: Denied, metadata: Metadata, *, was_denied: bool) -> bool:
        """Log in for a watch that was refused, and return whether that worked; raises `why` where it cannot help.

        Older etcds answer "permission denied" to a watch with a stale token, so the first such answer is not final
        either.
        """
        if self._user is None or (was_denied and not isinstance(why, StaleToken)):
            raise why
        with suppress(Unavailable):
            await self._log_in(metadata)
            return True
        return False

    @contextmanager
    def _translated(self, *, is_write: bool = False) -> Iterator[None]:
        """Raises gRPC's errors as Rota's."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise errors.translate(error, self._store, is_write=is_write) from error
        except grpc.aio.UsageError as error:
            raise errors.closed(self._store) from error
        except asyncio.CancelledError as error:
            if not self._is_closed or _is_canceled():
                raise
            # The channel cancels its calls when it is closed; the caller's task is not being canceled.
            raise errors.cut_short(self._store, is_write=is_write) from error


def _channel(settings: EtcdSettings, target: str) -> grpc.aio.Channel:
    tls = settings.tls
    if tls is None:
        return grpc.aio.insecure_channel(target, OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    name = tls.server_name or settings.endpoints[0].host
    return grpc.aio.secure_channel(target, credentials, (*OPTIONS, ("grpc.ssl_target_name_override", name)))


def _waits() -> Iterator[timedelta]:
    return backoff.delays(FIRST_WAIT, LONGEST_WAIT, random.random)


def _is_canceled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _check_not_canceled(response: pb.WatchResponse) -> None:
    """Raises what etcd ended a watch for; compaction, which is an answer, passes."""
    if response.canceled and not response.compact_revision:
        why = response.cancel_reason.rpartition("desc = ")[2]  # some versions wrap it as Go prints errors
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details=why or "etcd ended the watch"
        )
