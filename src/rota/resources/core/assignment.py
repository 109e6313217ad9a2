"""An assignment: a task that a node has to run.

The leader writes it below the node's prefix; the revision of that commit is the task's epoch. The node runs the
difference to what it has, so a leader may die at any time: what it decided is in the store.
"""

from typing import Any

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId


@stored()
class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a resource, on one node."""

    kind: str
    """Name of the resource's declaration in the app."""

    resource: str
    slot: int
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    exclusive: bool = False
    cost: int = 1
    """Slots it takes on its node."""

    relieves: NodeId | None = None
    """The node whose task this one replaces; that task ends only when this node has reported that its own runs."""

    stopping: bool = False
    """The node stops the task and confirms by deleting this record; no other task may begin before that."""
