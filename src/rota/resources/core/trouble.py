"""Trouble: how long a resource is kept from a node that could not keep it alive.

There are two times, and each failure in a row doubles both. The resource *rests*: the node does not get it at all, so
one that fails everywhere is not started again and again at full speed. After that the node is *avoided* for longer: it
gets the resource only if no other node can take it. What happened long ago is forgotten bit by bit.

Pure: `resources.node.assignments` writes troubles down, the supervisor follows them, and lists and the overview say the
last one.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from rota.model.ids import NodeId, Revision
from rota.resources.core.records import NEVER, ResourceStatus, Trouble

FORGET = timedelta(minutes=30)
"""After this long without another failure, one strike less counts."""

LONGEST = timedelta(days=1)

FIRST_REST = timedelta(seconds=5)
LONGEST_REST = timedelta(minutes=5)
RECENT = timedelta(minutes=10)
"""How long a list says that a resource was given back: two of the longest rests."""

GIVEN_BACK = "given back at"

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


def resting(trouble: Trouble, now: datetime, written: Revision) -> bool:
    """Does a resource rest from the node of this trouble, for a caller that does not know when the leader saw it?

    `now` is the store's clock, `written` when the resource's record was last written: if that was after the placement
    that failed, it is taken for fixed. The leader knows more: it also sees that a node has other code since.
    """
    is_fixed = trouble.epoch != NEVER and written > trouble.epoch
    return not is_fixed and now - trouble.at < rest(trouble)


def last(troubles: Iterable[Trouble]) -> Trouble | None:
    """The newest of them; of two at one moment that of the greater node."""
    return max(troubles, key=lambda each: (each.at, each.node), default=None)


def is_recent(trouble: Trouble, now: datetime) -> bool:
    """Is it so new, by the store's clock, that an operator should look?"""
    return now - trouble.at < RECENT


def why_failing(status: ResourceStatus, now: datetime) -> str:
    """Where and why tasks of a resource fail; empty if none does. `now` is the store's clock.

    If an older Rota leads, only what was given back last is known.
    """
    if status.failing is None:
        return sentence(status.given_back) if status.given_back and is_recent(status.given_back, now) else ""
    how_many = f"{status.running} of {status.assigned} tasks run" if status.not_running else ""
    return "; ".join(filter(None, (how_many, *(f"fails on {node}: {why}" for node, why in status.failing.items()))))


def sentence(trouble: Trouble) -> str:
    """The trouble as a sentence about the resource."""
    return f"node {trouble.node} gave it back at {_when(trouble)}"


def noted(trouble: Trouble) -> str:
    """The trouble as text to stand beside the node's name."""
    return f"{GIVEN_BACK} {_when(trouble)}"


def _when(trouble: Trouble) -> str:
    return f"{trouble.at:%Y-%m-%d %H:%M:%S %Z}, time {trouble.strikes} in a row: {trouble.why}"
