"""The fleet during one round: which nodes fit some needs, and how many slots each has left.

Sets of nodes are whole numbers, with the bit of each node's place in the order of the ids. So "fits, is open, has
room and does not hold it" is three operations for a thousand nodes, and every label and kind is looked up once per
round. The price: it reads less well than sets, and is kept in here and in `round`.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.placement.core.demand import Place, Tag

Nodes = int
"""A set of nodes: bit n is the node at place n."""

ZONE = "zone"
"""The label that says which nodes fail together."""


@dataclass(frozen=True, eq=False)
class Needs:
    """What demands of one class have in common: the nodes they can go to, and what they take there.

    One object per class and round, so that looking something up by it is cheap.
    """

    kind: str
    cost: int
    pin: NodeId | None
    avoid: frozenset[NodeId]
    resting: frozenset[NodeId]
    labels: tuple[tuple[str, str], ...]
    prefer: tuple[tuple[str, str], ...] = ()
    near: tuple[Tag, ...] = ()
    apart: tuple[Tag, ...] = ()
    prefer_near: tuple[Tag, ...] = ()
    prefer_apart: tuple[Tag, ...] = ()
    tags: tuple[Tag, ...] = ()
    """Its own tags that some demand names."""

    about: tuple[Hashable, ...] = ()
    """What users' rules look at."""

    @property
    def is_tied(self) -> bool:
        """Does it matter what else its nodes hold?"""
        return bool(self.near or self.apart or self.prefer_near or self.prefer_apart or self.tags)


class FleetCapacity:
    """Nodes in order of their ids, and what they have left."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = sorted(places, key=attrgetter("id"))
        self.index: Mapping[NodeId, int] = {place.id: number for number, place in enumerate(self.places)}
        if len(self.index) < len(self.places):
            raise Invalid("a node is there twice among the places; give each once")
        self.bits = [1 << number for number in range(len(self.places))]
        self.everywhere: Nodes = (1 << len(self.places)) - 1
        self.free = [_free(place) for place in self.places]
        self.zones = [place.labels.get(ZONE, "") for place in self.places]
        self.taken = sum(place.used for place in self.places)
        """Slots in use, those of this round included."""

        self.opened = self.where([place.is_open for place in self.places])
        self._with_kind: dict[str, Nodes] = {}
        self._with_label: dict[tuple[str, str], Nodes] = {}
        self._with_room: dict[int, Nodes] = {}
        self._in_zone: dict[str, Nodes] = {}
        self._by_free: dict[int, Nodes] | None = None
        """Nodes by their free slots; made when `roomiest` is first called."""

        self._depths: list[int] = []
        """The keys of `_by_free`, ascending."""

    def fitting(self, needs: Needs) -> Nodes:
        """Open nodes that have all that is needed, whether they have room or not."""
        nodes = self.eligible(needs) & self.opened
        if needs.resting:
            nodes &= ~self.set_of(needs.resting)
        return nodes & self.set_of((needs.pin,)) if needs.pin is not None else nodes

    def eligible(self, needs: Needs) -> Nodes:
        """Nodes with the kind and the labels."""
        nodes = self.with_kind(needs.kind)
        for name, value in needs.labels:
            nodes &= self.with_label(name, value)
        return nodes

    def with_kind(self, kind: str) -> Nodes:
        """Nodes whose app declares the kind."""
        if kind not in self._with_kind:
            self._with_kind[kind] = self.where([kind in place.kinds for place in self.places])
        return self._with_kind[kind]

    def with_label(self, name: str, value: str) -> Nodes:
        """Nodes with the label."""
        if (name, value) not in self._with_label:
            self._with_label[name, value] = self.where([place.labels.get(name) == value for place in self.places])
        return self._with_label[name, value]

    def with_room(self, cost: int) -> Nodes:
        """Nodes with at least `cost` slots left."""
        if cost not in self._with_room:
            self._with_room[cost] = self.where([free >= cost for free in self.free])
        return self._with_room[cost]

    def in_zones(self, zones: Iterable[str]) -> Nodes:
        """Nodes in any of these zones; those without the label are in the zone of no name."""
        nodes = 0
        for zone in zones:
            if zone not in self._in_zone:
                self._in_zone[zone] = self.where([zone == other for other in self.zones])
            nodes |= self._in_zone[zone]
        return nodes

    def count_zones(self, numbers: Iterable[int]) -> dict[str, int]:
        """How many of these nodes are in each zone."""
        there: dict[str, int] = {}
        for number in numbers:
            zone = self.zones[number]
            there[zone] = there.get(zone, 0) + 1
        return there

    def bits_of(self, numbers: Iterable[int]) -> Nodes:
        """These nodes as a set."""
        nodes = 0
        for number in numbers:
            nodes |= self.bits[number]
        return nodes

    def roomiest(self, nodes: Nodes) -> int:
        """The first of those of the nodes that have most free slots."""
        if self._by_free is None:
            self._by_free = {}
            for number, free in enumerate(self.free):
                self._by_free[free] = self._by_free.get(free, 0) | self.bits[number]
            self._depths = sorted(self._by_free)
        for free in reversed(self._depths):
            if hit := self._by_free[free] & nodes:
                return (hit & -hit).bit_length() - 1
        raise AssertionError("nobody asks for the roomiest of no nodes")

    def take(self, number: int, slots: int) -> None:
        """Slots of a node are taken."""
        if self._by_free is not None:
            self._sink(self._by_free, number, slots)
        free = self.free[number] = self.free[number] - slots
        assert free >= 0, "more was taken than was there"
        self.taken += slots
        for cost, nodes in self._with_room.items():
            if free < cost and nodes & self.bits[number]:
                self._with_room[cost] = nodes & ~self.bits[number]

    def restore(self, free: Sequence[int]) -> None:
        """Go back to what was left earlier in this round."""
        self.taken -= sum(free) - sum(self.free)
        self.free = list(free)
        self._with_room.clear()
        self._by_free = None

    def set_of(self, ids: Iterable[NodeId]) -> Nodes:
        """The nodes of these ids, as far as they are here."""
        nodes = 0
        for id in ids:
            number = self.index.get(id)
            if number is not None:
                nodes |= self.bits[number]
        return nodes

    def _sink(self, by_free: dict[int, Nodes], number: int, slots: int) -> None:
        """File a node under its new number of free slots."""
        free, bit = self.free[number], self.bits[number]
        by_free[free] &= ~bit
        if not by_free[free]:
            del by_free[free]
            del self._depths[bisect_left(self._depths, free)]
        if free - slots not in by_free:
            by_free[free - slots] = 0
            insort(self._depths, free - slots)
        by_free[free - slots] |= bit

    def where(self, truths: Sequence[bool]) -> Nodes:
        """The nodes for which the predicate is true, in their order."""
        return int("".join("1" if truth else "0" for truth in reversed(truths)) or "0", 2)


def _free(place: Place) -> int:
    """Slots that may be given out."""
    free = max(0, place.slots - place.used)
    return free if place.ramp is None else min(free, place.ramp)


def numbers(nodes: Nodes) -> list[int]:
    """The places of the nodes, ascending."""
    return [number for number, digit in enumerate(reversed(f"{nodes:b}")) if digit == "1"]
