"""Touched: the places where there is something to do since the owner of the relay last asked, each once.

Lines are touched by the acks of what was handed over on them, and when the room for their messages fills up or frees
up.
"""

from typing import NamedTuple

from rota.relay.core.held import HeldMessage, InboundBatch, InboundLine, MemoryBudget
from rota.relay.core.outlet import Outlet
from rota.relay.core.peers import PeerRelay


class Touched(NamedTuple):
    """The places where something is to be done."""

    lines: list[InboundLine]
    """Lines with a new ack, or that should start or stop being read."""

    outlets: list[Outlet]
    """Outlets with something to publish, to write, to read or to delete."""

    peers: list[PeerRelay]
    """With something to hand over."""


NOTHING_TOUCHED = Touched([], [], [])


class Touches:
    """Collects the touched places until they are taken, and applies what touches lines."""

    def __init__(self) -> None:
        self._touched = Touched([], [], [])

    def line(self, line: InboundLine) -> None:
        """There is something to do at a line."""
        if not line.is_touched:
            line.is_touched = True
            self._touched.lines.append(line)

    def outlet(self, outlet: Outlet) -> None:
        """There is something to do at an outlet."""
        if not outlet.is_touched:
            outlet.is_touched = True
            self._touched.outlets.append(outlet)

    def peer(self, peer: PeerRelay) -> None:
        """There is something to do at a peer."""
        if not peer.is_touched:
            peer.is_touched = True
            self._touched.peers.append(peer)

    def take(self) -> Touched:
        """The places where something is to be done, each once; a second call does not return them again."""
        touched = self._touched
        if not (touched.lines or touched.outlets or touched.peers):
            return NOTHING_TOUCHED  # every other call finds nothing: callers ask until there is nothing
        self._touched = Touched([], [], [])
        for line in touched.lines:
            line.is_touched = False
        for outlet in touched.outlets:
            outlet.is_touched = False
        for peer in touched.peers:
            peer.is_touched = False
        return touched

    # Acks

    def finish(self, held: HeldMessage, refusal: str | None = None) -> None:
        """A message has its outcome: report it to all batches that wait for it, with the reason if it is refused."""
        for batch in held.batches:
            if refusal is not None:
                batch.refuse(held.emission.message.id, refusal)
            batch.left -= 1  # as `done`, without a call for each message
            if not batch.left:
                self.go_on(batch.line)
        held.batches = []

    def done(self, batch: InboundBatch) -> None:
        """One more message of a batch has its outcome."""
        batch.left -= 1
        if not batch.left:
            self.go_on(batch.line)

    def go_on(self, line: InboundLine) -> None:
        """Ack the complete batches of a line."""
        if line.advance() and line.is_open:
            self.line(line)

    # Room

    def block(self, line: InboundLine, budget: MemoryBudget) -> None:
        """A line should not be read until there is room again."""
        if line.is_open and budget not in line.blockers:
            line.blockers.append(budget)
            budget.blocked.append(line)
            self.line(line)

    def resume(self, budget: MemoryBudget) -> None:
        """Let lines be read again, if there is room enough."""
        if not budget.blocked or not budget.is_low:
            return
        for line in budget.blocked:
            line.blockers.remove(budget)
            self.line(line)
        budget.blocked = []
