"""Where gRPC messages differ from records, and gRPC requests from HTTP requests.

Everything else is found by its name (`doors.grpc.transcode`). A field that is added to a record is added to its message
under the same name, and needs nothing here.
"""

from operator import attrgetter
from typing import Any

import msgspec
from google.protobuf.message import Message

from rota.doors.grpc.pb import api_pb2, jobs_pb2, services_pb2
from rota.doors.grpc.transcode import ELSEWHERE, ODD, encode, fields_of, from_json, given
from rota.doors.grpc.verbs import READ, WRITE
from rota.fleet.doors import steering
from rota.fleet.doors.hooks import joined
from rota.model.errors import Invalid
from rota.relay.core.records import ResourceTally
from rota.resources.core.records import ResourceStatus, state_of
from rota.resources.doors.answers import CHANGEABLE
from rota.services.core.records import ServiceStat

# Requests


def _job(request: jobs_pb2.PutJobRequest) -> dict[str, Any]:
    fields = from_json("spec_json", request.spec_json or "{}")
    if not isinstance(fields, dict):
        raise Invalid("spec_json must be an object, with the fields of the job")
    return {**fields, "name": request.name}


def _changes(request: api_pb2.UpdateResourceRequest) -> dict[str, Any]:
    """The fields to change; None for those to put back to their defaults."""
    changes = fields_of(request, "kind", "id", "version", "reset")
    changes |= {name: each.get("labels", {}) for name in ("labels", "tags") if (each := changes.get(name)) is not None}
    for name in request.reset:
        if name not in CHANGEABLE:
            raise Invalid(f'reset: there is no field "{name}" to put back; there are {", ".join(CHANGEABLE)}')
        if name in changes:
            raise Invalid(f"{name} is both changed and reset; choose one")
        changes[name] = None
    return changes


def _labels(request: api_pb2.LabelNodeRequest) -> dict[str, str | None]:
    return {**dict.fromkeys(request.remove), **request.labels}


READ |= {
    "put_job": ("fields", _job),
    "update_resource": ("changes", _changes),
    "label_node": ("labels", _labels),
}


# Answers


def _places(status: ResourceStatus) -> list[Any]:
    found = [each.partition("|") for each in status.AssignedNode.split(",") if each]
    return [_Place(node=node, address=address) for node, _, address in found]


class _Place(msgspec.Struct, frozen=True):
    node: str
    address: str


ODD |= {
    ("rota.v1.Attempt", "state"): attrgetter("outcome.state"),
    ("rota.v1.Attempt", "error"): attrgetter("outcome.error"),
    ("rota.v1.ResourceStatus", "places"): _places,
    ("rota.v1.ResourceStatus", "state"): state_of,
    ("rota.v1.ResourceStatus", "running"): attrgetter("running"),
    ("rota.v1.LabelsSet", "labels"): lambda labels: {
        name: each for name, each in labels.labels.items() if each is not None
    },
    ("rota.v1.LabelsSet", "removed"): lambda labels: [name for name, each in labels.labels.items() if each is None],
    ("rota.v1.Hook", "delivered"): attrgetter("status.delivered"),
    ("rota.v1.Hook", "failed"): attrgetter("status.failed"),
    ("rota.v1.Hook", "error"): lambda hook: joined(hook.status.error, hook.status.output),
    ("rota.v1.TestHookAnswer", "error"): lambda trial: joined(trial.error, trial.output),
    ("rota.v1.WhyStream", "stream"): attrgetter("thing"),
    ("rota.v1.StreamReset", "backfill"): attrgetter("is_backfilled"),
    ("rota.v1.Published", "files"): attrgetter("segments"),
    ("rota.v1.Published", "list"): attrgetter("file"),
    **{
        ("rota.v1.AuditLine", name): attrgetter(f"entry.{name}")
        for name in ("id", "at", "by", "origin", "what", "changes", "refused", "count")
    },
}

_OF_RESOURCES = dict.fromkeys(("chosen", "refusals", "holds", "remedies"), "said of resources and nodes alone")

ELSEWHERE |= {
    "rota.v1.ResourceStatus": {
        "ID": "Resource.uid", "Name": "Resource.id", "kind": "Resource.kind", "CreationTime": "Resource.created",
        "AssignedNode": "places", "not_running": "assigned without running",
    },
    "rota.v1.Resource": {"state": "status.state", "running": "status.running"},
    "rota.v1.AuditLine": {"entry": "its own fields"},
    "rota.v1.WhyStream": {"thing": "stream", **_OF_RESOURCES},
    "rota.v1.WhyWork": _OF_RESOURCES,
    "rota.v1.StreamReset": {"is_backfilled": "backfill"},
    "rota.v1.Published": {"segments": "files", "file": "list"},
    "rota.v1.LogPart": {"run": "the request"},
}  # fmt: skip


def from_tally(tally: api_pb2.ResourceTally) -> ResourceTally:
    """The message counts of a resource, as another node answered them."""
    return ResourceTally(
        kind=tally.kind,
        resource=tally.resource,
        unique=tally.unique,
        duplicates=tally.duplicates,
        seen_by_one=tally.seen_by_one,
        last_s=given(tally, "last_s"),
    )


# What a node says of its services: as records if it is this one, as JSON if it is another


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A service in a node's list."""

    service: str
    admin: str | None = None
    admin_closed: str | None = None
    stat: ServiceStat | None = None
    error: str | None = None


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    services: list[_Row]
    error: str = ""


def _services(given: dict[str, Any], said: Any) -> Message:
    rows = _Rows(node=given["node"], services=msgspec.convert(said, list[_Row]))
    return encode(rows, services_pb2.NodeServices.DESCRIPTOR)


def _all_services(_: dict[str, Any], listed: steering.ServiceList) -> Message:
    nodes = [
        _Rows(node=each.node, services=msgspec.convert(each.services, list[_Row]), error=each.error)
        for each in listed.nodes
    ]
    return encode(_Services(nodes=nodes, as_of=listed.as_of), services_pb2.ServiceList.DESCRIPTOR)


class _Services(msgspec.Struct, frozen=True, kw_only=True):
    nodes: list[_Rows]
    as_of: Any


def _reloaded(_: dict[str, Any], said: Any) -> Message:
    return services_pb2.Reloaded(**msgspec.to_builtins(said))


def _cleared(_: dict[str, Any], said: Any) -> Message:
    dropped = {str(group): count for group, count in said["dropped"].items()}
    return services_pb2.ServiceCleared(service=said["service"], dropped=dropped)


def _resized(_: dict[str, Any], said: Any) -> Message:
    return services_pb2.ServiceResized(**said)


WRITE |= {
    "node_services": _services,
    "list_services": _all_services,
    "reload_node": _reloaded,
    "rollback_node": _reloaded,
    "clear_service": _cleared,
    "resize_service": _resized,
}
