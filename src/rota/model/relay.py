"""The relay map: which relay the messages of a resource meet at.

The leader writes it as one record. A resource's home is found by rendezvous hashing: every relay has a number for every
resource, and the greatest wins. So a relay that joins takes resources from all others and no others move, and those of
one that leaves are shared out. Everybody who has the same map gives the same answer.

`before` makes a change of the map a planned move. It names the homes of the version before that are still there: what
they know of their resources' messages is shipped to the new homes, who hold messages back until it has come.
"""

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b

from rota.model.ids import NodeId


@dataclass(frozen=True, kw_only=True)
class RelayMap:
    """One version of it."""

    version: int
    nodes: tuple[NodeId, ...]
    """The homes of resources; sorted."""

    before: tuple[NodeId, ...] = ()
    """The homes in the version before, as far as they live; empty if nothing has to be waited for."""

    def home(self, kind: str, resource: str) -> NodeId | None:
        """Whose relay the messages of a resource meet at; None if there is no relay."""
        return home(self.nodes, kind, resource)

    def givers(self, node: NodeId) -> frozenset[NodeId]:
        """From whom a node gets resources in this version."""
        return frozenset(giver for giver in self.before if node in self.takers(giver))

    def takers(self, node: NodeId) -> frozenset[NodeId]:
        """To whom a node gives resources in this version."""
        if node not in self.before:
            return frozenset()
        if node not in self.nodes:
            return frozenset(self.nodes)
        return frozenset(self.nodes).difference(self.before)


def home(nodes: Collection[NodeId], kind: str, resource: str) -> NodeId | None:
    """The node among `nodes` with the greatest number for a resource."""
    place = f"{kind}/{resource}".encode()
    return max(nodes, key=lambda node: (_weight(node, place), node), default=None)


def _weight(node: NodeId, place: bytes) -> bytes:
    return blake2b(place, digest_size=8, key=blake2b(node.encode(), digest_size=16).digest()).digest()
