"""Where things live in the store.

One prefix per kind of record. The leader key is created and deleted, never rewritten: its create revision is the
term, and every write of the leader expects it.
"""

from rota.model.ids import Key, NodeId

NODES: Key = "/nodes/"
"""One key per member, under that member's lease."""

LEADER: Key = "/leader"
"""Who leads; under the leader's lease."""

ROSTER: Key = "/fleet/roster"
"""The nodes the leader last knew; from it a new leader can tell who left while nobody led."""


def node(node_id: NodeId) -> Key:
    """The key of one member."""
    return NODES + node_id
