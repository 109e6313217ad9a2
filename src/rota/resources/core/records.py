"""Resources as the store has them: the resource, its kind, and its status.

What adds a resource (the API, the command line, a source) owns its record; nodes write the kinds their app declares;
the leader alone writes statuses and assignments.

A source is queried by three records of its kind: `SyncRequest`, a request to query it now; `Query`, the leader's order
to a node; `Listing`, the result.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId, Revision, TermNumber
from rota.model.spec.option import DERIVED, Said

_SECOND = timedelta(seconds=1)

NEVER = Revision(0)
"""The revision before every commit."""


class Affinity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a resource asks of its nodes beyond required labels: preferred labels, and which other resources they hold.

    Other resources are named by tags. Every resource has the tag `kind`, and those it was given. A struct, so that a
    record has only what was asked.
    """

    prefer: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels that its nodes should have if possible."""

    near: dict[str, str] = msgspec.field(default_factory=dict)
    """Only on nodes that hold a task of a resource with each of these tags."""

    apart: dict[str, str] = msgspec.field(default_factory=dict)
    """Never on a node that holds a task of another resource with any of these tags, nor the other way round."""

    prefer_near: dict[str, str] = msgspec.field(default_factory=dict)
    """Preferably on nodes that hold a task of a resource with each of these tags."""

    prefer_apart: dict[str, str] = msgspec.field(default_factory=dict)
    """The same as wishes: kept where that is possible."""


NO_AFFINITY = Affinity()


def both(general: Affinity, own: Affinity) -> Affinity:
    """The affinity of a kind merged with that of one resource; for the same name the resource's value counts."""
    if own == NO_AFFINITY:
        return NO_AFFINITY if general == NO_AFFINITY else general  # one object, for there may be 100,000
    return Affinity(**{name: getattr(general, name) | getattr(own, name) for name in Affinity.__struct_fields__})


@stored()
class KindRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource, as an app declares it and the store keeps it."""

    name: str
    """The name of the kind."""

    app: Annotated[str, DERIVED] = ""
    """The app that declares it."""

    replicas: int = 1
    """Tasks of each resource, unless the resource says otherwise."""

    exclusive: bool = False
    """Does a resource have at most one task, and each task an epoch that fences what it writes?"""

    runs_alone: Annotated[bool, DERIVED]
    """Does each task have a process of its own?"""

    silent_after: Annotated[timedelta, Said(least=_SECOND)] = 30 * _SECOND
    """A task that has sent nothing for this long is started anew."""

    start_within: Annotated[timedelta, Said(least=_SECOND)] = 30 * _SECOND
    """A task that has not started within this time is started anew."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What nodes must be labelled with to hold such a task."""

    source_every: Annotated[timedelta | None, DERIVED] = None
    """How often its source is asked for the list of resources; None if it has no source."""

    source_timeout: Annotated[timedelta | None, DERIVED] = None
    """How long its source may take."""

    schema: Annotated[dict[str, Any] | None, DERIVED] = None
    """JSON Schema of the spec of such a resource; None: unknown, and any spec is accepted."""

    no_schema: Annotated[str, DERIVED] = ""
    """Why there is none, if the app could not say."""

    affinity: Affinity = NO_AFFINITY
    """What such a resource asks of its nodes beyond what they must have, unless it says otherwise itself."""


class WantedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as a user requests it."""

    kind: str
    id: str
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    priority: int = 0
    replicas: int | None = None
    cost: int = 1
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    pin: NodeId | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity = NO_AFFINITY

    @property
    def name(self) -> str:
        """Kind and id."""
        return f"{self.kind}/{self.id}"


@stored()
class ResourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to keep covered."""

    uid: str
    """Never changes, and no other resource ever has it."""

    kind: str
    """The kind of resource, as an app declares it."""

    id: str
    """Its name; with the kind it is the key."""

    created: datetime
    """When it was made, by the clock of the node that was asked."""

    origin: str = "api"
    """Who added it: `api`, `source`, `config` or `stream`."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its task function is given: an object that fits the schema of its kind."""

    priority: int = 0
    """Higher is covered first when there are too few slots."""

    replicas: int | None = None
    """Tasks for this one; None: as its kind says."""

    cost: int = 1
    """Slots that each of its tasks takes."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What its nodes must be labelled with, beside what its kind says."""

    pin: NodeId | None = None
    """The only node that may hold it."""

    tags: dict[str, str] = msgspec.field(default_factory=dict)
    """Tags that other resources can name in their affinity."""

    affinity: Affinity = NO_AFFINITY
    """What it asks of its nodes beyond `labels`."""


def record_of(wanted: WantedResource, uid: str, created: datetime, origin: str = "api") -> ResourceRecord:
    """A new resource, as a user requested it."""
    return ResourceRecord(
        uid=uid,
        kind=wanted.kind,
        id=wanted.id,
        created=created,
        origin=origin,
        spec=wanted.spec,
        priority=wanted.priority,
        replicas=wanted.replicas,
        cost=wanted.cost,
        labels=wanted.labels,
        pin=wanted.pin,
        tags=wanted.tags,
        affinity=wanted.affinity,
    )


@stored()
class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A node could not keep a resource's task alive; the resource is placed elsewhere for a while if possible."""

    node: NodeId
    """The node that gave the task back."""

    at: datetime
    """When, by the store's clock."""

    why: str
    """Why the node could not keep the task alive."""

    strikes: int = 1
    """How often this has happened lately; the more often, the longer the node does not get the resource."""

    since: datetime | None = None
    """When the first of these was, by the node's clock; None: an older Rota wrote the record."""

    epoch: Revision = NEVER
    """Epoch of the assignment that the node gave back; 0: an older Rota wrote the record."""


@stored()
class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a resource is covered. The first four fields have the names that seed 001 gave them."""

    ID: str
    """The uid of the resource."""

    Name: str
    """The id of the resource."""

    AssignedNode: str
    """`id|address` of each node that holds it, joined by commas; empty if none does."""

    CreationTime: int
    """In nanoseconds since 1970."""

    kind: str
    """The kind of the resource."""

    replicas: int
    """How many tasks it should have."""

    assigned: int
    """How many it has."""

    pending: str = ""
    """Why it has fewer, if it has."""

    refusals: dict[str, str] = msgspec.field(default_factory=dict)
    """Why nodes do not take it, by node; some of them."""

    chosen: dict[str, str] = msgspec.field(default_factory=dict)
    """Why the nodes that hold it were chosen, by node."""

    moving: str = ""
    """Why one of its tasks is to leave its node and has not yet, if so."""

    given_back: Trouble | None = None
    """The last time a node could not keep a task of it alive; None: never, or an older Rota leads."""

    failing: dict[str, str] | None = None
    """Why its tasks fail, by node: those that fail there now, and those that were given back lately; some of them.

    None: no task of it ever failed, or an older Rota leads."""

    not_running: int = 0
    """How many of its assigned tasks fail now instead of running, as far as nodes have reported."""

    @property
    def running(self) -> int:
        """How many of its assigned tasks run, as far as nodes have reported."""
        return max(0, self.assigned - self.not_running)


class CoverageState(StrEnum):
    """How a resource is covered, in a word."""

    UNSEEN = "unseen"
    """No leader has looked at it yet."""

    FAILING = "failing"
    """A task of it fails, or was given back lately, whether it has all its tasks or not."""

    PENDING = "pending"
    """It has fewer tasks than it should."""

    MOVING = "moving"
    """It has all its tasks, and one is to leave its node."""

    COVERED = "covered"
    """It has all its tasks, and no node reports that one fails."""


def state_of(status: ResourceStatus | None) -> CoverageState:
    """How a resource with this status is covered."""
    if status is None:
        return CoverageState.UNSEEN
    if status.failing:
        return CoverageState.FAILING
    if status.assigned < status.replicas:
        return CoverageState.PENDING
    return CoverageState.MOVING if status.moving else CoverageState.COVERED


@stored()
class SavedState(msgspec.Struct, frozen=True, kw_only=True):
    """What a task saved for its successor."""

    epoch: int
    """The epoch under which it was saved."""

    state: dict[str, Any]


@stored()
class Cordon(msgspec.Struct, frozen=True, kw_only=True):
    """A node that gets no new tasks."""

    node: NodeId
    """The id of the node."""

    since: datetime
    """Since when it gets no new tasks."""

    why: str = ""
    """The reason that was given; may be empty."""


@stored()
class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose tasks are to move to others; it gets no new ones."""

    node: NodeId
    """The id of the node."""

    since: datetime
    """When the drain began."""

    deadline: datetime | None = None
    """Tasks still on the node by then are stopped, even if no other node runs them."""

    why: str = ""
    """The reason that was given; may be empty."""

    tasks: int = 0
    """How many it had when it began."""


@stored()
class PlacingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How the leader chooses nodes, so that other processes can predict its choices."""

    policy: str
    avoid_for: timedelta
    tolerance: int
    rules: list[str] = msgspec.field(default_factory=list)


@stored()
class Relief(msgspec.Struct, frozen=True, kw_only=True):
    """A node runs a task that relieves the one on another node; written by the node for the leader."""

    epoch: Revision


@stored()
class SlotsSet(msgspec.Struct, frozen=True, kw_only=True):
    """A number of slots that an operator gave a node, in place of the one in its settings."""

    node: NodeId
    """The id of the node."""

    slots: int
    """The number of slots."""

    since: datetime
    """When they were set."""


@stored()
class LabelsSet(msgspec.Struct, frozen=True, kw_only=True):
    """Labels that an operator gave a node, or took away; they win over those of its settings."""

    node: NodeId
    """The id of the node."""

    labels: dict[str, str | None]
    """By name; null: the node does not have this label, whatever its settings say."""

    since: datetime
    """When they were last changed."""


def labelled(configured: Mapping[str, str], given: LabelsSet | None) -> dict[str, str]:
    """The labels of a node: those of its settings, and over them what an operator set."""
    both = {**configured, **(given.labels if given else {})}
    return {name: value for name, value in both.items() if value is not None}


@stored()
class Query(msgspec.Struct, frozen=True, kw_only=True):
    """An order to a node to query the source of a kind. Every commit of the result expects this record unchanged."""

    kind: str
    node: NodeId
    nonce: str
    """The name of this query; its outcome repeats it."""

    asked: datetime
    """When, by the store's clock."""

    term: TermNumber
    """The term of the leader that ordered it."""

    force: bool = False
    """Is the list to be applied however much it drops?"""

    sync: Revision = NEVER
    """When the newest sync request was written that the leader had taken up; 0 if there was none yet."""


@stored()
class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the last query of a kind."""

    kind: str
    """The kind whose source was asked."""

    nonce: str
    """The name of the query."""

    node: NodeId
    """The node that asked the source."""

    at: datetime
    """When, by the node's clock."""

    sync: Revision = NEVER
    """As the query had it."""

    count: int = 0
    """Resources in the last list that came."""

    digest: str = ""
    """A short name of the last list that was applied."""

    held: str = ""
    """A short name of the list that waits to be confirmed by an identical one; empty if none does."""

    why: str = ""
    """Why it is held, or what was left alone."""

    error: str = ""
    """Why no list came; empty if one did."""

    added: int = 0
    """Resources that the list added."""

    changed: int = 0
    """Resources that the list changed."""

    removed: int = 0
    """Resources that the list removed."""


@stored()
class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to query a kind's source now."""

    kind: str
    force: bool = False
