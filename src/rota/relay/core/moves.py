"""Moves: what a relay awaits from others, and owes them, since the map of homes changed.

A planned move ships the window: whoever gives resources away tells their new home which of their messages have been,
once it is done with those that it had begun. Until then the new home holds messages of these resources back. It does
not wait for ever, and not for the dead: repeats are then possible, with equal ids.

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
    """Seconds since when somebody may hold messages that were meant for the giver."""


class RelayMoves:
    """Those of one relay."""

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
        """Planned moves that were not finished: the map changed again, or what was waited for did not come."""

        self.waited_for: dict[str, Instant] = {}
        """Relays whose shipments have not come → until when they are waited for."""

        self._unfinished: dict[str, int] = {}
        """Taker → messages of its new resources that have no outcome here."""

    @property
    def are_going_on(self) -> bool:
        """Is a planned move not finished here? The map should not change before, if it can wait."""
        return bool(self.waited_for or self._unfinished or self.shipments)

    def follow(self, relay_map: RelayMap, now: Instant) -> None:
        """Go by this map from now on."""
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
        """A relay is gone: nothing is shipped to it."""
        self._unfinished.pop(node, None)
        self.shipments = [shipment for shipment in self.shipments if shipment.taker != node]

    # What is awaited

    def stop_waiting(self, givers: Iterable[str]) -> bool:
        """Nothing more is expected of these; whether anything was."""
        return bool([giver for giver in givers if self.waited_for.pop(giver, None) is not None])

    def late(self, now: Instant) -> list[str]:
        """Those that were waited for long enough."""
        if late := [giver for giver, until in self.waited_for.items() if until <= now]:
            self.cut_short += 1
        return late

    # What is owed

    def plan(self, now: Instant) -> None:
        """Ship what we know to those who take resources over, each when we are done with what we have of them."""
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
        """One message less of a resource that moves has no outcome."""
        taker = place.moves_to
        if taker is None or taker not in self._unfinished:
            return
        self._unfinished[taker] -= 1
        if not place.unpublished:
            place.moves_to = None
        if not self._unfinished[taker]:
            self._ship(NodeId(taker), now)

    def ship_again(self, taker: NodeId, now: Instant) -> None:
        """A way to another relay is open, perhaps to a new life of it: what it was shipped it may have forgotten.

        Without this one that was started again would wait for a shipment that its earlier life has taken.
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
