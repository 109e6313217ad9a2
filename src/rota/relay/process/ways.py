"""Lines to other relays: one to each home that the map names, also with no messages to pass on.

A line that breaks, or is refused because the other relay does not have the map yet, is retried until it succeeds. A new
map replaces all lines.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from random import random
from typing import TYPE_CHECKING

from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.config import split_address
from rota.model.ids import NodeId
from rota.relay.core.core import Relay
from rota.relay.core.peers import HandOver, PeerRelay
from rota.relay.process.wire import (
    BATCH,
    BATCH_BYTES,
    UNSENT,
    AckFrame,
    Any_,
    BatchFrame,
    FrameConnection,
    OpeningFrame,
    RefusalFrame,
    ShipFrame,
    ShippedFrame,
    Socket,
)

if TYPE_CHECKING:
    from rota.kit.crypto.authority import Certificate
    from rota.relay.process.tls import RelayTls

log = logging.getLogger(__name__)

CONNECT = 5.0
"""Seconds that connecting may take."""

RETRY = timedelta(milliseconds=100), timedelta(seconds=1)
"""Shortest and longest wait until a line is retried."""


class PeerLinks:
    """The lines to all other relays."""

    def __init__(
        self,
        core: Relay,
        token: str,
        clock: Clock,
        pump: Callable[[], None],
        start: Callable[..., "asyncio.Task[None]"],
        tls: "RelayTls | None" = None,
    ) -> None:
        self._tls, self._revoked = tls, frozenset[str]()
        self._core, self.token, self._clock, self._pump, self._start = core, token, clock, pump, start
        self._keeping: dict[NodeId, tuple[str, int, asyncio.Task[None]]] = {}
        """Node → the address and the map version that its line is kept for."""

        self._open: dict[NodeId, FrameConnection] = {}
        self._shown: dict[NodeId, Certificate] = {}
        """The certificates of other relays, where relays speak TLS."""

        self.trouble: dict[NodeId, str] = {}
        self._is_warned: set[NodeId] = set()
        """Homes that cannot be reached, and for which a warning was logged."""

        self._shipped: set[tuple[NodeId, int]] = set()
        """Shipments that were sent on the open lines, by taker and version."""

    def __len__(self) -> int:
        return len(self._open)

    def follow(self, members: Mapping[NodeId, str]) -> None:
        """Keep a line to every home; `members` has their addresses."""
        relay_map, node = self._core.map, self._core.node
        homes = {home: members[home] for home in relay_map.nodes if home in members} if relay_map else {}
        homes.pop(node, None)
        version = relay_map.version if relay_map else 0
        for home, (address, kept_for, task) in list(self._keeping.items()):
            if homes.get(home) != address or kept_for != version:
                task.cancel()
                del self._keeping[home]
                self.trouble.pop(home, None)
                # At once: an unread ack covers batches of the old line, and batches are numbered afresh.
                self._let_go(home)
        for home, address in homes.items():
            if home not in self._keeping:
                task = self._start(self._keep(home, address, version), name=f"way to {home}")
                self._keeping[home] = (address, version, task)

    def pass_on(self, peer: PeerRelay) -> None:
        """Hand over what waits for another relay, as long as it keeps up."""
        wire = self._open.get(peer.node)
        while wire is not None and wire.unsent < UNSENT:
            batch = self._core.hand_over(peer, BATCH, BATCH_BYTES, self._clock.monotonic())
            if batch is None:
                return
            _send(wire, batch)

    def tick(self) -> None:
        """Report to the others the age of the messages that they may still get."""
        for node, wire in list(self._open.items()):
            if wire.is_silent:
                log.warning("relay silent", extra={"node": self._core.node, "relay": node})
                wire.lose()
            elif not wire.unsent:
                _send(wire, self._core.ping(self._core.peer(node), self._clock.monotonic()))

    def ship(self) -> None:
        """Send the shipments that the core has; each once per line."""
        for shipment in self._core.moves.shipments:
            key, wire = (shipment.taker, shipment.version), self._open.get(shipment.taker)
            if wire is not None and key not in self._shipped:
                self._shipped.add(key)
                wire.send(ShipFrame(shipment.version, shipment.excerpts, shipment.floors, shipment.age))

    def revoke(self, serials: Collection[str]) -> None:
        """Do not connect to relays whose certificates were revoked, and end their open lines."""
        self._revoked = frozenset(serials)
        for node, certificate in list(self._shown.items()):
            if certificate.serial in self._revoked and (wire := self._open.get(node)):
                wire.lose()

    async def _connect(self, node: NodeId, address: str) -> Socket:
        """A line to another relay; OSError if it is not reached, or is not the expected relay."""
        sock = await _connect(address)
        if self._tls is None:
            return sock
        secured = await self._tls.call(sock, split_address(address)[0])
        found = self._shown[node] = secured.certificate
        if found.serial in self._revoked or (found.kind and found.name != node):
            secured.close()
            raise OSError(f"its certificate is of {found.kind} {found.name}, or was revoked")
        return secured

    async def _keep(self, node: NodeId, address: str, version: int) -> None:
        waits = delays(*RETRY, random)
        while True:
            try:
                async with asyncio.timeout(CONNECT):
                    sock = await self._connect(node, address)
            except (OSError, TimeoutError) as error:
                self._fail(node, f"{address} is not reached: {error or 'no answer'}")
            else:
                await self._use(node, sock, version)
            await asyncio.sleep(next(waits).total_seconds())

    async def _use(self, node: NodeId, sock: Socket, version: int) -> None:
        """Pass messages on until the line breaks."""
        over, peer = asyncio.Event(), self._core.peer(node)
        wire = FrameConnection(sock, lambda record: self._heard(node, wire, record), over.set)
        wire.on_room = partial(self.pass_on, peer)
        try:
            self._core.peer_broke(peer)
            age = self._core.age(peer, self._clock.monotonic())
            wire.send(OpeningFrame(age, node=self._core.node, version=version, token=self.token))
            await over.wait()
        finally:
            wire.close()
            if self._open.get(node) is wire:
                self._let_go(node)

    def _let_go(self, node: NodeId) -> None:
        """The line to a relay has ended: nothing more is read from it, and messages without an ack are sent again."""
        if (wire := self._open.pop(node, None)) is not None:
            wire.close()
            self._shipped = {(taker, number) for taker, number in self._shipped if taker != node}
            self._core.peer_broke(self._core.peer(node))

    def _fail(self, node: NodeId, why: str) -> None:
        """Log once why there is no line: as a warning only if a second try fails for the same reason, because many
        problems pass."""
        if self.trouble.get(node) != why:
            self.trouble[node] = why
            self._is_warned.discard(node)
            log.info("relay not reached yet", extra={"relay": node, "why": why})
        elif node not in self._is_warned:
            self._is_warned.add(node)
            log.warning("relay not reached", extra={"relay": node, "why": why})

    def _heard(self, node: NodeId, wire: FrameConnection, record: Any_) -> None:
        match record:
            case AckFrame() if node not in self._open:  # the other relay has accepted the line
                self._open[node] = wire
                self.trouble.pop(node, None)
                self._core.moves.ship_again(node, self._clock.monotonic())
                self.pass_on(self._core.peer(node))
            case AckFrame(sequence=sequence, refused=refused):
                self._core.acked(self._core.peer(node), sequence, refused)
                self._pump()
            case ShippedFrame(version=version):
                self._core.moves.taken(node, version)
            case RefusalFrame(why=why):
                self._fail(node, why)


def _send(wire: FrameConnection, batch: HandOver) -> None:
    wire.send(BatchFrame(batch.sequence, batch.age, batch.emissions))


async def _connect(address: str) -> socket.socket:
    loop = asyncio.get_running_loop()
    host, port = split_address(address)
    family, kind, protocol, _, place = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, place)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock
