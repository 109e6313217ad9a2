"""Configuration: one frozen section per part, checked when it is made.

Each part is handed its own section, never the whole. The texts below the fields are the reference.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.model.node import Role

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """One node."""

    store: str
    """URL of the fleet's store."""

    data: Path
    """Folder for what this node keeps on its own disk; one node per folder."""

    id: NodeId | None = None
    """Name of the node in the fleet; without one the data folder remembers a name made from the host's."""

    role: Role = Role.BOTH
    """What the node does: supervise, work, or both."""

    lease_ttl: timedelta = timedelta(seconds=10)
    """How long the fleet waits for a silent node before it gives its work to others."""

    def __post_init__(self) -> None:
        if self.id is not None:
            check_node_id(self.id)
        if not timedelta(seconds=2) <= self.lease_ttl <= timedelta(hours=1):
            raise Invalid(f"lease_ttl is {self.lease_ttl}; it must be from 2 s to 1 h")


@dataclass(frozen=True, kw_only=True)
class RetentionConfig:
    """How much history the store keeps for watchers that fell behind."""

    keep: timedelta = timedelta(minutes=10)
    """Changes younger than this stay."""

    every: timedelta = timedelta(minutes=1)
    """How often older ones are cleared away."""


def check_node_id(node: str) -> None:
    """Invalid unless `node` can be a node's name."""
    if not _NODE_ID.fullmatch(node):
        raise Invalid(
            f'node id "{node}": use letters, digits, ".", "_" and "-", at most 63, beginning with a letter or digit'
        )
