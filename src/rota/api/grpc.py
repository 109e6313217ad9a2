"""The operations over gRPC: each request is decoded, one operation is called, its answer is encoded.

`handlers` gives what `rpc.open.serve_link` takes as `more`: the API has no port of its own, it shares the node link's.
The contracts are those in `proto/rota/v1` and, as seed 001 wrote it, `proto/crawler.proto`; which messages a method
takes is read from them, so `METHODS` says only which operation answers.

A caller's deadline bounds how long we wait for the leader on its behalf: it is answered a moment before.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from datetime import timedelta
from typing import Any, TypeVar

import grpc
from google.protobuf import empty_pb2, message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from rota.api import (
    crawler,
    hooks,
    introspection,
    job_grpc,
    labels,
    operations,
    overview,
    planning,
    relays,
    safety_grpc,
    service_grpc,
    stream_grpc,
    watching,
    wire,
)
from rota.api.behind import Behind
from rota.api.doorkeeper import Doorkeeper
from rota.api.health import Health
from rota.api.methods import NOBODY, Call, Method, Stream
from rota.api.pb import api_pb2 as pb
from rota.api.pb import crawler_pb2, jobs_pb2, safety_pb2, services_pb2, streams_pb2
from rota.api.refusals import LARGEST, Context, TooLarge, guarded, read, send, write
from rota.api.watches import Watches
from rota.decide.access import Access, Admitted, TurnedAway
from rota.kit.record import replace
from rota.model.errors import Invalid, Unavailable
from rota.rpc.address import caller_address

T = TypeVar("T")

KEY = "idempotency-key"
STALLED = 30.0
"""Seconds a caller may take nothing of what is sent to it."""


def handlers(
    behind: Behind, health: Health, stopping: asyncio.Event, doorkeeper: Doorkeeper | None = None
) -> list[grpc.GenericRpcHandler]:
    """What answers; `stopping` ends the streams. The doorkeeper says who calls; without one nobody is known."""

    def handler(described: MethodDescriptor) -> "grpc.RpcMethodHandler[Any, Any]":
        match METHODS[described.full_name]:
            case Stream() as stream:
                return _stream_handler(described, stream, behind, doorkeeper)
            case method:
                return _handler(described, method, behind, doorkeeper)

    offered = [
        grpc.method_handlers_generic_handler(
            service.full_name,
            {method.name: handler(method) for method in service.methods},
        )
        for service in SERVICES
    ]
    return [*offered, *introspection.handlers(SERVICES, health, stopping)]


def needed(path: str) -> Access | None:
    """What a caller of `/service/method` must be allowed to do; None: anybody may.

    Whatever is not the API's is the node link's, or nobody's: that is for nodes.
    """
    service, _, method = path.removeprefix("/").partition("/")
    if service == introspection.HEALTH.full_name:
        return None
    if service in (introspection.REFLECTION.full_name, introspection.OLDER_REFLECTION):
        return Access.VIEW
    found = METHODS.get(f"{service}.{method}")
    return operations.OPERATIONS[found.operation] if found else Access.NODE


def turned_away(doorkeeper: Doorkeeper, path: str, authorization: str | None) -> TurnedAway | None:
    """Why a call is not let in; None if it is."""
    access = needed(path)
    judged = doorkeeper.judge(authorization, access) if access else None
    return judged if isinstance(judged, TurnedAway) else None


def _handler(
    described: MethodDescriptor, method: Method, behind: Behind, doorkeeper: Doorkeeper | None
) -> "grpc.RpcMethodHandler[Any, Any]":
    kind = message_factory.GetMessageClass(described.input_type)

    async def answer(content: bytes, context: Context) -> bytes:
        request, remaining = read(kind, content), context.time_remaining()
        left = None if remaining is None else timedelta(seconds=remaining)
        _refuse_key(method.operation, context)
        caller = _caller(doorkeeper, context)
        origin = f"grpc {caller_address(context.peer())}"
        store = behind.store_for(caller.name, origin, method.operation)
        call = Call(store, behind, left, caller, origin)
        if method.operation not in operations.HEAVY:
            return write(await method.answer(call, request))
        async with behind.budget.heavy(caller.name):
            return write(await method.answer(call, request))

    async def handle(content: bytes, context: Context) -> bytes:
        return await guarded(
            context, _within_budget(behind, doorkeeper, context, answer(content, context)), method.conflict
        )

    return grpc.unary_unary_rpc_method_handler(handle)


def _stream_handler(
    described: MethodDescriptor, stream: Stream, behind: Behind, doorkeeper: Doorkeeper | None
) -> "grpc.RpcMethodHandler[Any, Any]":
    kind = message_factory.GetMessageClass(described.input_type)

    async def answer(content: bytes, context: Context) -> None:
        call = Call(behind.present_store(), behind, None)
        async with aclosing(stream.answer(call, behind.watches, read(kind, content))) as batches:
            async for batch in batches:
                for message in batch:
                    await _send(context, message)
        raise Unavailable("this node is stopping; ask another, or again later", code="stopping")

    async def handle(content: bytes, context: Context) -> None:
        await guarded(context, _within_budget(behind, doorkeeper, context, answer(content, context)))

    return grpc.unary_stream_rpc_method_handler(handle)


def _refuse_key(operation: str, context: Context) -> None:
    """Invalid if a change comes with an idempotency key in its metadata, which nothing would look at."""
    is_change = operations.OPERATIONS[operation] is not Access.VIEW
    if is_change and any(key == KEY for key, _ in context.invocation_metadata() or ()):
        raise Invalid(
            f"metadata {KEY} has no effect over gRPC; rota.v1.Resources/Create and rota.v1.Jobs/Start take the field "
            "idempotency_key, other changes take a key over HTTP alone"
        )


async def _within_budget(
    behind: Behind, doorkeeper: Doorkeeper | None, context: Context, work: Coroutine[Any, Any, T]
) -> T:
    """What `work` returns, charged to the caller; Busy if that has used up its share."""
    who, has_begun = _caller(doorkeeper, context).name, False
    try:
        async with behind.budget.admit(who):
            has_begun = True
            return await behind.budget.timed(who, work)
    finally:
        if not has_begun:
            work.close()


def _caller(doorkeeper: Doorkeeper | None, context: Context) -> Admitted:
    """Who calls; the guard has let it in already."""
    shown = next((str(value) for key, value in context.invocation_metadata() or () if key == "authorization"), None)
    judged = doorkeeper.judge(shown, Access.VIEW) if doorkeeper else NOBODY
    return judged if isinstance(judged, Admitted) else NOBODY


async def _send(context: Context, message: Message) -> None:
    try:
        async with asyncio.timeout(STALLED):
            await send(context, message)
    except TimeoutError:
        raise TooLarge(f"the caller took nothing for {STALLED:.0f} s; read faster, or watch less") from None


# Resources


async def _create(call: Call, request: pb.CreateResourceRequest) -> pb.Resource:
    wait = wire.from_duration(request, "wait")
    operations.check_wait(wait)
    made = await operations.create_resource(
        call.store,
        call.clock,
        wire.from_create(request),
        key=wire.given(request, "idempotency_key"),
        wait=None if wait is None else call.bounded(wait),
        by=call.caller.name,
    )
    return wire.to_resource(made)


async def _get(call: Call, request: pb.GetResourceRequest) -> pb.Resource:
    return wire.to_resource(await operations.get_resource(call.store, request.kind, request.id))


async def _list(call: Call, request: pb.ListResourcesRequest) -> pb.ResourcePage:
    """A page; one that would be too large is asked for again with fewer."""
    limit = wire.given(request, "limit")
    limit = operations.PAGE if limit is None else limit
    while True:
        page = await operations.list_resources(
            call.store,
            kind=wire.given(request, "kind"),
            prefix=request.prefix,
            pending=request.pending,
            limit=limit,
            token=request.token or None,
        )
        answer = wire.to_page(page)
        if answer.ByteSize() <= LARGEST or limit == 1:
            return answer
        limit //= 2


async def _watch(
    call: Call, watches: Watches, request: pb.WatchResourcesRequest
) -> AsyncGenerator[list[Message], None]:
    changes = watching.watch_resources(
        call.store, kind=wire.given(request, "kind"), prefix=request.prefix, after=wire.from_after(request)
    )
    async with aclosing(watches.each(changes)) as batches:
        async for batch in batches:
            yield [wire.to_change(change) for change in batch or ()]


async def _update(call: Call, request: pb.UpdateResourceRequest) -> pb.Resource:
    changed = await operations.update_resource(
        call.store, request.kind, request.id, wire.from_update(request), version=wire.given(request, "version")
    )
    return wire.to_resource(changed)


async def _delete(call: Call, request: pb.DeleteResourceRequest) -> pb.Resource:
    version = wire.given(request, "version")
    return wire.to_resource(await operations.delete_resource(call.store, request.kind, request.id, version=version))


async def _kinds(call: Call, request: pb.ListKindsRequest) -> pb.KindList:
    page, further = call.page(request, await operations.list_kinds(call.store), lambda kind: kind.name)
    return wire.to_kinds(page, further)


async def _messages(call: Call, request: pb.CountMessagesRequest) -> pb.ResourceTally:
    return wire.to_tally(await relays.count_messages(call.store, call.tallies, request.kind, request.id))


async def _why_resource(call: Call, request: pb.WhyResourceRequest) -> pb.WhyAnswer:
    return wire.to_why(await operations.why_resource(call.store, request.kind, request.id))


async def _why_source(call: Call, request: pb.WhySourceRequest) -> pb.WhyAnswer:
    return wire.to_why(await operations.why_source(call.store, request.kind))


# The fleet, nodes, events


async def _overview(call: Call, _: pb.OverviewRequest) -> pb.OverviewAnswer:
    return wire.to_overview(await overview.overview(call.store))


async def _nodes(call: Call, request: pb.ListNodesRequest) -> pb.NodeList:
    listed = await operations.list_nodes(call.store)
    page, further = call.page(request, listed.nodes, lambda node: node.id)
    return wire.to_nodes(replace(listed, nodes=page, next=further))


async def _get_node(call: Call, request: pb.GetNodeRequest) -> pb.Node:
    return wire.to_node(await operations.get_node(call.store, request.node))


async def _idlest(call: Call, _: pb.IdlestRequest) -> pb.IdlestAnswer:
    return wire.to_idlest(await operations.idlest_node(call.store))


async def _relays(call: Call, request: pb.ListRelaysRequest) -> pb.RelayList:
    return wire.to_relays(await relays.list_relays(call.store, node=wire.given(request, "node")))


async def _cordon(call: Call, request: pb.CordonRequest) -> pb.CordonAnswer:
    return wire.to_cordon(await operations.cordon_node(call.store, call.clock, request.node, request.why))


async def _uncordon(call: Call, request: pb.UncordonRequest) -> pb.UncordonAnswer:
    had_one = await operations.uncordon_node(call.store, request.node)
    return pb.UncordonAnswer(node=request.node, was_cordoned=had_one)


async def _drain(call: Call, request: pb.DrainRequest) -> pb.DrainAnswer:
    deadline = wire.from_duration(request, "deadline")
    return wire.to_drain(await operations.drain_node(call.store, request.node, why=request.why, deadline=deadline))


async def _undrain(call: Call, request: pb.UndrainRequest) -> pb.UndrainAnswer:
    had_one = await operations.undrain_node(call.store, request.node)
    return pb.UndrainAnswer(node=request.node, was_drained=had_one)


async def _plan(call: Call, request: pb.PlanRequest) -> pb.PlanAnswer:
    preview = await planning.plan(
        call.store,
        rebalance=request.rebalance,
        without=list(request.without),
        add=request.add,
        like=request.like,
    )
    return wire.to_plan(preview)


async def _set_slots(call: Call, request: pb.SetSlotsRequest) -> pb.SlotsAnswer:
    given = await operations.set_slots(call.store, call.clock, request.node, wire.given(request, "slots"))
    return pb.SlotsAnswer(node=request.node, slots=given.slots if given else None)


async def _label_node(call: Call, request: pb.LabelNodeRequest) -> pb.LabelsAnswer:
    wanted = {**dict.fromkeys(request.remove), **request.labels}
    done = await labels.label_node(call.store, call.clock, request.node, wanted, reset=request.reset)
    return pb.LabelsAnswer(node=done.node, labels=done.labels)


async def _why_node(call: Call, request: pb.WhyNodeRequest) -> pb.WhyAnswer:
    return wire.to_why(await operations.why_node(call.store, request.node))


async def _events(call: Call, request: pb.ListEventsRequest) -> pb.EventList:
    limit = wire.given(request, "limit")
    reading = await operations.read_events(
        call.store,
        since=wire.from_time(request, "since"),
        until=wire.from_time(request, "until"),
        kinds=list(request.kinds),
        node=wire.given(request, "node"),
        limit=50 if limit is None else limit,
        token=request.token,
    )
    return wire.to_events(reading)


async def _watch_events(
    call: Call, watches: Watches, request: pb.WatchEventsRequest
) -> AsyncGenerator[list[Message], None]:
    limit = wire.given(request, "limit")
    coming = watching.watch_events(
        call.store,
        kinds=list(request.kinds),
        node=wire.given(request, "node"),
        limit=50 if limit is None else limit,
        after=wire.from_after(request),
    )
    async with aclosing(watches.each(coming)) as batches:
        async for batch in batches:
            yield [wire.to_happened(one) for one in batch or ()]


# Hooks


async def _hooks(call: Call, request: pb.ListHooksRequest) -> pb.HookList:
    found = await hooks.list_hooks(call.store, call.caller.access)
    page, further = call.page(request, found, lambda view: view.name)
    return pb.HookList(hooks=map(wire.to_hook, page), next=further or "")


async def _get_hook(call: Call, request: pb.GetHookRequest) -> pb.Hook:
    return wire.to_hook(await hooks.get_hook(call.store, request.name, call.caller.access))


async def _create_hook(call: Call, request: pb.CreateHookRequest) -> pb.Hook:
    return wire.to_hook(await hooks.create_hook(call.store, call.clock, wire.from_hook(request)))


async def _enable_hook(call: Call, request: pb.EnableHookRequest) -> pb.EnableHookAnswer:
    changed = await hooks.enable_hook(call.store, request.name, request.enabled)
    return pb.EnableHookAnswer(name=changed.name, enabled=changed.enabled)


async def _delete_hook(call: Call, request: pb.DeleteHookRequest) -> pb.DeleteHookAnswer:
    return pb.DeleteHookAnswer(name=(await hooks.delete_hook(call.store, request.name)).name)


async def _try_hook(call: Call, request: pb.TestHookRequest) -> pb.TestHookAnswer:
    trial = await hooks.try_hook(call.store, call.clock, request.name, call.caller.access)
    return pb.TestHookAnswer(hook=trial.hook, event=trial.event, error=hooks.joined(trial.error, trial.output))


# The master of seed 001


async def _add(call: Call, request: crawler_pb2.ResourceSpec) -> crawler_pb2.NodeSpec:
    node = await crawler.add_resource(call.store, call.clock, request.name, call.bounded(crawler.WAIT))
    return crawler_pb2.NodeSpec(id=node.id, Address=node.Address)


async def _remove(call: Call, request: crawler_pb2.ResourceSpec) -> empty_pb2.Empty:
    await crawler.remove_resource(call.store, request.name)
    return empty_pb2.Empty()


SERVICES: tuple[ServiceDescriptor, ...] = (
    *pb.DESCRIPTOR.services_by_name.values(),
    *jobs_pb2.DESCRIPTOR.services_by_name.values(),
    *streams_pb2.DESCRIPTOR.services_by_name.values(),
    *services_pb2.DESCRIPTOR.services_by_name.values(),
    *safety_pb2.DESCRIPTOR.services_by_name.values(),
    *crawler_pb2.DESCRIPTOR.services_by_name.values(),
)
METHODS: dict[str, Method | Stream] = {
    "rota.v1.Fleet.Overview": Method("overview", _overview),
    "rota.v1.Resources.Create": Method("create_resource", _create, conflict=grpc.StatusCode.ALREADY_EXISTS),
    "rota.v1.Resources.Get": Method("get_resource", _get),
    "rota.v1.Resources.List": Method("list_resources", _list),
    "rota.v1.Resources.Watch": Stream("watch_resources", _watch),
    "rota.v1.Resources.Update": Method("update_resource", _update),
    "rota.v1.Resources.Delete": Method("delete_resource", _delete),
    "rota.v1.Resources.ListKinds": Method("list_kinds", _kinds),
    "rota.v1.Resources.Why": Method("why_resource", _why_resource),
    "rota.v1.Resources.WhySource": Method("why_source", _why_source),
    "rota.v1.Resources.CountMessages": Method("count_messages", _messages),
    "rota.v1.Nodes.List": Method("list_nodes", _nodes),
    "rota.v1.Nodes.Get": Method("get_node", _get_node),
    "rota.v1.Nodes.Idlest": Method("idlest_node", _idlest),
    "rota.v1.Nodes.Cordon": Method("cordon_node", _cordon),
    "rota.v1.Nodes.Uncordon": Method("uncordon_node", _uncordon),
    "rota.v1.Nodes.Drain": Method("drain_node", _drain),
    "rota.v1.Nodes.Undrain": Method("undrain_node", _undrain),
    "rota.v1.Placement.Plan": Method("plan", _plan),
    "rota.v1.Nodes.SetSlots": Method("set_slots", _set_slots),
    "rota.v1.Nodes.Label": Method("label_node", _label_node),
    "rota.v1.Nodes.Why": Method("why_node", _why_node),
    "rota.v1.Relays.List": Method("list_relays", _relays),
    "rota.v1.Events.List": Method("read_events", _events),
    "rota.v1.Events.Watch": Stream("watch_events", _watch_events),
    "rota.v1.Hooks.List": Method("list_hooks", _hooks),
    "rota.v1.Hooks.Get": Method("get_hook", _get_hook),
    "rota.v1.Hooks.Create": Method("create_hook", _create_hook, conflict=grpc.StatusCode.ALREADY_EXISTS),
    "rota.v1.Hooks.Enable": Method("enable_hook", _enable_hook),
    "rota.v1.Hooks.Delete": Method("delete_hook", _delete_hook),
    "rota.v1.Hooks.Test": Method("try_hook", _try_hook),
    **job_grpc.METHODS,
    **stream_grpc.METHODS,
    **service_grpc.METHODS,
    **safety_grpc.METHODS,
    "CrawlerMaster.AddResource": Method("add_resource", _add),
    "CrawlerMaster.DeleteResource": Method("remove_resource", _remove),
}
"""What answers each method of the contracts."""
