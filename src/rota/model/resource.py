"""Resources as the store has them: what is to be covered, how its kind is covered, and how it is.

Whoever adds a resource (the API, the command line, a source) owns its record; nodes write the kinds their app declares;
the leader alone writes statuses and assignments.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rota.model.ids import NodeId


@dataclass(frozen=True, kw_only=True)
class KindRecord:
    """A kind of resource, as an app declares it."""

    name: str
    app: str
    replicas: int
    exclusive: bool
    runs_alone: bool
    silent_after: timedelta
    start_within: timedelta
    labels: dict[str, str] = field(default_factory=dict)
    """What nodes must be labelled with to hold such a task."""


@dataclass(frozen=True, kw_only=True)
class ResourceRecord:
    """One thing to keep covered."""

    uid: str
    """Never changes, and no other resource ever has it."""

    kind: str
    id: str
    """Its name; with the kind it is the key."""

    created: datetime
    origin: str = "api"
    """Who added it: `api`, `source` or `config`."""

    spec: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    """Higher is covered first when there are too few slots."""

    replicas: int | None = None
    """Tasks for this one; None: as its kind says."""

    cost: int = 1
    """Slots that each of its tasks takes."""

    labels: dict[str, str] = field(default_factory=dict)
    """What its nodes must be labelled with, beside what its kind says."""

    pin: NodeId | None = None
    """The only node that may hold it."""


@dataclass(frozen=True, kw_only=True)
class ResourceStatus:
    """How a resource is covered. The first four fields are named as seed 001 named them."""

    ID: str
    Name: str
    AssignedNode: str
    """`id|address` of each node that holds it, joined by commas; empty if none does."""

    CreationTime: int
    """In nanoseconds since 1970."""

    kind: str
    replicas: int
    """How many tasks it should have."""

    assigned: int
    """How many it has."""

    pending: str = ""
    """Why it has fewer, if it has."""

    refusals: dict[str, str] = field(default_factory=dict)
    """Why nodes do not take it, by node; some of them."""

    chosen: dict[str, str] = field(default_factory=dict)
    """Why the nodes that hold it were chosen, by node."""


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """What a task saved for the one that comes after it."""

    epoch: int
    """Under which it was saved."""

    state: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A node could not keep a resource's task alive; the resource is better placed elsewhere for a while."""

    node: NodeId
    at: datetime
    why: str


@dataclass(frozen=True, kw_only=True)
class Cordon:
    """A node that gets no new tasks."""

    node: NodeId
    since: datetime
    why: str = ""
