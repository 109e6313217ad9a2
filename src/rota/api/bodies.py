"""What requests carry and small answers hold, as records: the description of the API is made from them.

Operations read requests themselves, and say in a sentence what is wrong. These records name the same fields with their
types and texts; `tests/unit/api/test_openapi.py` compares them with what the doors take. `example` is a body that a
node accepts.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import msgspec

from rota.api.hooks import HookView
from rota.api.job_schema import DueTime
from rota.api.schema import KindView
from rota.api.stream_schema import PartitionLag, StreamVersion
from rota.api.tokens import TokenView
from rota.model.event import Event
from rota.model.ids import NodeId, Revision
from rota.model.resource import Listing
from rota.model.token import Access
from rota.workloads.jobs.spec import PROGRAM

Duration = Annotated[str, msgspec.Meta(description="A duration, such as `10s` or `1h30m`.")]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    example: ClassVar[dict[str, Any]] = {}


class ReasonBody(Body, frozen=True, kw_only=True):
    """Why something is done."""

    example: ClassVar[dict[str, Any]] = {"why": "disk is being replaced"}

    why: str | None = None
    """The reason, for people: at most 200 printable characters."""


class DrainBody(Body, frozen=True, kw_only=True):
    """Why a node is drained, and by when."""

    example: ClassVar[dict[str, Any]] = {"why": "kernel update", "deadline": "10m"}

    why: str | None = None
    """The reason, for people: at most 200 printable characters."""

    deadline: str | None = None
    """How long tasks may take to move; what is still there afterwards is stopped. A duration; null: no deadline."""


class SlotsBody(Body, frozen=True, kw_only=True):
    """How many slots a node has."""

    example: ClassVar[dict[str, Any]] = {"slots": 20}

    slots: int | None
    """From 0 to 1,000,000; null: as the node's settings say."""


class ClearBody(Body, frozen=True, kw_only=True):
    """Which requests are dropped."""

    example: ClassVar[dict[str, Any]] = {"groups": [1]}

    groups: list[int] | None = None
    """The groups whose waiting requests are dropped; null: all groups."""


class ResizeBody(Body, frozen=True, kw_only=True):
    """How many workers a group has."""

    example: ClassVar[dict[str, Any]] = {"group": 1, "count": 4}

    group: int
    """The number of the group."""

    count: int
    """How many workers it has until the next reload."""


class HookBody(Body, frozen=True, kw_only=True):
    """A hook that is to be made: either `url` or `command`."""

    example: ClassVar[dict[str, Any]] = {"name": "pager", "events": ["node.*"], "url": "https://example.org/rota"}

    name: str
    events: list[str]
    url: str | None = None
    command: list[str] | None = None
    timeout: str | None = None
    """How long one try may take, from 100ms to 5m. A duration; null: 10s."""

    retries: int | None = None
    per_minute: int | None = None
    enabled: bool | None = None


class EnableHookBody(Body, frozen=True, kw_only=True):
    """Whether a hook is on."""

    example: ClassVar[dict[str, Any]] = {"enabled": False}

    enabled: bool
    """Is it on?"""


def _job_fields() -> Iterator[tuple[str, Any] | tuple[str, Any, None]]:
    """A field for each option of a job that runs a program."""
    shown: Mapping[Any, Any] = {timedelta: Duration, tuple[str, ...]: list[str]}
    for option in PROGRAM:
        kind = shown.get(option.type, option.type)
        if option.name == "argv":
            yield option.name, kind
        else:
            yield option.name, kind | None, None


JobBody = msgspec.defstruct(
    "JobBody",
    _job_fields(),
    bases=(Body,),
    module=__name__,
    namespace={
        "__doc__": "A job that runs a program. A field that is null counts as left out.",
        "example": {"argv": ["backup", "--all"], "cron": "0 3 * * *", "timeout": "1h", "retries": 2},
    },
    frozen=True,
    kw_only=True,
)


class RunBody(Body, frozen=True, kw_only=True):
    """What a run is given."""

    example: ClassVar[dict[str, Any]] = {"payload": {"day": "2026-01-31"}}

    payload: Any = None
    """Any JSON value of at most 64 KiB; the function finds it in its run."""


class BackfillBody(Body, frozen=True, kw_only=True):
    """Which due times get runs."""

    example: ClassVar[dict[str, Any]] = {"first": "2026-01-01T00:00:00Z", "last": "2026-01-31T00:00:00Z"}

    first: datetime
    """The first due time that may get a run."""

    last: datetime
    """The last due time that may get a run."""

    force: bool = False
    """Also for due times that have a run already."""


class ScaleBody(Body, frozen=True, kw_only=True):
    """How many task groups a stream has."""

    example: ClassVar[dict[str, Any]] = {"tasks": 4}

    tasks: int | None
    """From 1 to 10,000; null: as many as are declared."""


class HandOffBody(Body, frozen=True, kw_only=True):
    """Which groups end and publish now."""

    example: ClassVar[dict[str, Any]] = {"groups": [0]}

    groups: list[int] = []
    """The numbers of the groups; none: all of them."""


class ResetBody(Body, frozen=True, kw_only=True):
    """Where a stream goes on."""

    example: ClassVar[dict[str, Any]] = {"to": "latest", "backfill": True}

    to: str | None = None
    """`earliest`, `latest` or a time; null: where a new stream would begin."""

    backfill: bool = False
    """Is what is left out read by another stream, into the same output?"""


class ResetOffsetsBody(Body, frozen=True, kw_only=True):
    """Where partitions go on."""

    example: ClassVar[dict[str, Any]] = {"offsets": {"0": 120, "1": "earliest"}}

    offsets: dict[str, int | str]
    """Partition → an offset, `earliest`, `latest` or a time."""


class TokenBody(Body, frozen=True, kw_only=True):
    """A token that is to be made."""

    example: ClassVar[dict[str, Any]] = {"name": "web", "role": "operate", "expires_in": "90d"}

    name: str
    role: Access
    """What it allows; not more than the caller's own token does."""

    expires_in: str | None = None
    """How long it is valid. A duration; null: until it is revoked."""


class RotateBody(Body, frozen=True, kw_only=True):
    """How a token is replaced."""

    example: ClassVar[dict[str, Any]] = {"keep_old": "1h"}

    keep_old: str | None = None
    """How long the token before is accepted too. A duration; null: not at all."""

    expires_in: str | None = None
    """How long the new one is valid. A duration; null: as long as the one before was."""


class SessionBody(Body, frozen=True, kw_only=True):
    """The token that a browser exchanges for a session."""

    example: ClassVar[dict[str, Any]] = {"token": "rota_0123456789"}

    token: str
    """A token of this fleet."""


class NameBody(msgspec.Struct, frozen=True, kw_only=True):
    """A resource by its name alone; other fields are ignored."""

    example: ClassVar[dict[str, Any]] = {"name": "task-1"}

    name: str
    """The id of the resource."""


class KindPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some kinds of resources, in the order of the name."""

    kinds: tuple[KindView, ...]
    """The kinds of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


class HookPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some hooks, in the order of the name."""

    hooks: tuple[HookView, ...]
    """The hooks of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


class TokenPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tokens, in the order of the name."""

    tokens: tuple[TokenView, ...]
    """The tokens of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, the newest last."""

    events: tuple[Event, ...]
    """The events of this page."""

    revision: Revision
    """The revision of the store that they were read at; a watch can go on after it."""

    next: str | None = None
    """The token of the page with older events; null: there are none."""


class Uncordoned(msgspec.Struct, frozen=True, kw_only=True):
    """A node that gets tasks again."""

    node: NodeId
    """The id of the node."""

    was_cordoned: bool
    """Did it have a cordon?"""


class Undrained(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is not drained any more."""

    node: NodeId
    """The id of the node."""

    was_drained: bool
    """Was it drained?"""


class NodeSlots(msgspec.Struct, frozen=True, kw_only=True):
    """How many slots a node was given."""

    node: NodeId
    """The id of the node."""

    slots: int | None
    """How many; null: as its settings say."""


class LabelsBody(Body, frozen=True, kw_only=True):
    """Labels that a node gets and loses."""

    example: ClassVar[dict[str, Any]] = {"labels": {"zone": "b", "gpu": None}}

    labels: dict[str, str | None] = {}
    """By name; null takes a label away, also one of the node's settings. What is not named stays."""

    reset: bool = False
    """Undo first all that was set before, so that only the node's settings count."""


class HookSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a hook is on."""

    name: str
    """The name of the hook."""

    enabled: bool
    """Is it on?"""


class DueTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When a job is due next."""

    due: tuple[DueTime, ...]
    """The due times, the next one first."""


class RunIds(msgspec.Struct, frozen=True, kw_only=True):
    """Runs by their ids."""

    runs: tuple[str, ...]
    """The ids, in the order of the due times."""


class StreamLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream is behind."""

    partitions: tuple[PartitionLag, ...]
    """The lag of each partition."""


class StreamHistory(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream was declared in the course of time."""

    versions: tuple[StreamVersion, ...]
    """The declarations, the oldest first."""


class ServicesOfNode(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one node."""

    services: list[Any]
    """As `rota services ls -o json` has them."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Whose session it is."""

    name: str
    """The name of the token."""

    access: Access
    """The role of the token."""

    csrf: str
    """The word that a page sends as `x-rota-csrf` with whatever changes something."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node is well."""

    ok: bool
    """Is it?"""

    reasons: dict[str, str] = {}
    """What is wrong, by part; only if something is."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong (RFC 9457)."""

    type: str
    """The code as a URI."""

    title: str
    """What the code means, in a few words."""

    status: int
    """The status of the answer."""

    detail: str
    """What is wrong with this request, and what to do, in a sentence."""

    code: str
    """The code: one of the table of errors. It never changes its meaning."""

    error: str
    """The same sentence as `detail`, for older clients."""


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What a reload came to."""

    generation: int
    """The generation of the code that serves now."""

    previous: int
    """The generation before."""


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were dropped."""

    service: str
    """The name of the service."""

    dropped: dict[str, int]
    """Group → how many."""


class Resized(msgspec.Struct, frozen=True, kw_only=True):
    """A group with another number of workers."""

    service: str
    """The name of the service."""

    group: int
    """The number of the group."""

    before: int
    """How many workers it had."""

    count: int
    """How many it has now."""


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An empty object."""


class SyncBody(Body, frozen=True, kw_only=True):
    """How the source of a kind is asked."""

    example: ClassVar[dict[str, Any]] = {"force": False}

    force: bool = False
    """Apply the list however much it drops."""

    no_wait: bool = False
    """Answer at once, before the source is asked."""


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking a source."""

    listing: Listing | None
    """The list; null if the caller did not wait."""


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
