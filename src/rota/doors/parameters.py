"""What callers say beside a body, as types for the signatures of operations: what each means, and an example. Pure.

`limit: Limit = PAGE` in a signature is a parameter of the query, and all that is said of it in the description of the
API. What only one verb takes is a type here too, so that this page has every parameter there is.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from rota.model.ids import Revision

TEXT: Mapping[str, Any] = {"type": "string"}
FLAG: Mapping[str, Any] = {"type": "boolean", "default": False}
WHOLE: Mapping[str, Any] = {"type": "integer", "minimum": 0}
TIME: Mapping[str, Any] = {"type": "string", "format": "date-time"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}

_NOON = "2026-01-31T12:00:00Z"


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a path, a query or a header."""

    doc: str
    example: object
    schema: Mapping[str, Any] = msgspec.field(default_factory=lambda: TEXT)
    name: str = ""
    """Its name at the doors, if that is not the name in the signature."""

    header: str = ""
    """The header that it is in, if it is in one."""

    parts: "Mapping[str, Parameter]" = {}
    """The parts of a path that it is made of, if there are several."""


def page(most: int, default: int, least: int = 1) -> Parameter:
    """How long a page may be."""
    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return Parameter(f"At most this many entries; {default} if not given.", default, schema)


# Lists

WHOLE_PAGE = page(1000, 1000)
FORWARD = Parameter("The `next` of the page before; left out for the first page.", "room/17")
BACKWARD = Parameter("The `next` of the page before, which leads further back; left out for the newest.", "4711")

Limit = Annotated[int, page(1000, 100)]
LimitOfEvents = Annotated[int, page(1000, 50, 0)]
LimitOfAudit = Annotated[int, page(1000, 50)]
Token = Annotated[str | None, FORWARD]
TokenBack = Annotated[str | None, BACKWARD]
Prefix = Annotated[str, Parameter("Only those whose name or id begins so.", "ro")]
Since = Annotated[datetime | None, Parameter("Nothing older than this time.", _NOON, TIME)]
Until = Annotated[datetime | None, Parameter("Nothing newer than this time.", _NOON, TIME)]
OfNode = Annotated[str | None, Parameter("Only what concerns this node.", "n1")]

# Changes

_WAIT = "How long to wait for the outcome, from 0s to 1m, such as `10s` or `PT10S`; not at all if left out."
Wait = Annotated[timedelta | None, Parameter(_WAIT, "10s")]
_IF_MATCH = "Change it only at this version: the `ETag` of the last answer, or `*` for any."
IfMatch = Annotated[int | None, Parameter(_IF_MATCH, '"12"', header="If-Match")]
IDEMPOTENCY_KEY = Parameter(
    "Makes a repeat harmless: the same key with the same request is carried out once. 1 to 200 printable ASCII "
    "characters without spaces and slashes.",
    "9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
    header="Idempotency-Key",
)
OnceKey = Annotated[str | None, IDEMPOTENCY_KEY]

# Watches

LAST_EVENT_ID = Parameter("Go on after this event; browsers send it by themselves.", "1200", header="Last-Event-ID")
_RESUME = "Only what was written after this revision: the `id` of the last event that came."
After = Annotated[Revision | None, Parameter(_RESUME, 1200, {"type": "integer"})]

# Resources

KindName = Annotated[str, Parameter("The kind of the resource.", "room")]
ResourceId = Annotated[str, Parameter("The id of the resource.", "1")]
OfKind = Annotated[str | None, Parameter("Only resources of this kind.", "room")]
IsPending = Annotated[bool, Parameter("Only resources that have fewer tasks than they should.", True, FLAG)]

# Nodes

NodeName = Annotated[str, Parameter("The id of the node.", "n1")]
ServiceName = Annotated[str, Parameter("The name of the service.", "chat")]
Rebalance = Annotated[bool, Parameter("As if tasks were moved until the nodes are balanced.", True, FLAG)]
Without = Annotated[
    Collection[str], Parameter("As if these nodes were gone; may be given several times.", ["n1"], TEXTS)
]
Added = Annotated[
    int,
    Parameter("As if there were this many more nodes.", 2, {"type": "integer", "minimum": 0, "maximum": 1000}),
]
Like = Annotated[str, Parameter("The node that the added ones are like; the first one if left out.", "n1")]

# Events

KindsOfEvents = Annotated[
    Collection[str],
    Parameter("Only events of this kind; `node.*` and several are possible.", ["node.*"], TEXTS, name="kind"),
]
HookName = Annotated[str, Parameter("The name of the hook.", "pager")]

# What was printed

_BEHIND = "Only what was printed after this place: the `next` of an earlier answer."
_PLACE = "2026-01-31T12:00:00.000000Z@4096"
BehindPlaces = Annotated[str, Parameter(_BEHIND, f"n1={_PLACE}")]
BehindPlace = Annotated[str, Parameter(_BEHIND, _PLACE)]
OnNodes = Annotated[
    Sequence[str],
    Parameter("Only what was printed on this node; may be given several times.", ["n1"], TEXTS, name="node"),
]
_TAIL = {"type": "integer", "minimum": 1, "maximum": 1000}
Tail = Annotated[int | None, Parameter("Only the last lines of each node, this many.", 100, _TAIL)]

# Jobs

JobName = Annotated[str, Parameter("The name of the job.", "nightly")]
_DUE = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}
DueCount = Annotated[int, Parameter("How many due times.", 10, _DUE)]
DueAfter = Annotated[datetime | None, Parameter("Due times after this time; after now if left out.", _NOON, TIME)]
FirstDue = Annotated[datetime, Parameter("The first due time that may get a run.", _NOON, TIME)]
LastDue = Annotated[datetime, Parameter("The last due time that may get a run.", _NOON, TIME)]
IsForced = Annotated[bool, Parameter("Also due times that have a run already.", False, FLAG, name="force")]

# Runs

_PARTS = {
    "job": Parameter("The name of the job.", "nightly"),
    "moment": Parameter("The second part of the run's id, behind the job.", "20260131T030000.000Z"),
}
RunId = Annotated[str, Parameter("The id of the run.", "nightly/20260131T030000.000Z", parts=_PARTS)]
OfJob = Annotated[str | None, Parameter("Only runs of this job.", "nightly")]
InStates = Annotated[
    Collection[str],
    Parameter("Only runs in this state; may be given several times.", ["failed"], TEXTS, name="state"),
]
RanOn = Annotated[str | None, Parameter("Only runs of which this node had an attempt.", "n1")]
DueSince = Annotated[datetime | None, Parameter("Only runs that were due at this time or later.", _NOON, TIME)]
AttemptNumber = Annotated[int | None, Parameter("The number of the attempt; the newest if left out.", 1, WHOLE)]
Offset = Annotated[int, Parameter("The first byte of the output that is wanted.", 0, WHOLE)]

# Streams

StreamName = Annotated[str, Parameter("The name of the stream.", "orders")]
WithPast = Annotated[bool, Parameter("Also backfills that are completed.", True, FLAG, name="all")]

# Access

RoleName = Annotated[str, Parameter("What the token allows.", "operate", name="role")]
TokenName = Annotated[str, Parameter("The name of the token.", "web")]
ByCaller = Annotated[str, Parameter("Only what this caller did.", "ada")]
IsRefused = Annotated[bool, Parameter("Only what was refused.", True, FLAG)]
Noted = Annotated[str, Parameter("A hash of the chain that was noted earlier, and must still be in it.", "5f2c…")]
