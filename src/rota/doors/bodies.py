"""What the bodies of requests carry, as records: verbs name them, and the description of the API is made from them.

Operations check what they are given, and say in a sentence what is wrong. These records name the same fields with their
types and texts. `example` is a body that a node accepts.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import msgspec

from rota.fleet.core.access.token import Access
from rota.jobs.core.spec import PROGRAM
from rota.model.ids import NodeId, Revision

Duration = Annotated[str, msgspec.Meta(description="A duration, such as `10s` or `1h30m`.")]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""

    example: ClassVar[dict[str, Any]] = {}
    refusals: ClassVar[dict[str, str]] = {}
    """Field → the sentence if it is missing or of another type, where there is a better one than for all fields.

    It may name parts of the path."""

    is_needed: ClassVar[bool] = False
    """Must there be a body, although every field has a default?"""


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
    refusals: ClassVar[dict[str, str]] = {
        "slots": 'node "{node}": nothing is to change; give slots, or null for as many as its settings say'
    }

    slots: int | None
    """From 0 to 1,000,000; null: as the node's settings say."""


class ClearBody(Body, frozen=True, kw_only=True):
    """Which requests are dropped."""

    example: ClassVar[dict[str, Any]] = {"groups": [1]}
    refusals: ClassVar[dict[str, str]] = {"groups": "groups must be a list of numbers; leave it out for all groups"}

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
    refusals: ClassVar[dict[str, str]] = {
        "enabled": 'hook "{name}": enabled must be true or false, and is all that can change'
    }

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
    refusals: ClassVar[dict[str, str]] = {
        "tasks": "tasks is missing; say how many, or null for as many as are declared"
    }

    tasks: int | None
    """From 1 to 10,000; null: as many as are declared."""


class HandOffBody(Body, frozen=True, kw_only=True):
    """Which groups end and publish now."""

    example: ClassVar[dict[str, Any]] = {"groups": [0]}
    refusals: ClassVar[dict[str, str]] = {
        "groups": "groups must be a list of numbers, like [0, 1]; leave it out for all"
    }

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
    refusals: ClassVar[dict[str, str]] = {
        "offsets": 'offsets must be an object from partitions to places, like {"0": 120, "1": "earliest"}'
    }

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


class LabelsBody(Body, frozen=True, kw_only=True):
    """Labels that a node gets and loses."""

    example: ClassVar[dict[str, Any]] = {"labels": {"zone": "b", "gpu": None}}
    is_needed: ClassVar[bool] = True

    labels: dict[str, str | None] = {}
    """By name; null takes a label away, also one of the node's settings. What is not named stays."""

    reset: bool = False
    """Undo first all that was set before, so that only the node's settings count."""


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


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An empty object."""


class SyncBody(Body, frozen=True, kw_only=True):
    """How the source of a kind is asked."""

    example: ClassVar[dict[str, Any]] = {"force": False}

    force: bool = False
    """Apply the list however much it drops."""

    no_wait: bool = False
    """Answer at once, before the source is asked."""


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
