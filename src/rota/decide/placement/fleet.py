"""The fleet during one round: which nodes fit some needs, and how many slots each has left.

Sets of nodes are whole numbers, with the bit of each node's place in the order of the ids. So "fits, is open, has
room and does not hold it" is three operations for a thousand nodes, and every label and kind is looked up once per
round. The price: it reads less well than sets, and is kept in here and in `round`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rota.decide.placement.demand import Place
from rota.model.errors import Invalid
from rota.model.ids import NodeId

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
    labels: tuple[tuple[str, str], ...]


class Fleet:
    """Nodes in order of their ids, and what they have left."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = sorted(places, key=attrgetter("id"))
        self.index: Mapping[NodeId, int] = {place.id: number for number, place in enumerate(self.places)}
        if len(self.index) < len(self.places):
            raise Invalid("a node is there twice among the places; give each once")
        self.bits = [1 << number for number in range(len(self.places))]
        self.free = [max(0, place.slots - place.used) for place in self.places]
        self.zones = [place.labels.get(ZONE, "") for place in self.places]
        self.taken = sum(place.used for place in self.places)
        """Slots in use, those of this round included."""

        self.opened = self._where([place.is_open for place in self.places])
        self._with_kind: dict[str, Nodes] = {}
        self._with_label: dict[tuple[str, str], Nodes] = {}
        self._with_room: dict[int, Nodes] = {}
        self._in_zone: dict[str, Nodes] = {}

    def fitting(self, needs: Needs) -> Nodes:
        """Open nodes that have all that is needed, whether they have room or not."""
        if needs.pin is not None:
            return self.eligible(needs) & self.opened & self.set_of((needs.pin,))
        return self.eligible(needs) & self.opened

    def eligible(self, needs: Needs) -> Nodes:
        """Nodes with the kind and the labels."""
        nodes = self.with_kind(needs.kind)
        for name, value in needs.labels:
            nodes &= self.with_label(name, value)
        return nodes

    def with_kind(self, kind: str) -> Nodes:
        """Nodes whose app declares the kind."""
        if kind not in self._with_kind:
            self._with_kind[kind] = self._where([kind in place.kinds for place in self.places])
        return self._with_kind[kind]

    def with_label(self, name: str, value: str) -> Nodes:
        """Nodes with the label."""
        if (name, value) not in self._with_label:
            self._with_label[name, value] = self._where([place.labels.get(name) == value for place in self.places])
        return self._with_label[name, value]

    def with_room(self, cost: int) -> Nodes:
        """Nodes with so many slots left."""
        if cost not in self._with_room:
            self._with_room[cost] = self._where([free >= cost for free in self.free])
        return self._with_room[cost]

    def in_zones(self, zones: Iterable[str]) -> Nodes:
        """Nodes in any of these zones; those without the label are in the zone of no name."""
        nodes = 0
        for zone in zones:
            if zone not in self._in_zone:
                self._in_zone[zone] = self._where([zone == other for other in self.zones])
            nodes |= self._in_zone[zone]
        return nodes

    def take(self, number: int, slots: int) -> None:
        """Slots of a node are taken."""
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

    def set_of(self, ids: Iterable[NodeId]) -> Nodes:
        """The nodes of these ids, as far as they are here."""
        nodes = 0
        for id in ids:
            number = self.index.get(id)
            if number is not None:
                nodes |= self.bits[number]
        return nodes

    def _where(self, truths: Sequence[bool]) -> Nodes:
        return int("".join("1" if truth else "0" for truth in reversed(truths)) or "0", 2)


def numbers(nodes: Nodes) -> list[int]:
    """The places of the nodes, ascending."""
    return [number for number, digit in enumerate(reversed(f"{nodes:b}")) if digit == "1"]
