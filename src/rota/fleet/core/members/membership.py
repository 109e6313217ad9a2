"""Membership: may a node join under its name, and which nodes joined and left.

Pure. `fleet.members.session` joins, `fleet.members.roster` reports.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Node


class Join(msgspec.Struct, frozen=True):
    """The name is free."""


class TakeOver(msgspec.Struct, frozen=True):
    """The name is held by an earlier life of this very node, which is dead: end its lease, then join."""

    lease: LeaseId


class WaitFor(msgspec.Struct, frozen=True):
    """The name is held by another node: wait for its lease to end."""

    holder: Node


Admission: TypeAlias = Join | TakeOver | WaitFor


def admission(holder: Node | None, home: str, host: str) -> Admission:
    """How the node with the data folder `home` gets its name, which `holder` has now.

    The folder is locked by the process that uses it; so an earlier holder with this folder on this host is dead. A copy
    of the folder on another host proves nothing.
    """
    if holder is None:
        return Join()
    if (holder.home, holder.host) == (home, host):
        return TakeOver(holder.lease)
    return WaitFor(holder)


class MembershipChanges(msgspec.Struct, frozen=True):
    """The nodes that joined and left between two readings of the fleet."""

    joined: tuple[NodeId, ...] = ()
    left: tuple[NodeId, ...] = ()
    restarted: tuple[NodeId, ...] = ()


def moves(before: Mapping[NodeId, SessionId], after: Mapping[NodeId, SessionId]) -> MembershipChanges:
    """The difference, each in order of the names."""
    both = before.keys() & after.keys()
    return MembershipChanges(
        joined=tuple(sorted(after.keys() - before.keys())),
        left=tuple(sorted(before.keys() - after.keys())),
        restarted=tuple(sorted(node for node in both if before[node] != after[node])),
    )
