"""Shares: how many of some new tasks each node gets.

A policy divides `want` among offers and never gives a node more than its cap; the shares add up to exactly
min(want, sum of caps). What is left after dividing goes out one by one in a fixed order, so that equal input gives
equal shares. Who gets which task is not decided here: see `round`.

`weighted` is seed 000's rule without its rounding up: proportional to free slots, by largest remainder. The other four
level something: `least-loaded` the slots in use, `most-free` the slots left, `round-robin` the number of new tasks,
and `random` nothing.

Nothing here remembers. Round-robin goes on where it left off because its turn is counted from the slots in use, which
grow with each task; random draws from the same number.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec


class NodeOffer(msgspec.Struct, frozen=True, gc=False):
    """What one node can take of some equal tasks. A struct, since each round makes one per node."""

    cap: int
    """At most this many."""

    free: int
    used: int
    """In slots, both."""

    load: float = 0.0
    cost: int = 1
    """Slots per task."""

    def less(self, tasks: int) -> "NodeOffer":
        """What is left of it after this many tasks."""
        slots = tasks * self.cost
        return NodeOffer(self.cap - tasks, self.free - slots, self.used + slots, self.load, self.cost)


Share = Callable[[int, Sequence[NodeOffer], int], list[int]]
"""`want`, the offers in order of the nodes' ids, and a number that differs from round to round: each one's share."""


class Policy(msgspec.Struct, frozen=True):
    """A way to divide tasks among nodes."""

    name: str
    share: Share
    why: str
    """Template of the reason for a node, with its figures to fill in."""

    def reason(self, offer: NodeOffer, share: int, want: int, free: int) -> str:
        """Why a node got its share of `want`, when all offers together had `free` slots."""
        return f"{self.name}: " + self.why.format(
            share=share, want=want, free=offer.free, all_free=free, used=offer.used, load=offer.load
        )


def weighted(want: int, offers: Sequence[NodeOffer], turn: int) -> list[int]:
    """Proportional to free slots, by largest remainder."""
    del turn
    return largest_remainder(want, [offer.free for offer in offers], [offer.cap for offer in offers])


def least_loaded(want: int, offers: Sequence[NodeOffer], turn: int) -> list[int]:
    """Each task to the node with the fewest slots in use, then to the one with the lowest load score."""
    del turn
    return level([offer.used for offer in offers], want, offers, _idlest_first(offers))


def most_free(want: int, offers: Sequence[NodeOffer], turn: int) -> list[int]:
    """Each task to the node with the most free slots, then to the one with the lowest load score."""
    del turn
    return level([-offer.free for offer in offers], want, offers, _idlest_first(offers))


def round_robin(want: int, offers: Sequence[NodeOffer], turn: int) -> list[int]:
    """One to each node in turn."""
    count = len(offers)
    return level([0] * count, want, offers, sorted(range(count), key=lambda place: (place - turn) % count))


def by_lot(want: int, offers: Sequence[NodeOffer], turn: int) -> list[int]:
    """Each task to any node that has room."""
    shares = [0] * len(offers)
    able = [place for place, offer in enumerate(offers) if offer.cap > 0]
    state = turn
    for _ in range(want):
        if not able:
            break
        state += 1
        drawn = scramble(state) % len(able)
        place = able[drawn]
        shares[place] += 1
        if shares[place] == offers[place].cap:
            able[drawn] = able[-1]
            able.pop()
    return shares


WEIGHTED = Policy("weighted", weighted, "{share} of {want} for {free} of {all_free} free slots")

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            WEIGHTED,
            Policy("least-loaded", least_loaded, "{used} slots in use, load {load:.2f}"),
            Policy("most-free", most_free, "{free} slots free, load {load:.2f}"),
            Policy("round-robin", round_robin, "{share} of {want} in turn"),
            Policy("random", by_lot, "{share} of {want} by lot"),
        )
    }
)


def largest_remainder(want: int, weights: Sequence[int], caps: Sequence[int]) -> list[int]:
    """`want` divided in proportion to the weights and within the caps; what is left over by the largest remainder."""
    shares = [0] * len(weights)
    able = [place for place, weight in enumerate(weights) if weight > 0 and caps[place] > 0]
    while able and want > 0:
        whole = sum(weights[place] for place in able)
        capped = [place for place in able if want * weights[place] >= caps[place] * whole]
        if not capped:
            break
        # Who is capped leaves more to the others, so nobody who was capped can come below the cap again.
        for place in capped:
            given = min(caps[place], want)
            shares[place] = given
            want -= given
        able = [place for place in able if not shares[place]]
    if not able or want <= 0:
        return shares
    for place in able:
        shares[place] = want * weights[place] // whole
    left = want - sum(shares[place] for place in able)
    by_remainder = sorted(able, key=lambda place: (-(want * weights[place] % whole), place))
    for place in by_remainder[:left]:
        shares[place] += 1
    return shares


def level(heights: Sequence[int], want: int, offers: Sequence[NodeOffer], ties: Sequence[int]) -> list[int]:
    """Shares when the lowest node always gets the next task: all rise to one level, and `ties` orders the rest."""
    want = min(want, sum(offer.cap for offer in offers))
    if want <= 0:
        return [0] * len(offers)

    def below(line: int) -> list[int]:
        return [
            min(offer.cap, max(0, -((height - line) // offer.cost)))
            for height, offer in zip(heights, offers, strict=True)
        ]

    low = min(heights)
    high = low + max(offer.cap * offer.cost for offer in offers) + max(heights) - low + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum(below(middle)) <= want else (low, middle)
    shares = below(low)
    left = want - sum(shares)
    for place in ties:
        offer = offers[place]
        if left and shares[place] < offer.cap and heights[place] + shares[place] * offer.cost == low:
            shares[place] += 1
            left -= 1
    return shares


def scramble(number: int) -> int:
    """A pseudo-random number, the same for the same `number` (splitmix64)."""
    mask = (1 << 64) - 1
    number = (number * 0x9E3779B97F4A7C15) & mask
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
    return number ^ (number >> 31)


def _idlest_first(offers: Sequence[NodeOffer]) -> list[int]:
    return sorted(range(len(offers)), key=lambda place: (offers[place].load, place))
