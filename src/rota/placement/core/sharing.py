"""How many tasks of a group each node gets: by zones, by how well nodes suit, and by the policy.

It knows how full the fleet is, and seats nobody: a round takes the seats that it names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from rota.model.ids import NodeId
from rota.placement.core.demand import Demand
from rota.placement.core.fleet import FleetCapacity, Needs, Nodes, numbers
from rota.placement.core.shares import NodeOffer, Policy


class NodeChoice(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A node and why it was chosen; shared by all tasks it was chosen for."""

    number: int
    id: NodeId
    why: str


class DemandGroup(msgspec.Struct, frozen=True, eq=False):
    """What demands of one priority with equal needs share."""

    needs: Needs
    fit: Nodes
    """Where they should go: without the nodes to avoid."""

    fit_at_worst: Nodes
    tiers: tuple[Nodes, ...] = ()
    """All nodes by how well they suit, the best first; none if they are equal."""


class Row(msgspec.Struct, gc=False, eq=False):
    """A demand and what it has got so far. There are as many as demands, hence a struct that collectors pass over."""

    demand: Demand
    group: DemandGroup
    wanted: int
    seats: tuple[NodeChoice, ...] = ()

    @property
    def lacks(self) -> int:
        """Replicas that are still missing."""
        return self.wanted - len(self.seats)

    @property
    def level(self) -> int:
        """Replicas it has."""
        return self.demand.level + len(self.seats)


Offers = dict[int, NodeOffer]
"""What nodes can take, in order of the nodes."""


class Sharing:
    """The shares of one round."""

    def __init__(self, fleet: FleetCapacity, policy: Policy, seed: int) -> None:
        self._fleet, self._policy, self._seed = fleet, policy, seed
        self.has_zones = len(set(fleet.zones)) > 1

    def shares(
        self, group: DemandGroup, count: int, want: int, held: Sequence[Row] = ()
    ) -> list[tuple[NodeChoice, int]]:
        """The seats each node has for `count` rows, zone by zone; `held` are those rows, if some nodes hold them."""
        offers = self._offers(group, count, held)
        apart = [there for row in held if (there := self.zones_of(row))] if self.has_zones else []
        if want <= count and not apart:  # one replica each: there is nothing to keep apart
            return list(self._tier_after_tier(group, offers, want, ""))
        zones = self._by_zone(offers)
        wants = [want]
        if len(zones) > 1:
            replicas = [[there[zone] for there in apart if zone in there] for zone in zones]
            wants = self._zone_parts(group, count, want, list(zones.values()), replicas)
        return [
            share
            for (zone, inside), part in zip(zones.items(), wants, strict=False)
            for share in self._tier_after_tier(group, inside, part, f", in zone {zone}" if zone else "")
        ]

    def _offers(self, group: DemandGroup, count: int, held: Sequence[Row]) -> Offers:
        """What each node that fits and has room can take of `count` rows."""
        fleet, cost = self._fleet, group.needs.cost
        holding = Counter(chain.from_iterable(map(self.nodes_of, held)))
        offers: Offers = {}
        for number in numbers(group.fit & fleet.with_room(cost)):
            free, place = fleet.free[number], fleet.places[number]
            cap = min(free // cost, count - holding.get(number, 0))
            if cap > 0:
                offers[number] = NodeOffer(cap, free, max(place.slots, place.used) - free, place.load, cost)
        return offers

    def _by_zone(self, offers: Offers) -> dict[str, Offers]:
        """The same by zone, in order of their names."""
        zones: dict[str, Offers] = {}
        for number, offer in offers.items():
            zones.setdefault(self._fleet.zones[number], {})[number] = offer
        return dict(sorted(zones.items()))

    def _zone_parts(
        self, group: DemandGroup, count: int, want: int, zones: Sequence[Offers], held: Sequence[Sequence[int]]
    ) -> list[int]:
        """Each zone's part of `want` for `count` rows: one for each row before a second in the same zone for any.

        Within that it is as the nodes suit and the policy divides, over all zones. `held` says, zone by zone, how many
        replicas there are of the rows that have some there.
        """
        room = [sum(offer.cap for offer in offers.values()) for offers in zones]
        given = [0] * len(zones)
        depth = 0
        while sum(given) < want and given != room:
            depth += 1
            deep = [count * depth - sum(min(there, depth) for there in counts) for counts in held]
            caps = [min(all_, deep_) - part for all_, deep_, part in zip(room, deep, given, strict=True)]
            left = [self._left_after(group, offers, part) for offers, part in zip(zones, given, strict=True)]
            more = self._divided(group, want - sum(given), left, caps)
            given = [part + extra for part, extra in zip(given, more, strict=True)]
        return given

    def _left_after(self, group: DemandGroup, offers: Offers, part: int) -> Offers:
        """What the nodes of a zone can still take when they have got a part."""
        if not part:
            return offers
        taken = {seat.number: share for seat, share in self._tier_after_tier(group, offers, part, "")}
        return {number: offer.less(taken.get(number, 0)) for number, offer in offers.items()}

    def _divided(self, group: DemandGroup, want: int, zones: Sequence[Offers], caps: Sequence[int]) -> list[int]:
        """`want` divided among zones within their caps: to each as much as its nodes would get without zones."""
        parts = [0] * len(zones)
        able = [place for place, cap in enumerate(caps) if cap > 0]
        while able and want > 0:
            wished = self._without_zones(group, want, {place: zones[place] for place in able})
            capped = [place for place in able if wished[place] >= caps[place]]
            if not capped:
                for place in able:
                    parts[place] = wished[place]
                break
            # What a zone cannot take goes to the others, so none that was capped can come below its cap again.
            for place in capped:
                parts[place] = min(caps[place], want)
                want -= parts[place]
            able = [place for place in able if place not in capped]
        return parts

    def _without_zones(self, group: DemandGroup, want: int, zones: Mapping[int, Offers]) -> Counter[int]:
        """What each of these zones would get of `want`, if its nodes were not in zones."""
        zone_of = {number: place for place, offers in zones.items() for number in offers}
        together = {number: zones[zone_of[number]][number] for number in sorted(zone_of)}
        wished: Counter[int] = Counter()
        for seat, share in self._tier_after_tier(group, together, want, ""):
            wished[zone_of[seat.number]] += share
        return wished

    def _tier_after_tier(
        self, group: DemandGroup, offers: Offers, want: int, where: str
    ) -> Iterator[tuple[NodeChoice, int]]:
        """Shares of these nodes, those that suit best first."""
        if not group.tiers:
            yield from self._shares_of(offers, want, where)
            return
        for rank, tier in enumerate(group.tiers, 1):
            suiting = {number: offer for number, offer in offers.items() if tier & self._fleet.bits[number]}
            for seat, share in self._shares_of(suiting, want, f"{where}, preferred {_ordinal(rank)}"):
                want -= share
                yield seat, share

    def _shares_of(self, offers: Offers, want: int, where: str) -> Iterator[tuple[NodeChoice, int]]:
        all_offers = list(offers.values())
        shares = self._policy.share(want, all_offers, self._seed + self._fleet.taken)
        free = sum(offer.free for offer in all_offers)
        for number, offer, share in zip(offers, all_offers, shares, strict=True):
            if share:
                why = self._policy.reason(offer, share, want, free) + where
                yield NodeChoice(number, self._fleet.places[number].id, why), share

    def nodes_of(self, row: Row) -> list[int]:
        """The nodes that hold a row or were chosen for it."""
        index = self._fleet.index
        nodes = [index[id] for id in row.demand.holders if id in index]
        for seat in row.seats:
            nodes.append(seat.number)
        return nodes

    def zones_of(self, row: Row) -> dict[str, int]:
        """How many replicas of a row are in each zone; one that is about to leave is in none."""
        gone = self._fleet.index.get(row.demand.leaving) if row.demand.leaving else None
        return self._fleet.count_zones(number for number in self.nodes_of(row) if number != gone)


def _ordinal(rank: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(rank, f"{rank}th")
