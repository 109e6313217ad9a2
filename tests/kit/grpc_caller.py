"""A caller of the gRPC door."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from rota.doors.behind import NodeBackend
from rota.doors.grpc import door
from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.grpc.pb import crawler_pb2
from rota.doors.health import HealthChecks
from rota.doors.watches import Watches
from rota.link import serve_link
from rota.link.port import Admit
from rota.store import Store
from tests.kit.hand_clock import HandClock
from tests.kit.link_server import Desk
from tests.kit.relay_records import count
from tests.kit.waiting import PATIENCE

CLOCK = HandClock()


Code = grpc.StatusCode


class Caller:
    """Somebody with a channel to the door."""

    def __init__(self, channel: grpc.aio.Channel, address: str) -> None:
        self.channel, self.address = channel, address

    async def raw(self, path: str, content: bytes, timeout: float | None = PATIENCE, token: str = "") -> bytes:
        """Ask with bytes."""
        call: Any = self.channel.unary_unary(path)
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        answer: bytes = await call(content, timeout=timeout, metadata=metadata)
        return answer

    async def __call__(self, name: str, request: Message, answer: Any, timeout: float | None = PATIENCE) -> Any:
        service, _, method = name.rpartition(".")
        return answer.FromString(await self.raw(f"/{service}/{method}", request.SerializeToString(), timeout))

    async def resources(self, method: str, request: Message, answer: Any = pb.Resource, **more: Any) -> Any:
        return await self(f"rota.v1.Resources.{method}", request, answer, **more)

    async def nodes(self, method: str, request: Message, answer: Any) -> Any:
        return await self(f"rota.v1.Nodes.{method}", request, answer)

    async def create(self, id: str = "1", kind: str = "room", **more: Any) -> Any:
        return await self.resources("Create", pb.CreateResourceRequest(kind=kind, id=id, **more))

    async def add(self, name: str, timeout: float | None = PATIENCE) -> Any:
        spec = crawler_pb2.ResourceSpec(name=name, id="x", assigned_node="y", creation_time=3)
        return await self("CrawlerMaster.AddResource", spec, crawler_pb2.NodeSpec, timeout)


@asynccontextmanager
async def refused(code: grpc.StatusCode, *words: str) -> AsyncIterator[None]:
    """What is asked inside is refused with this status, in a sentence that has these words."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    said = caught.value.details() or ""
    assert caught.value.code() == code, said
    assert all(word in said for word in words), said


@asynccontextmanager
async def opened(
    store: Callable[[], Store | None],
    health: HealthChecks | None = None,
    stopping: asyncio.Event | None = None,
    admit: Admit | None = None,
    watches: Watches | None = None,
) -> AsyncIterator[Caller]:
    def more() -> list[grpc.GenericRpcHandler]:
        behind = NodeBackend(store, CLOCK, watches or Watches(), count)
        return door.handlers(behind, health or HealthChecks(CLOCK), stopping or asyncio.Event())

    async with serve_link("grpc://127.0.0.1:0", Desk(), more=more, admit=admit) as server:
        async with grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel:
            yield Caller(channel, server.address)
