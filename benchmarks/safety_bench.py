"""The price of tokens and of TLS at every door that has them.

Two nodes run beside each other, one with certificates and one without, and are asked in turns: one call after the other
on one connection, and with a new connection for each call, which is what a handshake costs. gRPC and the node link ask
callers for a certificate as well; HTTP does not. Lines between relays carry batches of a hundred messages from one end
to the other and acks back, within this process.
"""

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc

from benchmarks import measure
from benchmarks.measure import Row, Samples, Side, Turn
from rota.fleet.core.access.gate import Access, AdmittedCaller, Gate, by_digest, digest
from rota.fleet.core.access.token import TokenRecord
from rota.link import open_link, serve_link
from rota.link.settings import TlsFiles
from rota.relay.core.held import Emission
from rota.relay.process.tls import RelayTls
from rota.relay.process.wire import AckFrame, Any_, BatchFrame, FrameConnection, Socket
from tests.kit.certificates import Authority
from tests.kit.doors import Door
from tests.kit.link_server import Desk
from tests.kit.node import NodeUnderTest
from tests.kit.sinks import messages

CALLS = 150
CONNECTIONS = 30
TURNS = 3
TOKENS, JUDGED = 100, 20_000
BATCHES, BATCH = 60, 100

FREE, TOKEN, TLS = "health, without a token", "a token", "a token and TLS"
PLAIN, SECURED = "without TLS", "mutual TLS"
HEALTH, NODES = "/grpc.health.v1.Health/Check", "/rota.v1.Nodes/List"


def rows(rounds: int) -> list[Row]:
    """What each adds, for each door."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return asyncio.run(_rows(Path(folder), rounds))


async def _rows(folder: Path, rounds: int) -> list[Row]:
    authority = Authority(folder / "tls")
    judged = [judged_per_second() for _ in range(rounds)]
    async with _nodes(folder, authority) as (plain, secured):
        return [
            *_priced("HTTP", await _rates(rounds, _http(plain, secured))),
            *_priced("HTTP, a connection each", await _rates(rounds, _http(plain, secured, is_kept=False))),
            *_priced("gRPC", await _rates(rounds, _grpc(plain, secured))),
            measure.alone(f"tokens: judged, one of {TOKENS}", "/s", judged),
            _beside("node link, checks", await _rates(rounds, _links(authority))),
            _beside("relay line, messages", await _rates(rounds, _lines(authority))),
        ]


async def _rates(rounds: int, sides: Mapping[str, Side]) -> dict[str, list[float]]:
    played = await measure.play(sides, rounds, TURNS)
    return {side: [measure.rate(samples[side]) for samples in played] for side in sides}


def _priced(name: str, rates: dict[str, list[float]]) -> list[Row]:
    """A row for the token beside none, and one for TLS beside the token alone."""
    return [
        measure.compare(f"{name}: {TOKEN}", "/s", FREE, rates[FREE], rates[TOKEN]),
        measure.compare(f"{name}: {TLS}", "/s", TOKEN, rates[TOKEN], rates[TLS]),
    ]


def _beside(name: str, rates: dict[str, list[float]]) -> Row:
    return measure.compare(f"{name}: {SECURED}", "/s", PLAIN, rates[PLAIN], rates[SECURED])


def judged_per_second() -> float:
    """Tokens looked up per second, of a fleet that knows many."""
    made = datetime.now(UTC)
    shown = [f"rota_{number:040}" for number in range(TOKENS)]
    known = [
        TokenRecord(name=f"t{number}", access=Access.VIEW, digest=digest(token).hex(), made=made, by="bench")
        for number, token in enumerate(shown)
    ]
    gate = Gate((), "").with_records(by_digest(known))
    headers = [f"Bearer {token}" for token in shown]
    before = perf_counter()
    admitted = sum(
        isinstance(gate.judge(headers[number % TOKENS], Access.VIEW, made), AdmittedCaller) for number in range(JUDGED)
    )
    took = perf_counter() - before
    assert admitted == JUDGED
    return JUDGED / took


# The doors of nodes


@dataclass(frozen=True)
class _Guarded:
    """A node's doors, and the certificates of a caller if they ask for some."""

    door: Door
    certificates: Path | None = None

    def connection(self) -> HTTPConnection:
        """A connection that is made with the first request."""
        if self.certificates is None:
            return HTTPConnection(self.door.address, timeout=15)
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        return HTTPSConnection(self.door.address, timeout=15, context=context)

    def channel(self) -> grpc.aio.Channel:
        """The same for gRPC."""
        if self.certificates is None:
            return grpc.aio.insecure_channel(self.door.grpc)
        files = [(self.certificates / name).read_bytes() for name in ("ca.pem", "key.pem", "cert.pem")]
        return grpc.aio.secure_channel(self.door.grpc, grpc.ssl_channel_credentials(*files))


@asynccontextmanager
async def _nodes(folder: Path, authority: Authority) -> AsyncIterator[tuple[_Guarded, _Guarded]]:
    """A node without TLS, and one with it."""
    certificates = authority.issue(NodeUnderTest(folder / "secured").name)
    with (
        NodeUnderTest(folder / "plain") as plain,
        NodeUnderTest(folder / "secured", "--tls", certificates) as secured,
    ):
        await plain.ready()
        await secured.ready()
        yield _Guarded(await Door.of(plain)), _Guarded(await Door.of(secured), certificates)


def _http(plain: _Guarded, secured: _Guarded, *, is_kept: bool = True) -> Mapping[str, Side]:
    return {
        FREE: partial(_asking, plain, "/livez", is_kept),
        TOKEN: partial(_asking, plain, "/v1/node", is_kept),
        TLS: partial(_asking, secured, "/v1/node", is_kept),
    }


@asynccontextmanager
async def _asking(guarded: _Guarded, path: str, is_kept: bool) -> AsyncIterator[Turn]:
    connection = guarded.connection()
    headers = {"authorization": f"Bearer {guarded.door.token}"}

    async def turn() -> Samples:
        return await asyncio.to_thread(ask)

    def ask() -> Samples:
        samples = []
        for _ in range(CALLS if is_kept else CONNECTIONS):
            before = perf_counter()
            connection.request("GET", path, headers=headers)
            connection.getresponse().read()
            if not is_kept:
                connection.close()
            samples.append(perf_counter() - before)
        return samples

    try:
        yield turn
    finally:
        connection.close()


def _grpc(plain: _Guarded, secured: _Guarded) -> Mapping[str, Side]:
    return {
        FREE: partial(_calling, plain, HEALTH),
        TOKEN: partial(_calling, plain, NODES),
        TLS: partial(_calling, secured, NODES),
    }


@asynccontextmanager
async def _calling(guarded: _Guarded, method: str) -> AsyncIterator[Turn]:
    shown = (("authorization", f"Bearer {guarded.door.token}"),)
    async with guarded.channel() as channel:
        call: Any = channel.unary_unary(method)

        async def turn() -> Samples:
            samples = []
            for _ in range(CALLS):
                before = perf_counter()
                await call(b"", timeout=15, metadata=shown)
                samples.append(perf_counter() - before)
            return samples

        yield turn


# Between nodes


def _links(authority: Authority) -> Mapping[str, Side]:
    folder = authority.issue("linked")
    files = TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")
    return {PLAIN: partial(_checking, None), SECURED: partial(_checking, files)}


@asynccontextmanager
async def _checking(tls: TlsFiles | None) -> AsyncIterator[Turn]:
    async with (
        serve_link("grpc://127.0.0.1:0", Desk(), tls=tls) as server,
        open_link(server.address, tls=tls) as link,
    ):

        async def turn() -> Samples:
            samples = []
            for _ in range(CALLS):
                before = perf_counter()
                await link.check()
                samples.append(perf_counter() - before)
            return samples

        yield turn


def _lines(authority: Authority) -> Mapping[str, Side]:
    tls = RelayTls(str(authority.issue("relays")))
    return {PLAIN: partial(_relaying, None), SECURED: partial(_relaying, tls)}


@asynccontextmanager
async def _relaying(tls: RelayTls | None) -> AsyncIterator[Turn]:
    """A line, and a turn that is over when its last batch is acked."""
    emissions = tuple(Emission(message, "memory://", 0, 1) for message in messages(BATCH))
    acked = asyncio.Event()
    last = 0

    def take(record: Any_) -> None:
        if isinstance(record, BatchFrame):
            theirs.send(AckFrame(record.sequence))

    def hear(record: Any_) -> None:
        if isinstance(record, AckFrame) and record.sequence == last:
            acked.set()

    async def turn() -> Samples:
        nonlocal last
        first, last = last + 1, last + BATCHES
        acked.clear()
        before = perf_counter()
        for sequence in range(first, last + 1):
            ours.send(BatchFrame(sequence, 0.0, emissions))
        await acked.wait()
        return [(perf_counter() - before) / (BATCHES * BATCH)] * (BATCHES * BATCH)

    one, other = await _ends(tls)
    ours, theirs = FrameConnection(one, hear, acked.set), FrameConnection(other, take, lambda: None)
    try:
        yield turn
    finally:
        ours.close()
        theirs.close()


async def _ends(tls: RelayTls | None) -> tuple[Socket, Socket]:
    one, other = socket.socketpair()
    for end in (one, other):
        end.setblocking(False)
    if tls is None:
        return one, other
    called, answered = await asyncio.gather(tls.call(one, "127.0.0.1"), tls.answer(other))
    return called, answered
