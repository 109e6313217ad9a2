"""Election: what a node that may lead should do about the leader key.

`stance` is level-triggered: it looks at the leader key as it is now, the node's own session, and whether its lease is
still valid. It is called again after every change, so a lost answer or a repeated event does no harm: a node whose own
attempt ended in Unknown finds itself in the key, or does not.

Pure. `fleet.leading.leader` carries the stance out.
"""

from typing import TypeAlias

import msgspec

from rota.model.ids import NodeId, SessionId, TermNumber
from rota.model.node import Leader


class Rest(msgspec.Struct, frozen=True):
    """Do nothing; `why` says what is missing."""

    why: str


class Stand(msgspec.Struct, frozen=True):
    """No node leads: try to become leader."""


class Follow(msgspec.Struct, frozen=True):
    """Another node leads."""

    leader: NodeId
    term: TermNumber


class Lead(msgspec.Struct, frozen=True):
    """I lead, in this term."""

    term: TermNumber


Stance: TypeAlias = Rest | Stand | Follow | Lead


class LeaderKeyState(msgspec.Struct, frozen=True):
    """The leader key as it is now."""

    leader: Leader
    term: TermNumber


def stance(seen: LeaderKeyState | None, me: SessionId, *, may_act: bool) -> Stance:
    """What the session `me` should do."""
    if not may_act:
        return Rest("my lease was not renewed in time")
    if seen is None:
        return Stand()
    if seen.leader.session == me:
        return Lead(seen.term)
    return Follow(seen.leader.node, seen.term)
