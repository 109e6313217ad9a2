"""What placement is asked and what it answers: places and demands in, binds and pendings out."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.resources.core.records import NO_AFFINITY, Affinity

Tag: TypeAlias = tuple[str, str]
"""A name and a value, by which resources speak of each other."""

NO_LABELS: Mapping[str, str] = MappingProxyType({})
"""Shared, because a round may bring 100,000 demands."""


class Place(msgspec.Struct, frozen=True):
    """A node as placement sees it."""

    id: NodeId
    slots: int
    used: int
    """Slots taken by the tasks assigned to it; more than `slots` after those were lowered."""

    labels: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    kinds: frozenset[str] = frozenset()
    """The kinds of resources its app declares."""

    is_open: bool = True
    """May it get new tasks? Not while it is cordoned or draining."""

    why_closed: str = ""
    load: float = 0.0
    """Its load score, 0 idle to 100 busy."""

    tags: Collection[Tag] = frozenset()
    """Tags of the resources it holds tasks of."""

    shuns: Collection[Tag] = frozenset()
    """Tags that some resource it holds must be apart from."""

    ramp: int | None = None
    """The most slots that may be given out now; None: all that are free."""


class Demand(msgspec.Struct, frozen=True):
    """A resource that misses replicas."""

    key: str
    """`kind/id`."""

    kind: str
    missing: int
    holders: frozenset[NodeId] = frozenset()
    """Nodes that hold it now; none of them gets a second replica."""

    avoid: frozenset[NodeId] = frozenset()
    """Nodes where it failed lately: taken only if no other node will do."""

    priority: int = 0
    cost: int = 1
    """Slots that each replica takes."""

    labels: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    """Labels that its nodes must have."""

    pin: NodeId | None = None
    """The only node that may hold it."""

    level: int = 0
    """Replicas it has already."""

    tags: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    affinity: Affinity = NO_AFFINITY
    spec: Mapping[str, Any] = msgspec.field(default_factory=lambda: NO_LABELS)
    """The spec that its function gets; for users' rules."""

    resting: frozenset[NodeId] = frozenset()
    """Nodes where it has just failed: never used, even if there is no other."""

    leaving: NodeId | None = None
    """The holder that ends its replica once another node runs it: its zone is not counted as occupied."""

    def __post_init__(self) -> None:
        if self.cost < 1:
            raise Invalid(f'resource "{self.key}": cost is {self.cost}; a task takes at least 1 slot')


class BindReplica(msgspec.Struct, frozen=True, gc=False):
    """One more replica goes to this node. A struct, since a round may make some 100,000 of them."""

    key: str
    node: NodeId
    why: str


class Pending(msgspec.Struct, frozen=True):
    """Replicas for which there is no node."""

    key: str
    missing: int
    why: str
    """What is in the way, and what would help."""

    refusals: Mapping[NodeId, str]
    """Why nodes do not take it, by node. Demands with equal constraints share one mapping, so the nodes that hold
    this very resource are not in it; for a pinned one it has the pinned node alone."""


class Placement(msgspec.Struct, frozen=True):
    """What a round decided, both in order of the keys."""

    binds: list[BindReplica]
    pending: list[Pending]
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Users' rules that raised an error, and which: they were left out where they did."""
