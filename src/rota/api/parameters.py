"""The parameters of requests: what each means, its type and an example. The description of the API is made from this.

A parameter means the same wherever it is taken, but for those of `SPECIAL`, by operation and name. Pure.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

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


def page(most: int, default: int, least: int = 1) -> Parameter:
    """How long a page may be."""
    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return Parameter(f"At most this many entries; {default} if not given.", default, schema)


QUERY: Mapping[str, Parameter] = {
    "limit": page(1000, 100),
    "token": Parameter("The `next` of the page before; left out for the first page.", "room/17"),
    "prefix": Parameter("Only those whose name or id begins so.", "ro"),
    "kind": Parameter("Only resources of this kind.", "room"),
    "pending": Parameter("Only resources that have fewer tasks than they should.", True, FLAG),
    "after": Parameter(
        "Only what was written after this revision: the `id` of the last event that came.", 1200, {"type": "integer"}
    ),
    "wait": Parameter(
        "How long to wait for the outcome, from 0s to 1m, such as `10s` or `PT10S`; not at all if left out.",
        "10s",
    ),
    "node": Parameter("Only what concerns this node.", "n1"),
    "rebalance": Parameter("As if tasks were moved until the nodes are balanced.", True, FLAG),
    "without": Parameter("As if these nodes were gone; may be given several times.", ["n1"], TEXTS),
    "add": Parameter("As if there were this many more nodes.", 2, {"type": "integer", "minimum": 0, "maximum": 1000}),
    "like": Parameter("The node that the added ones are like; the first one if left out.", "n1"),
    "since": Parameter("Nothing older than this time.", _NOON, TIME),
    "until": Parameter("Nothing newer than this time.", _NOON, TIME),
    "count": Parameter("How many due times.", 10, {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}),
    "first": Parameter("The first due time that may get a run.", _NOON, TIME),
    "last": Parameter("The last due time that may get a run.", _NOON, TIME),
    "force": Parameter("Also due times that have a run already.", True, FLAG),
    "job": Parameter("Only runs of this job.", "nightly"),
    "state": Parameter("Only runs in this state; may be given several times.", ["failed"], TEXTS),
    "attempt": Parameter("The number of the attempt; the newest if left out.", 1, WHOLE),
    "offset": Parameter("The first byte of the output that is wanted.", 0, WHOLE),
    "tail": Parameter(
        "Only the last lines of each node, this many.", 100, {"type": "integer", "minimum": 1, "maximum": 1000}
    ),
    "all": Parameter("Also backfills that are completed.", True, FLAG),
    "by": Parameter("Only what this caller did.", "ada"),
    "refused": Parameter("Only what was refused.", True, FLAG),
    "noted": Parameter("A hash of the chain that was noted earlier, and must still be in it.", "5f2c…"),
}

_PLACE = "n1=2026-01-31T12:00:00.000000Z@4096"
_WHOLE = page(1000, 1000)
_BACK = Parameter("The `next` of the page before, which leads further back; left out for the newest.", "4711")

SPECIAL: Mapping[tuple[str, str], Parameter] = {
    **{(name, "limit"): _WHOLE for name in ("list_nodes", "list_kinds", "list_hooks", "list_tokens")},
    ("read_events", "token"): _BACK,
    ("read_audit", "token"): _BACK,
    ("read_events", "kind"): Parameter(
        "Only events of this kind; `node.*` and several are possible.", ["node.*"], TEXTS
    ),
    ("watch_events", "kind"): Parameter(
        "Only events of this kind; `node.*` and several are possible.", ["node.*"], TEXTS
    ),
    ("read_events", "limit"): page(1000, 50, 0),
    ("watch_events", "limit"): page(1000, 50, 0),
    ("read_audit", "limit"): page(1000, 50),
    ("list_runs", "node"): Parameter("Only runs of which this node had an attempt.", "n1"),
    **{
        (name, "after"): Parameter("Only what was printed after this place: the `next` of an earlier answer.", _PLACE)
        for name in ("read_printed", "follow_printed")
    },
    ("node_printed", "after"): Parameter(
        "Only what was printed after this place: the `next` of an earlier answer.", _PLACE.partition("=")[2]
    ),
    **{
        (name, "node"): Parameter("Only what was printed on this node; may be given several times.", ["n1"], TEXTS)
        for name in ("read_printed", "follow_printed")
    },
    ("list_runs", "since"): Parameter("Only runs that were due at this time or later.", _NOON, TIME),
    ("preview_job", "after"): Parameter("Due times after this time; after now if left out.", _NOON, TIME),
    ("preview_backfill", "force"): Parameter("Also due times that have a run already.", False, FLAG),
}

PATH: Mapping[str, Parameter] = {
    "kind": Parameter("The kind of the resource.", "room"),
    "id": Parameter("The id of the resource.", "1"),
    "node": Parameter("The id of the node.", "n1"),
    "service": Parameter("The name of the service.", "chat"),
    "job": Parameter("The name of the job.", "nightly"),
    "moment": Parameter("The second part of the run's id, behind the job.", "20260131T030000.000Z"),
}

NAMES: Mapping[str, Parameter] = {
    "jobs": Parameter("The name of the job.", "nightly"),
    "streams": Parameter("The name of the stream.", "orders"),
    "hooks": Parameter("The name of the hook.", "pager"),
    "tokens": Parameter("The name of the token.", "web"),
}
"""What `{name}` is, by what stands before it in the path."""

HEADERS: Mapping[str, Parameter] = {
    "Idempotency-Key": Parameter(
        "Makes a repeat harmless: the same key with the same request is carried out once. 1 to 200 printable ASCII "
        "characters without spaces and slashes.",
        "9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
    ),
    "If-Match": Parameter("Change it only at this version: the `ETag` of the last answer, or `*` for any.", '"12"'),
    "Last-Event-ID": Parameter("Go on after this event; browsers send it by themselves.", "1200"),
}
