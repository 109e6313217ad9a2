"""What callers say beside a body, as types for the signatures of operations: what each means, and an example. Pure.

`limit: Limit = PAGE` in a signature is a parameter of the query, and all that is said of it in the description of the
API. Here is what several kinds take; what one kind takes is in `parameters` beside its operations.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from rota.model.ids import Revision

TEXT: Mapping[str, Any] = {"type": "string"}
FLAG: Mapping[str, Any] = {"type": "boolean", "default": False}
WHOLE: Mapping[str, Any] = {"type": "integer", "minimum": 0}
TIME: Mapping[str, Any] = {"type": "string", "format": "date-time"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}

NOON = "2026-01-31T12:00:00Z"
"""A time, for examples."""


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
Token = Annotated[str | None, FORWARD]
TokenBack = Annotated[str | None, BACKWARD]
Prefix = Annotated[str, Parameter("Only those whose name or id begins so.", "ro")]
Since = Annotated[datetime | None, Parameter("Nothing older than this time.", NOON, TIME)]
Until = Annotated[datetime | None, Parameter("Nothing newer than this time.", NOON, TIME)]
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

# Nodes

NodeName = Annotated[str, Parameter("The id of the node.", "n1")]

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
