"""The tags that each node holds tasks of, and those that its tasks are to be apart from.

They are counted, so that it costs little when one task comes or goes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from rota.model.ids import Key, NodeId
from rota.placement.core import Tag


class TagCounts:
    """The tags of all assignments, by node."""

    def __init__(self) -> None:
        self.tags: defaultdict[NodeId, Counter[Tag]] = defaultdict(Counter)
        """Tags of the resources that each node holds tasks of."""

        self.shuns: defaultdict[NodeId, Counter[Tag]] = defaultdict(Counter)
        """Tags that those are to be apart from."""

        self._counted: dict[Key, tuple[NodeId, frozenset[Tag], frozenset[Tag]]] = {}
        """The tags that each assignment was counted with."""

    def add(self, key: Key, node: NodeId, tags: Iterable[Tag], shuns: Iterable[Tag]) -> None:
        """Take an assignment into account."""
        self._counted[key] = _, has, avoids = node, frozenset(tags), frozenset(shuns)
        self.tags[node].update(has)
        if avoids:
            self.shuns[node].update(avoids)

    def remove(self, key: Key) -> None:
        """An assignment is over, or has other tags."""
        node, tags, shuns = self._counted.pop(key)
        for counted, gone in ((self.tags[node], tags), (self.shuns[node], shuns)):
            counted.subtract(gone)
            for tag in gone:
                if not counted[tag]:
                    del counted[tag]
