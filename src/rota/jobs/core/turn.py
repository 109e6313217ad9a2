"""Turn: which node goes first, so that not all nodes do the same thing.

All nodes see the same state and may all act on it. One of them, the feeder, acts at once; each other node waits its
turn, a step longer than the one before, and finds the work done. If the feeder is gone or slow, the next node does it.
Correctness does not depend on the order: a commit that comes second is refused.

The feeder of a minute is the node whose name, hashed together with that minute, is greatest, unless a node holds the
duty. The others follow by load, the least loaded first.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from rota.model.ids import NodeId

STEP = timedelta(milliseconds=250)
"""How much longer each node waits than the one before it."""


def feeder(nodes: Mapping[NodeId, float], now: datetime) -> NodeId | None:
    """The node that goes first in this minute if no node holds the duty."""
    minute = int(now.timestamp()) // 60
    return max(nodes, key=lambda node: _lot(minute, node), default=None)


def rank(me: NodeId, nodes: Mapping[NodeId, float], first: NodeId | None) -> int:
    """This node's place in the order: 0 goes first. `nodes` maps every node to its load score."""
    order = sorted(nodes, key=lambda node: (node != first, nodes[node], node))
    return order.index(me) if me in nodes else len(order)


@lru_cache(maxsize=10_000)  # all nodes of a large fleet: this is asked many times in a minute
def _lot(minute: int, node: NodeId) -> bytes:
    """The number by which a node is ordered in a minute."""
    return hashlib.blake2b(f"{minute} {node}".encode(), digest_size=8).digest()


def wait(me: NodeId, nodes: Mapping[NodeId, float], holder: NodeId | None, now: datetime) -> timedelta:
    """How long after something became due this node waits before it acts."""
    first = holder if holder in nodes else feeder(nodes, now)
    return STEP * rank(me, nodes, first)
