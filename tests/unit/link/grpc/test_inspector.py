"""Certificates at a gRPC port: revoked ones are refused, also in the middle of a stream; callers are no nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from rota.fleet.core.access.gate import TurnedAway
from rota.link import open_link, serve_link
from rota.link.channel import open_channel
from rota.link.settings import TlsFiles
from rota.model.errors import Denied, Unavailable
from tests.kit.certificates import Authority, serial
from tests.kit.link_server import NODE, Desk


def files(folder: Path) -> TlsFiles:
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")


def clock() -> tuple[grpc.GenericRpcHandler]:
    """A service with a stream that says something once, and then goes on."""

    async def tick(_: bytes, context: Any) -> None:
        await context.write(b"tick")
        await asyncio.Event().wait()

    handlers = {"Tick": grpc.unary_stream_rpc_method_handler(tick)}
    return (grpc.method_handlers_generic_handler("trial.Clock", handlers),)


class Port:
    """A door with certificates, who was refused there, and which certificates were taken back."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.desk = Authority(folder), Desk()
        self.revoked: set[str] = set()
        self.notes: list[tuple[str, str, str]] = []
        self.address = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Port"]:
        def take_note(refused: TurnedAway, method: str, address: str) -> TurnedAway:
            self.notes.append((refused.name, method, address))
            return refused

        async with serve_link(
            "grpc://127.0.0.1:0",
            self.desk,
            tls=files(self.authority.issue("server")),
            more=clock,
            is_revoked=self.revoked.__contains__,
            take_note=take_note,
        ) as server:
            self.address = server.address
            yield self


async def test_a_revoked_certificate_is_refused_from_the_next_call_on(tmp_path: Path) -> None:
    async with Port(tmp_path).opened() as port:
        ours, theirs = port.authority.issue("n1"), port.authority.issue("n2")
        async with (
            open_link(port.address, tls=files(ours)) as link,
            open_link(port.address, tls=files(theirs)) as other,
        ):
            assert (await link.check()).node == NODE
            port.revoked.add(serial(ours))
            with pytest.raises(Denied, match=r"certificate .* of n1 was revoked"):
                await link.check()
            assert (await other.check()).node == NODE
        assert port.notes == [("n1", "/rota.link.v1.Link/Check", "127.0.0.1")]


async def test_a_stream_ends_when_its_callers_certificate_is_revoked(tmp_path: Path) -> None:
    async with Port(tmp_path).opened() as port:
        ours = port.authority.issue("n1")
        async with open_channel(port.address.removeprefix("grpc://"), files(ours)) as channel:
            stream: Any = channel.unary_stream("/trial.Clock/Tick")(b"")
            assert await stream.read() == b"tick"
            port.revoked.add(serial(ours))
            async with asyncio.timeout(60):
                with pytest.raises(grpc.aio.AioRpcError, match="was revoked"):
                    await stream.read()


async def test_the_certificate_of_a_caller_opens_no_node_link(tmp_path: Path) -> None:
    async with Port(tmp_path).opened() as port:
        caller = port.authority.issue("ci", kind="client")
        async with open_link(port.address, tls=files(caller)) as link:
            with pytest.raises(Denied, match="the certificate of ci is for a caller"):
                await link.check()
        async with open_channel(port.address.removeprefix("grpc://"), files(caller)) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/rota.v1.Nodes/List")(b"", timeout=60)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # let in; this door has no such service


async def test_a_renewed_certificate_is_shown_to_the_next_caller(tmp_path: Path) -> None:
    port = Port(tmp_path)
    async with port.opened():
        port.authority.issue("server", "localhost")
        ours = files(port.authority.issue("n1"))
        async with open_link(port.address.replace("127.0.0.1", "localhost"), tls=ours) as link:
            assert (await link.check()).node == NODE
        async with open_link(port.address, tls=ours) as link:
            with pytest.raises(Unavailable, match=r"Hostname Verification Check failed|is not in peer certificate"):
                await link.check()
