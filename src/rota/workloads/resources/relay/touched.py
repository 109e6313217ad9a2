"""Touched: where there is something to do since whoever runs the relay looked last, each place once."""

from typing import NamedTuple

from rota.workloads.resources.relay.held import Line
from rota.workloads.resources.relay.outlet import Outlet
from rota.workloads.resources.relay.peers import Peer


class Touched(NamedTuple):
    """Where something is to be done."""

    lines: list[Line]
    """With a new ack, or that should be read from now on, or not be read."""

    outlets: list[Outlet]
    """With something to publish, to write, to read or to let go."""

    peers: list[Peer]
    """With something to hand over."""


NOTHING_TOUCHED = Touched([], [], [])


class Touches:
    """What was touched since it was taken last."""

    def __init__(self) -> None:
        self._touched = Touched([], [], [])

    def line(self, line: Line) -> None:
        """There is something to do at a line."""
        if not line.is_touched:
            line.is_touched = True
            self._touched.lines.append(line)

    def outlet(self, outlet: Outlet) -> None:
        """There is something to do at an outlet."""
        if not outlet.is_touched:
            outlet.is_touched = True
            self._touched.outlets.append(outlet)

    def peer(self, peer: Peer) -> None:
        """There is something to do at a peer."""
        if not peer.is_touched:
            peer.is_touched = True
            self._touched.peers.append(peer)

    def take(self) -> Touched:
        """Where something is to be done, each once; it is not told again."""
        touched = self._touched
        if not (touched.lines or touched.outlets or touched.peers):
            return NOTHING_TOUCHED  # so it is every other time: who asks does so until there is nothing
        self._touched = Touched([], [], [])
        for line in touched.lines:
            line.is_touched = False
        for outlet in touched.outlets:
            outlet.is_touched = False
        for peer in touched.peers:
            peer.is_touched = False
        return touched
