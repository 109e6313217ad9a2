"""Records as bytes: JSON with a schema version.

`{"v":1, …}`: readable with `etcdctl get` and `SELECT`. A record of an older version is brought up by the functions
in `UPGRADES`; one of a newer version is refused with the next move; fields nobody here knows are left alone, so that
two neighbouring versions of Rota can share a fleet.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from rota.model.assignment import Assignment
from rota.model.errors import Invalid
from rota.model.event import Event
from rota.model.node import Incarnation, Leader, Node, NodeStatus, Roster
from rota.model.resource import (
    Cordon,
    Drain,
    KindRecord,
    Listing,
    PlacingRecord,
    Query,
    Relief,
    ResourceRecord,
    ResourceStatus,
    SavedState,
    SlotsSet,
    SyncRequest,
    Trouble,
)

R = TypeVar("R")

VERSIONS: Mapping[type, int] = {
    Assignment: 1,
    Cordon: 1,
    Drain: 1,
    Event: 1,
    Incarnation: 1,
    KindRecord: 1,
    Leader: 1,
    Listing: 1,
    Node: 1,
    NodeStatus: 1,
    PlacingRecord: 1,
    Query: 1,
    Relief: 1,
    ResourceRecord: 1,
    ResourceStatus: 1,
    Roster: 1,
    SavedState: 1,
    SlotsSet: 1,
    SyncRequest: 1,
    Trouble: 1,
}
"""The version each record is written in."""

UPGRADES: Mapping[tuple[type, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""(record, version) → what makes the next version of it."""

_encoder = msgspec.json.Encoder()


def encode(record: object) -> bytes:
    """The record as bytes."""
    version = VERSIONS[type(record)]
    fields = msgspec.to_builtins(record)
    return _encoder.encode({"v": version, **fields})


def decode(kind: type[R], data: bytes) -> R:
    """The record in `data`; Invalid says what is wrong with it."""
    name = kind.__name__.lower()
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        version = fields.pop("v")
    except (msgspec.DecodeError, KeyError):
        raise Invalid(f"this is no {name} record: {data[:80]!r}") from None
    if not isinstance(version, int) or version > VERSIONS[kind]:
        raise Invalid(f"a {name} record of version {version}, this Rota knows {VERSIONS[kind]}; upgrade this node")
    for step in range(version, VERSIONS[kind]):
        fields = UPGRADES[kind, step](fields)
    try:
        return msgspec.convert(fields, type=kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"a broken {name} record: {error}") from None
