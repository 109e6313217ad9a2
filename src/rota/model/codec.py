"""Records as bytes: JSON with a schema version.

`{"v":1, …}`: readable with `etcdctl get` and `SELECT`. A record of an older version is brought up by the functions
in `UPGRADES`; one of a newer version is refused with the next move; fields nobody here knows are left alone, so that
two neighbouring versions of Rota can share a fleet.

A struct bears its version as its tag, and of any other record the version is written first, so that both are read in
one step; only when that fails is it looked at more closely.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.model.assignment import Assignment
from rota.model.audit import AuditEntry, AuditHead, AuditLink
from rota.model.certificate import RevokedCertificate
from rota.model.episode import Episode
from rota.model.errors import Invalid
from rota.model.event import Event
from rota.model.history import HistoryNotes
from rota.model.hook import Delivery, Hook, HookCursor, HookStatus
from rota.model.job import JobCursor, JobRecord, JobSuccess, RunRecord
from rota.model.manifest import CommittedOffset, Manifest
from rota.model.node import FleetRecord, Incarnation, Leader, Node, NodeLoad, NodeStatus, Roster
from rota.model.peers import DutyHeld, NodeHealth, Strikes
from rota.model.relay import RelayMap, RelayStatus
from rota.model.resource import (
    Cordon,
    Drain,
    KindRecord,
    LabelsSet,
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
from rota.model.stream import (
    Declaration,
    Group,
    MoveRecord,
    SkipRecord,
    StreamRecord,
    StreamStatus,
    StreamTaskStatus,
    StreamWishes,
)
from rota.model.ticket import Admission, TicketRecord
from rota.model.token import DigestRecord, SessionRecord, TokenRecord

R = TypeVar("R")

VERSIONS: Mapping[type, int] = {
    Assignment: 1,
    Admission: 1,
    AuditEntry: 1,
    AuditHead: 1,
    AuditLink: 1,
    CommittedOffset: 1,
    Cordon: 1,
    Declaration: 1,
    DigestRecord: 1,
    Drain: 1,
    Delivery: 1,
    DutyHeld: 1,
    Event: 1,
    FleetRecord: 1,
    Group: 1,
    HistoryNotes: 1,
    Hook: 1,
    HookCursor: 1,
    HookStatus: 1,
    LabelsSet: 1,
    Incarnation: 1,
    JobCursor: 1,
    JobRecord: 1,
    JobSuccess: 1,
    KindRecord: 1,
    Leader: 1,
    Listing: 1,
    Manifest: 1,
    MoveRecord: 1,
    Node: 1,
    NodeHealth: 1,
    NodeLoad: 1,
    NodeStatus: 1,
    PlacingRecord: 1,
    Query: 1,
    Relief: 1,
    RelayMap: 1,
    RelayStatus: 1,
    ResourceRecord: 1,
    ResourceStatus: 1,
    RevokedCertificate: 1,
    Roster: 1,
    RunRecord: 1,
    SavedState: 1,
    SessionRecord: 1,
    SkipRecord: 1,
    SlotsSet: 1,
    StreamRecord: 1,
    StreamStatus: 1,
    StreamTaskStatus: 1,
    StreamWishes: 1,
    Strikes: 1,
    SyncRequest: 1,
    TicketRecord: 1,
    TokenRecord: 1,
    Trouble: 1,
    Episode: 1,
}
"""The version each record is written in."""

UPGRADES: Mapping[tuple[type, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""(record, version) → what makes the next version of it."""

_encoder = msgspec.json.Encoder()
_decoders: Mapping[type, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in VERSIONS}
_tagged = frozenset(
    kind for kind in VERSIONS if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag_field == "v"
)
"""Records that write their version themselves; they are written thousands of times a second."""

_openings: Mapping[type, bytes] = {
    kind: b"{" if kind in _tagged else b'{"v":%d,' % version for kind, version in VERSIONS.items()
}
"""How a record begins that can be read in one step."""


def encode(record: object) -> bytes:
    """The record as bytes."""
    if type(record) in _tagged:
        return _encoder.encode(record)
    return _openings[type(record)] + _encoder.encode(record)[1:]  # every record has fields


def decode(kind: type[R], data: bytes) -> R:
    """The record in `data`; Invalid says what is wrong with it."""
    if data.startswith(_openings[kind]):
        try:
            return cast(R, _decoders[kind].decode(data))
        except UNREADABLE:  # of another version, or broken: the longer way says which
            pass
    return _decode(kind, data)


def _decode(kind: type[R], data: bytes) -> R:
    name = kind.__name__.lower()
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        version = fields.pop("v")
    except (*UNREADABLE, KeyError):
        raise Invalid(f"this is no {name} record: {data[:80]!r}") from None
    if not isinstance(version, int) or version > VERSIONS[kind]:
        raise Invalid(f"a {name} record of version {version}, this Rota knows {VERSIONS[kind]}; upgrade this node")
    for step in range(version, VERSIONS[kind]):
        fields = UPGRADES[kind, step](fields)
    if kind in _tagged:
        fields["v"] = VERSIONS[kind]
    try:
        return msgspec.convert(fields, type=kind, str_keys=True)
    except UNREADABLE as error:
        raise Invalid(f"a broken {name} record: {error}") from None
