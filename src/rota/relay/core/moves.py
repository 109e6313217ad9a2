"""Moves: what a relay waits for from others, and must ship to them, since the relay map changed.

A planned move ships the window: once the giver of a resource is done with the messages it had begun, it sends the new
home the ids of the messages it remembers. Until then the new home holds messages of these resources back. It waits
`hold` seconds at most, and not for dead relays: repeats are then possible, with equal ids.

Where messages go meanwhile is decided by the relay (`core`).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from rota.model.ids import Instant, NodeId
from rota.relay.core.dedup import DedupWindow, Excerpt
from rota.relay.core.held import RelayedResource
from rota.relay.core.records import RelayMap, home
from rota.relay.core.senders import Senders


class Shipment(msgspec.Struct, frozen=True, kw_only=True):
    """What one relay knows of the resources that another takes over."""

    version: int
    giver: NodeId
    taker: NodeId
    excerpts: tuple[Excerpt, ...]
    floors: tuple[tuple[str, str, int], ...] = ()
    """Kind, resource and latest epoch, of exclusive resources."""

    age: float = 0.0
    """Seconds since when a sender may hold messages that were meant for the giver."""


class RelayMoves:
    """The moves of one relay."""

    def __init__(
        self,
        node: NodeId,
        hold: float,
        window: DedupWindow[Any],
        senders: Senders,
    ) -> None:
        """`hold`: seconds for which a shipment is waited for."""
        self._node, self._hold, self._window, self._senders = node, hold, window, senders
        self.places: dict[tuple[str, str], RelayedResource] = {}
        """By kind and id: the resources of which there were messages."""

        self.map: RelayMap | None = None
        self.shipments: list[Shipment] = []
        """To be sent to their takers, until those have taken them or are gone."""

        self.cut_short = 0
        """Planned moves that were not finished, because the map changed again or a shipment did not come in time."""

        self.waited_for: dict[str, Instant] = {}
        """Relays whose shipments have not come → until when they are waited for."""

        self._unfinished: dict[str, int] = {}
        """Taker → messages of its new resources that have no outcome here."""

    @property
    def are_going_on(self) -> bool:
        """Is a planned move unfinished here? If it can wait, the map should not change before the move is finished."""
        return bool(self.waited_for or self._unfinished or self.shipments)

    def follow(self, relay_map: RelayMap, now: Instant) -> None:
        """Use this map from now on."""
        if self.waited_for or self._unfinished:
            self.cut_short += 1
        self.map = relay_map
        self.waited_for = {giver: Instant(now + self._hold) for giver in sorted(relay_map.givers(self._node))}
        for place in self.places.values():
            self._locate(place)

    def place(self, kind: str, resource: str) -> RelayedResource:
        """A resource, as this relay sees it."""
        place = self.places.get((kind, resource))
        if place is None:
            place = self.places[kind, resource] = RelayedResource(self._window.tally(kind, resource))
            self._locate(place)
        return place

    def _locate(self, place: RelayedResource) -> None:
        """Find a resource's home in the map."""
        place.home = place.giver = place.moves_to = None
        if self.map is not None:
            kind, resource = place.tally.kind, place.tally.resource
            place.home = self.map.home(kind, resource)
            if self.waited_for:
                place.giver = home(self.map.before, kind, resource)

    def is_taker_gone(self, node: NodeId) -> None:
        """A relay is gone: nothing is shipped to it any more."""
        self._unfinished.pop(node, None)
        self.shipments = [shipment for shipment in self.shipments if shipment.taker != node]

    # What is waited for

    def stop_waiting(self, givers: Iterable[str]) -> bool:
        """Wait no longer for the shipments of these relays; returns whether any was waited for."""
        return bool([giver for giver in givers if self.waited_for.pop(giver, None) is not None])

    def late(self, now: Instant) -> list[str]:
        """The relays whose shipments did not come in time."""
        if late := [giver for giver, until in self.waited_for.items() if until <= now]:
            self.cut_short += 1
        return late

    # What is to be shipped

    def plan(self, now: Instant) -> None:
        """Plan the shipments to the new homes; each is sent once this relay has no message of those resources."""
        assert self.map is not None
        self.shipments = []
        self._unfinished = dict.fromkeys(sorted(self.map.takers(self._node)), 0)
        for place in self.places.values():
            if place.unpublished and place.home in self._unfinished:
                place.moves_to = place.home
                self._unfinished[place.home] += place.unpublished
        for taker in [taker for taker, count in self._unfinished.items() if not count]:
            self._ship(NodeId(taker), now)

    def has_outcome(self, place: RelayedResource, now: Instant) -> None:
        """One more message of a moving resource has its outcome."""
        taker = place.moves_to
        if taker is None or taker not in self._unfinished:
            return
        self._unfinished[taker] -= 1
        if not place.unpublished:
            place.moves_to = None
        if not self._unfinished[taker]:
            self._ship(NodeId(taker), now)

    def ship_again(self, taker: NodeId, now: Instant) -> None:
        """The line to another relay is open, perhaps to a new process there: ship again what that may have forgotten.

        Otherwise a restarted relay would wait for a shipment that its earlier process took.
        """
        is_taker = self.map is not None and taker in self.map.takers(self._node)
        if is_taker and taker not in self._unfinished and all(each.taker != taker for each in self.shipments):
            self._ship(taker, now)

    def taken(self, taker: NodeId, version: int) -> None:
        """A relay has taken what it was shipped for this version of the map."""
        self.shipments = [each for each in self.shipments if (each.taker, each.version) != (taker, version)]

    def _ship(self, taker: NodeId, now: Instant) -> None:
        assert self.map is not None
        self._unfinished.pop(taker, None)
        relay_map, floors, since = self.map, [], self._senders.since()
        for (kind, resource), place in self.places.items():
            if place.floor and place.home == taker:
                floors.append((kind, resource, place.floor))
        excerpts = self._window.export(lambda tally: relay_map.home(tally.kind, tally.resource) == taker, now)
        self.shipments.append(
            Shipment(
                version=relay_map.version,
                giver=self._node,
                taker=taker,
                excerpts=tuple(excerpts),
                floors=tuple(floors),
                age=0.0 if since is None else now - since,
            )
        )
