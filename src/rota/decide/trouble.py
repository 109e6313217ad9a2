"""Trouble: how long a resource is kept from a node that could not keep it alive.

There are two times, and each failure in a row doubles both. The resource *rests*: the node does not get it at all, so
one that fails everywhere is not started again and again at full speed. After that the node is *avoided* for longer: it
gets the resource only if no other node can take it. What happened long ago is forgotten bit by bit.

Pure: `node.assignments` writes troubles down, the supervisor follows them.
"""

from datetime import datetime, timedelta

from rota.model.ids import NodeId, Revision
from rota.model.resource import NEVER, Trouble

FORGET = timedelta(minutes=30)
"""After so long without another, one strike less counts."""

LONGEST = timedelta(days=1)

FIRST_REST = timedelta(seconds=5)
LONGEST_REST = timedelta(minutes=5)
MOST = 12
"""Strikes that are counted; by then it is long enough."""


def again(before: Trouble | None, node: NodeId, now: datetime, why: str, epoch: Revision = NEVER) -> Trouble:
    """The trouble that a node has with a resource, now that it gives it back once more, at `epoch`."""
    strikes, since = 0, now
    if before is not None:
        strikes = max(0, before.strikes - max(timedelta(), now - before.at) // FORGET)
        since = (before.since or before.at) if strikes else now
    return Trouble(node=node, at=now, why=why, strikes=min(MOST, strikes + 1), since=since, epoch=epoch)


def kept_until(trouble: Trouble, avoid_for: timedelta) -> datetime:
    """Until when the resource is better placed elsewhere."""
    return trouble.at + min(LONGEST, avoid_for * (1 << min(MOST, trouble.strikes) - 1))


def rest(trouble: Trouble) -> timedelta:
    """How long the node does not get the resource at all, counted from when the leader saw the trouble."""
    return min(LONGEST_REST, FIRST_REST * (1 << min(MOST, trouble.strikes) - 1))
