"""The client on a scripted channel: when it logs in, when it asks again, and that it lets go of its streams."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from grpc import StatusCode

from rota.model.errors import Denied, Unavailable, Unknown
from rota.store import url
from rota.store.etcd import settings
from rota.store.etcd.client import LEADER_ONLY, EtcdClient
from rota.store.etcd.pb import etcd_pb2 as pb

TXN, AUTHENTICATE, WATCH = "KV/Txn", "Auth/Authenticate", "Watch/Watch"
STALE = grpc.aio.AioRpcError(
    StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), details="etcdserver: invalid auth token"
)
BROKEN = grpc.aio.AioRpcError(StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details="Socket closed")
DONE = pb.TxnResponse(succeeded=True)
PROGRESS = pb.WatchResponse(header=pb.ResponseHeader(revision=7))


def turned_away(why: str) -> pb.WatchResponse:
    return pb.WatchResponse(created=True, canceled=True, cancel_reason=why)


TURNED_AWAY = turned_away("etcdserver: permission denied")


def token(text: str) -> pb.AuthenticateResponse:
    return pb.AuthenticateResponse(token=text)


class Stream:
    """One stream of the scripted channel."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = deque(answers)
        self.written: list[Any] = []
        self.is_canceled = False

    async def write(self, request: Any) -> None:
        self.written.append(request)

    async def read(self) -> Any:
        if not self._answers:
            await asyncio.Event().wait()
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        self.is_canceled = True


class Channel:
    """A channel that answers from scripts and writes down with which token it was asked."""

    def __init__(self, **scripts: list[Any]) -> None:
        self._scripts = {name: deque(script) for name, script in scripts.items()}
        self.asked: list[tuple[str, str | None]] = []
        self.streams: list[Stream] = []

    def unary_unary(self, path: str, *_: object) -> Callable[..., Any]:
        async def call(request: Any, *, timeout: float, metadata: Any) -> Any:
            await asyncio.sleep(0)
            answer = self._next(path, metadata)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def stream_stream(self, path: str, *_: object) -> Callable[..., Stream]:
        def call(*, metadata: Any, **_: object) -> Stream:
            self.streams.append(Stream(self._next(path, metadata)))
            return self.streams[-1]

        return call

    async def close(self) -> None:
        pass

    def _next(self, path: str, metadata: Any) -> Any:
        method = path.removeprefix("/etcdserverpb.")
        assert metadata[:1] == LEADER_ONLY
        self.asked.append((method, dict(metadata).get("token")))
        return self._scripts[method].popleft()


def client(channel: Any, *, user: str = "ann:secret@") -> EtcdClient:
    return EtcdClient(settings.read(url.parse(f"etcd://{user}a")), channel)


def request() -> pb.WatchRequest:
    return pb.WatchRequest()


async def test_a_stale_token_costs_one_login_and_one_more_try() -> None:
    channel = Channel(**{TXN: [STALE, DONE, DONE], AUTHENTICATE: [token("t1")]})
    ours = client(channel)
    await ours.txn(pb.TxnRequest())
    await ours.txn(pb.TxnRequest())
    assert channel.asked == [(TXN, None), (AUTHENTICATE, None), (TXN, "t1"), (TXN, "t1")]


async def test_a_token_refused_twice_is_denied() -> None:
    channel = Channel(**{TXN: [STALE, STALE], AUTHENTICATE: [token("t1")]})
    with pytest.raises(Denied):
        await client(channel).txn(pb.TxnRequest())


async def test_without_a_user_there_is_no_login() -> None:
    channel = Channel(**{TXN: [STALE]})
    with pytest.raises(Denied):
        await client(channel, user="").txn(pb.TxnRequest())


async def test_calls_that_fail_together_share_a_login() -> None:
    channel = Channel(**{TXN: [STALE, STALE, STALE, DONE, DONE, DONE], AUTHENTICATE: [token("t1")]})
    ours = client(channel)
    await asyncio.gather(*(ours.txn(pb.TxnRequest()) for _ in range(3)))
    assert channel.asked.count((AUTHENTICATE, None)) == 1


async def test_a_login_that_fails_leaves_no_doubt_about_the_commit() -> None:
    channel = Channel(**{TXN: [STALE], AUTHENTICATE: [BROKEN]})
    with pytest.raises(Unavailable):
        await client(channel).txn(pb.TxnRequest())


async def test_an_etcd_that_knows_no_users_is_used_without_a_token() -> None:
    off = grpc.aio.AioRpcError(
        StatusCode.FAILED_PRECONDITION,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        details="etcdserver: authentication is not enabled",
    )
    channel = Channel(**{TXN: [STALE, DONE], AUTHENTICATE: [off]})
    await client(channel).txn(pb.TxnRequest())
    assert channel.asked[-1] == (TXN, None)


async def test_a_commit_that_broke_off_is_not_sent_again() -> None:
    channel = Channel(**{TXN: [BROKEN]})
    with pytest.raises(Unknown):
        await client(channel).txn(pb.TxnRequest())


async def test_a_watch_goes_on_when_its_stream_breaks_or_ends() -> None:
    channel = Channel(**{WATCH: [[PROGRESS, BROKEN], [grpc.aio.EOF], [PROGRESS]]})
    async with aclosing(client(channel).watch(request)) as responses:
        assert [await anext(responses), await anext(responses)] == [PROGRESS, PROGRESS]
    assert [stream.is_canceled for stream in channel.streams] == [True, True, True]


@pytest.mark.parametrize(
    "why",
    [
        pytest.param("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token", id="3.4.23"),
        pytest.param("rpc error: code = PermissionDenied desc = etcdserver: permission denied", id="older"),
        pytest.param("etcdserver: invalid auth token", id="newer"),
    ],
)
async def test_a_watch_turned_away_logs_in_once(why: str) -> None:
    streams = [[turned_away(why)], [PROGRESS, turned_away(why)], [PROGRESS]]
    channel = Channel(**{WATCH: streams, AUTHENTICATE: [token("t1"), token("t2")]})
    async with aclosing(client(channel).watch(request)) as responses:
        await anext(responses)
        await anext(responses)
    assert [asked for asked in channel.asked if asked[0] == WATCH] == [(WATCH, None), (WATCH, "t1"), (WATCH, "t2")]


async def test_a_watch_outlives_a_server_that_dies_during_the_login_and_again_after_it() -> None:
    stale = turned_away("etcdserver: invalid auth token")
    channel = Channel(
        **{WATCH: [[stale], [stale], [stale], [PROGRESS]], AUTHENTICATE: [BROKEN, token("t1"), token("t2")]}
    )
    async with aclosing(client(channel).watch(request)) as responses:
        await anext(responses)
    assert channel.asked[-1] == (WATCH, "t2")


async def test_a_watch_turned_away_twice_is_denied() -> None:
    channel = Channel(**{WATCH: [[TURNED_AWAY], [TURNED_AWAY]], AUTHENTICATE: [token("t1")]})
    async with aclosing(client(channel).watch(request)) as responses:
        with pytest.raises(Denied, match="permission denied"):
            await anext(responses)


async def test_a_watch_cancelled_while_it_waits_lets_go_of_its_stream() -> None:
    channel = Channel(**{WATCH: [[]]})
    async with aclosing(client(channel).watch(request)) as responses:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(responses)
    assert channel.streams[0].is_canceled


async def test_a_watch_of_a_closed_store_ends() -> None:
    channel = Channel(**{WATCH: [[BROKEN]]})
    ours = client(channel)
    await ours.close()
    async with aclosing(ours.watch(request)) as responses:
        with pytest.raises(Unavailable):
            await anext(responses)
