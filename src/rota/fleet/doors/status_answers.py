"""The answers about the state of the fleet."""

from datetime import datetime
from typing import Any

import msgspec

from rota.model.ids import NodeId, Revision


class LeaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads."""

    node: NodeId | None
    """The node; null if its record is not readable."""

    term: int
    """The number of its term."""

    session: str | None
    """The session of the node."""

    age_s: int | None
    """For how many seconds it has led."""

    broken: str | None = None
    """Why its record is not readable."""


class NodeFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why other nodes cannot call a node."""

    node: NodeId
    """The node."""

    why: str
    """The reason, and what to do about it."""


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, which nodes there are, and what they run."""

    as_of: datetime
    """The store's clock."""

    revision: Revision
    """The store's revision."""

    leader: LeaderStatus | None
    """Who leads; null if no node does."""

    nodes: list[dict[str, Any]]
    """The nodes, each with what its workers and its relay do."""

    apart: list[NodeFault]
    """What keeps nodes of several machines from calling each other."""

    failing: dict[str, str]
    """Resource → why its tasks keep failing; the first of them."""
