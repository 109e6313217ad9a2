"""Load: how busy a node is, as one number, and which node is the idlest.

The score goes from 0, idle, to 100, busy. The processors make 64 % of it, used executors 32 %, memory 4 %; each part is
a share from 0 to 1, so that a full node has 100 whatever its size. (Seed 004 says the same and computes something else:
there the weight of executors depends on their number.)

Shares are smoothed before they are weighed: a moment's peak should not send the work elsewhere. `fleet.members.load`
measures.
"""

import math
from collections.abc import Iterable
from datetime import timedelta

import msgspec

from rota.model.ids import NodeId

CPU, EXECUTORS, MEMORY = 0.64, 0.32, 0.04
"""What each share weighs."""

SPAN = timedelta(seconds=5)
"""The time constant of the smoothing: a value this long ago counts a third."""

STEP = 1.0
"""Points by which a score must have changed to be written again."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a node is in use, each from 0 to 1."""

    cpu: float
    executors: float
    memory: float


class LoadCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the search for the idlest sees it."""

    node: NodeId
    score: float
    free: int
    """Executors that are free."""

    refusal: str | None = None
    """Why it is not available; None if it is."""


class NoneIdle(msgspec.Struct, frozen=True):
    """No node is available, with each node's reason."""

    refusals: dict[NodeId, str]


def score(shares: Shares) -> float:
    """The load score, with two decimals."""
    parts = CPU * _share(shares.cpu) + EXECUTORS * _share(shares.executors) + MEMORY * _share(shares.memory)
    return round(100 * parts, 2)


def smoothed(before: Shares | None, now: Shares, elapsed: timedelta) -> Shares:
    """The shares with what was `before` fading out; the first ones as they are."""
    if before is None:
        return now
    fresh = 1 - math.exp(-max(elapsed, timedelta()) / SPAN)

    def mixed(old: float, new: float) -> float:
        return old + fresh * (new - old)

    return Shares(
        cpu=mixed(before.cpu, now.cpu),
        executors=mixed(before.executors, now.executors),
        memory=mixed(before.memory, now.memory),
    )


def has_moved(told: float | None, now: float) -> bool:
    """Has the score changed enough to be written again?"""
    return told is None or abs(now - told) >= STEP


def idlest(candidates: Iterable[LoadCandidate]) -> LoadCandidate | NoneIdle:
    """The node with the lowest score; of equal ones that with most free executors, then the lowest id."""
    seen = sorted(candidates, key=lambda each: (each.score, -each.free, each.node))
    found = next((each for each in seen if each.refusal is None), None)
    return found or NoneIdle({each.node: each.refusal for each in seen if each.refusal})


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
