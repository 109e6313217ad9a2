"""Lines that come in: workers of this node and other nodes' relays hand messages over.

A worker's line comes from the agent, which knows whose it is. Another relay connects through the door and identifies
itself: it must show the fleet's token and use the same version of the map. A relay that connects again has lost its
earlier line.
"""

import asyncio
import hmac
import logging
import socket
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from rota.fleet.core.access.gate import digest
from rota.kit.time.clock import Clock
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.relay.core.core import Relay
from rota.relay.core.held import InboundLine
from rota.relay.core.moves import Shipment
from rota.relay.process.wire import (
    LARGEST_OPENING,
    PROTOCOL,
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

log = logging.getLogger(__name__)

OPENING = 5.0
"""Seconds within which a new connection must identify itself."""

LAST_WORDS = 10.0
"""Seconds in which the messages that a worker sent before its end are read."""


class InboundConnection:
    """One incoming line."""

    def __init__(
        self, lines: "InboundConnections", sock: Socket, sender: str | None, certificate: "Certificate | None" = None
    ) -> None:
        self._lines = lines
        self.certificate = certificate
        """What another relay has shown, where relays speak TLS."""

        self.sender = sender or ""
        """The worker; for another relay its node, once it has identified itself."""

        self.is_peer = sender is None
        self.line: InboundLine | None = None
        """None until it is opened."""

        self.shown = ""
        """The digest of the token that another relay has shown."""

        self.patience: asyncio.TimerHandle | None = None
        """The timer that ends a silent connection; it must not keep alive what has ended by itself."""

        largest = {"largest": LARGEST_OPENING} if self.is_peer else {}
        self.wire = FrameConnection(sock, self._heard, self._ended, **largest)

    def update(self) -> None:
        """Send the ack, and start or stop reading as the core says."""
        if self.line is not None:
            self.wire.send(AckFrame(self.line.acked, self.line.take_refused()))
            self.wire.read(not self.line.is_stopped)

    def refuse(self, why: str) -> None:
        """Send the reason why it is refused, and end it."""
        self.wire.send(RefusalFrame(why))
        self.wire.lose()

    def _heard(self, record: Any_) -> None:
        self._lines.heard(self, record)

    def _ended(self) -> None:
        self._lines.ended(self)


class InboundConnections:
    """All incoming lines."""

    def __init__(self, core: Relay, node: NodeId, token: str, clock: Clock, pump: Callable[[], None]) -> None:
        self._core, self._node, self._clock, self._pump = core, node, clock, pump
        self._taken = [_digest(token)]
        """The digests of the tokens that other relays may show."""

        self._comings: set[InboundConnection] = set()
        self._by_line: dict[InboundLine, InboundConnection] = {}
        self._revoked: frozenset[str] = frozenset()
        self._gone: set[str] = set()
        """Workers that have ended, and whose lines are still being read."""

    def __len__(self) -> int:
        return len(self._by_line)

    @property
    def is_complete(self) -> bool:
        """Has each connected worker reported whether it holds messages?"""
        return all(coming.is_peer or coming.line is not None for coming in self._comings)

    # Connections

    def take_worker(self, sender: str, sock: socket.socket) -> None:
        """A worker of this node has a line to this relay."""
        self._comings.add(InboundConnection(self, sock, sender))

    def take_stranger(self, sock: Socket, certificate: "Certificate | None" = None) -> None:
        """A connection came in through the door; it must identify itself first."""
        coming = InboundConnection(self, sock, None, certificate)
        self._comings.add(coming)
        coming.patience = asyncio.get_running_loop().call_later(OPENING, self._see_off, coming)

    def revoke(self, serials: Collection[str]) -> None:
        """End the lines of relays whose certificates were revoked, and accept these certificates no more."""
        self._revoked = frozenset(serials)
        for coming in list(self._comings):
            if coming.certificate is not None and coming.certificate.serial in self._revoked:
                coming.wire.lose()

    def admit(self, taken: Collection[str]) -> None:
        """Accept relays that show a token with one of these digests, and end the lines of all others."""
        self._taken = list(taken)
        for coming in list(self._comings):
            if coming.shown and coming.shown not in self._taken:
                coming.wire.lose()

    def sender_gone(self, sender: str) -> None:
        """A worker has ended. What it sent is read for `LAST_WORDS` seconds only: a child of the worker may hold the
        line open."""
        lines = self._of_worker(sender)
        if not lines:
            self._core.host_gone(sender)
            return
        self._gone.add(sender)
        for coming in lines:
            asyncio.get_running_loop().call_later(LAST_WORDS, coming.wire.lose)

    def end(self, line: InboundLine) -> None:
        """End a line in the core."""
        if coming := self._by_line.pop(line, None):
            self._comings.discard(coming)
            coming.wire.close()

    def update(self, line: InboundLine) -> None:
        """A line has a new ack, or should start or stop being read."""
        if coming := self._by_line.get(line):
            coming.update()

    def tick(self) -> None:
        """Send other relays a sign of life, and end the lines of those that are silent."""
        for coming in self._peers():
            coming.update()
            if coming.wire.is_silent:
                log.warning("relay silent", extra={"node": self._node, "relay": coming.sender})
                coming.wire.lose()

    def close(self) -> None:
        """Close all lines."""
        for coming in self._comings:
            coming.wire.close()

    def _of_worker(self, sender: str) -> list[InboundConnection]:
        return [coming for coming in self._comings if coming.sender == sender and not coming.is_peer]

    def _peers(self) -> Iterator[InboundConnection]:
        return iter([coming for coming in self._by_line.values() if coming.is_peer])

    def _see_off(self, coming: InboundConnection) -> None:
        if coming.line is None and coming in self._comings:
            coming.wire.lose()

    # Records

    def heard(self, coming: InboundConnection, record: Any_) -> None:
        """A record came on a line."""
        line = coming.line
        match record:
            case OpeningFrame() if line is None:
                self._open(coming, record)
            case BatchFrame(sequence=sequence) if line is not None and sequence != line.last + 1:
                coming.refuse(f"batch {sequence} follows {line.last}; an ack would stand for what never came")
            case BatchFrame(sequence=sequence, emissions=emissions, age=age) if line is not None:
                try:
                    self._core.took(line, sequence, emissions, age, self._clock.monotonic())
                except Invalid as error:
                    coming.refuse(str(error))
                self._pump()
            case ShipFrame() if line is not None and coming.is_peer:
                self._take_shipment(coming, record)
            case _:
                coming.refuse("this is not what comes next on a line; is it a relay of the same Rota?")

    def ended(self, coming: InboundConnection) -> None:
        """A line broke."""
        if coming.patience is not None:
            coming.patience.cancel()
        self._comings.discard(coming)
        if coming.line is not None:
            self._by_line.pop(coming.line, None)
            if coming.line.is_open:
                self._core.line_lost(coming.line)
        if not coming.is_peer and coming.sender in self._gone and not self._of_worker(coming.sender):
            self._gone.discard(coming.sender)
            self._core.host_gone(coming.sender)
        self._pump()

    def _open(self, coming: InboundConnection, opening: OpeningFrame) -> None:
        if coming.is_peer:
            if why := self._objection(opening, coming.certificate):
                log.debug("relay refused", extra={"node": self._node, "relay": opening.node[:100], "why": why})
                coming.refuse(why)
                return
            coming.sender, coming.shown = opening.node, _digest(opening.token)
            coming.wire.trust()
            for other in [other for other in self._peers() if other.sender == opening.node]:
                other.wire.lose()
        line = coming.line = InboundLine(coming.sender, is_peer=coming.is_peer)
        self._by_line[line] = coming
        self._core.join(line, opening.age, self._clock.monotonic())
        coming.update()

    def _objection(self, opening: OpeningFrame, certificate: "Certificate | None") -> str:
        """Why another relay is refused; empty if it is accepted."""
        if certificate is not None and certificate.serial in self._revoked:
            return f"the certificate of {certificate.name} was revoked; make another with rota tls issue"
        if certificate is not None and certificate.kind and certificate.name != opening.node:
            return f"the certificate is of {certificate.kind} {certificate.name}, and not of node {opening.node[:100]}"
        if opening.protocol != PROTOCOL:
            return f"node {self._node} speaks version {PROTOCOL} of the relays' protocol, not {opening.protocol}"
        if not any(hmac.compare_digest(_digest(opening.token), each) for each in self._taken):
            return f"this token is not known to node {self._node}; give all nodes of the fleet the same"
        if not self._core.accepts(opening.version):
            return f"node {self._node} does not use version {opening.version} of the relay map"
        return ""

    def _take_shipment(self, coming: InboundConnection, ship: ShipFrame) -> None:
        shipment = Shipment(
            version=ship.version,
            giver=NodeId(coming.sender),
            taker=self._node,
            excerpts=ship.excerpts,
            floors=ship.floors,
            age=ship.age,
        )
        if self._core.take_shipment(shipment, self._clock.monotonic()):
            coming.wire.send(ShippedFrame(ship.version))
            self._pump()


def _digest(token: str) -> str:
    return digest(token).hex()
