"""Ties: which nodes may hold what, given what they hold already.

Resources name each other by tags. For each tag that a demand names this keeps the nodes that hold a task with it, and
the nodes that hold a task that is to be apart from it; both grow as the round goes on. So a check for "near these,
apart from those, and no task there excludes it" is a few operations on sets of nodes, however many tasks there are.
"""

from collections.abc import Iterable

from rota.placement.core.demand import Place, Tag
from rota.placement.core.fleet import FleetCapacity, Needs, Nodes

Memory = tuple[dict[Tag, Nodes], dict[Tag, Nodes]]


class Ties:
    """Tags on nodes, those of this round included."""

    def __init__(self, fleet: FleetCapacity) -> None:
        self._fleet = fleet
        self._tagged: dict[Tag, Nodes] = {}
        self._shunned: dict[Tag, Nodes] = {}

    def tagged(self, tag: Tag) -> Nodes:
        """Nodes that hold a task with the tag."""
        if tag not in self._tagged:
            self._tagged[tag] = self._fleet.where([tag in place.tags for place in self._fleet.places])
        return self._tagged[tag]

    def shunned(self, tag: Tag) -> Nodes:
        """Nodes that hold a task that is to be apart from the tag."""
        if tag not in self._shunned:
            self._shunned[tag] = self._fleet.where([tag in place.shuns for place in self._fleet.places])
        return self._shunned[tag]

    def allowed(self, needs: Needs) -> Nodes:
        """Nodes that the tags of other tasks leave open to these needs."""
        nodes = self._fleet.everywhere
        for tag in needs.near:
            nodes &= self._near(tag, needs)
        for tag in needs.apart:
            nodes &= ~self.tagged(tag)
        for tag in needs.tags:
            nodes &= ~self.shunned(tag)
        return nodes

    def preferred(self, needs: Needs, nodes: Nodes) -> Nodes:
        """Those of the nodes that meet the wishes, one wish after the other, as far as some do."""
        for tag in needs.prefer_near:
            nodes = nodes & self.tagged(tag) or nodes
        for tag in needs.prefer_apart:
            nodes = nodes & ~self.tagged(tag) or nodes
        return nodes

    def note(self, needs: Needs, number: int) -> None:
        """A task with these needs has got a node."""
        bit = self._fleet.bits[number]
        for tag in needs.tags:
            self._tagged[tag] = self.tagged(tag) | bit
        for tag in needs.apart:
            self._shunned[tag] = self.shunned(tag) | bit

    def remember(self) -> Memory:
        """The present state, for `restore`."""
        return dict(self._tagged), dict(self._shunned)

    def restore(self, memory: Memory) -> None:
        """Go back to what was remembered earlier in this round."""
        self._tagged, self._shunned = dict(memory[0]), dict(memory[1])

    def refusal(self, needs: Needs, place: Place) -> str:
        """Why a node is not for these needs; empty if it is."""
        bit = self._fleet.bits[self._fleet.index[place.id]]
        for tag in needs.near:
            if not self._near(tag, needs) & bit:
                return f"it holds nothing with the tag {shown([tag])}, which this is to be near to"
        for tag in needs.apart:
            if self.tagged(tag) & bit:
                return f"it holds something with the tag {shown([tag])}, which this is to be apart from"
        for tag in needs.tags:
            if self.shunned(tag) & bit:
                return f"it holds something that is to be apart from the tag {shown([tag])}"
        return ""

    def _near(self, tag: Tag, needs: Needs) -> Nodes:
        there = self.tagged(tag)
        # A resource that is to be near its own tag needs a first node.
        return there if there or tag not in needs.tags else self._fleet.everywhere


def shown(tags: Iterable[Tag]) -> str:
    """Tags as users write them."""
    return " and ".join(f"{name}={value}" for name, value in tags)
