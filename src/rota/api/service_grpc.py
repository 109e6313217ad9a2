"""What is asked of one node alone, over gRPC: its services, and that it takes in new code or goes back.

What a node says comes as records from this one and as JSON from another; here both become the same messages.
"""

from typing import Any

import msgspec

from rota.api import steering, wire
from rota.api.methods import Call, Method, Stream
from rota.api.pb import services_pb2 as pb
from rota.model.service import ServiceStat


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A service in a node's list."""

    service: str
    admin: str | None = None
    admin_closed: str | None = None
    stat: ServiceStat | None = None
    error: str | None = None


async def _list(call: Call, _: pb.ListServicesRequest) -> pb.ServiceList:
    listed = await steering.list_services(call.store, call.behind.steer)
    return pb.ServiceList(
        nodes=[_node(each.node, each.services, each.error) for each in listed.nodes], as_of=wire.to_time(listed.as_of)
    )


async def _of_node(call: Call, request: pb.NodeServicesRequest) -> pb.NodeServices:
    return _node(request.node, await steering.node_services(call.behind.steer, request.node))


async def _reload(call: Call, request: pb.ReloadRequest) -> pb.Reloaded:
    call.note("reload_node", request.node)
    return _reloaded(await steering.reload_node(call.behind.steer, request.node))


async def _rollback(call: Call, request: pb.RollbackRequest) -> pb.Reloaded:
    call.note("rollback_node", request.node)
    return _reloaded(await steering.rollback_node(call.behind.steer, request.node))


async def _clear(call: Call, request: pb.ClearServiceRequest) -> pb.ServiceCleared:
    groups = list(request.groups) or None
    call.note("clear_service", request.node, request.service, str(groups or "all"))
    done = await steering.clear_service(call.behind.steer, request.node, request.service, groups)
    dropped = {str(group): count for group, count in done["dropped"].items()}
    return pb.ServiceCleared(service=done["service"], dropped=dropped)


async def _resize(call: Call, request: pb.ResizeServiceRequest) -> pb.ServiceResized:
    call.note("resize_service", request.node, request.service, str(request.group), str(request.count))
    done = await steering.resize_service(call.behind.steer, request.node, request.service, request.group, request.count)
    return pb.ServiceResized(**done)


# Answers


def _node(node: str, services: list[Any], error: str = "") -> pb.NodeServices:
    return pb.NodeServices(node=node, services=map(_service, services), error=error)


def _service(said: Any) -> pb.Service:
    row = msgspec.convert(said, _Row)
    return pb.Service(
        service=row.service,
        admin=row.admin,
        admin_closed=row.admin_closed,
        stat=_stat(row.stat) if row.stat else None,
        error=row.error,
    )


def _stat(stat: ServiceStat) -> pb.ServiceStat:
    """The figures; the contract names them as the record does."""
    latencies = {name: _latencies(getattr(stat, name)) for name in ("groups", "cmds")}
    slow = [pb.SlowRequest(**msgspec.structs.asdict(each)) for each in stat.slow]
    return pb.ServiceStat(**{**msgspec.structs.asdict(stat), **latencies, "slow": slow})


def _latencies(found: dict[str, Any]) -> dict[str, pb.Latency]:
    return {name: pb.Latency(**msgspec.structs.asdict(latency)) for name, latency in found.items()}


def _reloaded(said: Any) -> pb.Reloaded:
    return pb.Reloaded(**msgspec.to_builtins(said))


METHODS: dict[str, Method | Stream] = {
    "rota.v1.Services.List": Method("list_services", _list),
    "rota.v1.Services.OfNode": Method("node_services", _of_node),
    "rota.v1.Services.Reload": Method("reload_node", _reload),
    "rota.v1.Services.Rollback": Method("rollback_node", _rollback),
    "rota.v1.Services.Clear": Method("clear_service", _clear),
    "rota.v1.Services.Resize": Method("resize_service", _resize),
}
"""What answers each method of the contract."""
