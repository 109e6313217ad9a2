"""The API's records as messages of `proto/rota/v1/api.proto`, and its requests as fields for the operations.

What a caller may leave out without meaning anything is `optional` in the contract; here it is then left out of the
fields too, so that defaults are those of the operations and of nobody else.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from rota.api.hooks import HookView, joined
from rota.api.overview import LeaderView, Overview
from rota.api.pb import api_pb2 as pb
from rota.api.relays import RelayList, RelayView
from rota.api.schema import CHANGEABLE, IdlestNode, NodeList, NodeView, ResourcePage, ResourceView, Why
from rota.api.watching import Happened, ResourceChange
from rota.control.preview import Preview
from rota.kit import collector, durations
from rota.model.errors import Invalid
from rota.model.event import Event
from rota.model.ids import Revision
from rota.model.node import NodeLoad
from rota.model.relay import RelayMap, RelayStatus, ResourceTally, SinkStatus
from rota.model.resource import Affinity, Cordon, Drain, KindRecord, ResourceStatus, Trouble, state_of
from rota.store.events import Reading

# Requests


def from_create(request: pb.CreateResourceRequest) -> dict[str, object]:
    """The fields of a new resource; those that are empty are left out."""
    wanted = _given(request, "priority", "replicas", "cost", "pin")
    if request.spec_json:
        wanted["spec"] = from_json("spec_json", request.spec_json)
    if request.labels:
        wanted["labels"] = dict(request.labels)
    if request.tags:
        wanted["tags"] = dict(request.tags)
    if request.HasField("affinity"):
        wanted["affinity"] = _affinity(request.affinity)
    return {name: text for name, text in (("kind", request.kind), ("id", request.id)) if text} | wanted


def from_update(request: pb.UpdateResourceRequest) -> dict[str, object]:
    """The fields to change; None for those to put back to their defaults."""
    changes = _given(request, "priority", "replicas", "cost", "pin")
    if request.HasField("spec_json"):
        changes["spec"] = from_json("spec_json", request.spec_json)
    if request.HasField("labels"):
        changes["labels"] = dict(request.labels.labels)
    if request.HasField("tags"):
        changes["tags"] = dict(request.tags.labels)
    if request.HasField("affinity"):
        changes["affinity"] = _affinity(request.affinity)
    for name in request.reset:
        if name not in CHANGEABLE:
            raise Invalid(f'reset: there is no field "{name}" to put back; there are {", ".join(CHANGEABLE)}')
        if name in changes:
            raise Invalid(f"{name} is both changed and reset; choose one")
        changes[name] = None
    return changes


def from_hook(request: pb.CreateHookRequest) -> dict[str, object]:
    """The fields of a new hook; those that are empty are left out."""
    fields: dict[str, object] = _given(request, "retries", "per_minute", "enabled")
    fields |= {name: value for name in ("name", "url") if (value := getattr(request, name))}
    fields |= {name: list(value) for name in ("events", "command") if (value := getattr(request, name))}
    timeout = from_duration(request, "timeout")
    return fields if timeout is None else {**fields, "timeout": timeout}


def given(request: Message, name: str) -> Any:
    """An optional field; None if it was left out."""
    return getattr(request, name) if request.HasField(name) else None


def from_duration(request: Message, name: str) -> timedelta | None:
    """A field that is a duration, if it was given."""
    told = given(request, name)
    try:
        return None if told is None else _duration(told)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is not a possible duration; use at most a minute") from None


def from_time(request: Message, name: str) -> datetime | None:
    """A field that is a time, if it was given."""
    told = given(request, name)
    try:
        return None if told is None else _time(told)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is no time that there can be; it must lie in the years 1 to 9999") from None


def from_after(request: Message) -> Revision | None:
    """Where a watch is to go on, if that was given."""
    told = given(request, "after")
    if told is not None and told < 0:
        raise Invalid(f"after is {told}; it must be the resume of a message that was sent, or be left out")
    return None if told is None else Revision(told)


def _affinity(told: pb.Affinity) -> dict[str, object]:
    return {name: dict(getattr(told, name)) for name in Affinity.__struct_fields__ if getattr(told, name)}


def _given(request: Message, *names: str) -> dict[str, object]:
    return {name: getattr(request, name) for name in names if request.HasField(name)}


def from_json(name: str, text: str) -> object:
    """What a field holds that is JSON."""
    try:
        with collector.paused():
            return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{name} is not JSON: {error}") from None
    except RecursionError:
        raise Invalid(f"{name} is nested too deeply; send a plainer one") from None


def _duration(told: Duration) -> timedelta:
    return told.ToTimedelta()


def _time(told: Timestamp) -> datetime:
    return told.ToDatetime(tzinfo=UTC)


# Answers


def to_resource(view: ResourceView) -> pb.Resource:
    """A resource, and how it is covered."""
    return pb.Resource(
        kind=view.kind,
        id=view.id,
        uid=view.uid,
        version=view.version,
        created=_timestamp(view.created),
        origin=view.origin,
        spec_json=msgspec.json.encode(view.spec).decode(),
        priority=view.priority,
        replicas=view.replicas,
        cost=view.cost,
        labels=view.labels,
        pin=view.pin,
        tags=view.tags,
        affinity=pb.Affinity(**msgspec.structs.asdict(view.affinity)),
        status=_status(view.status) if view.status else None,
    )


def to_page(page: ResourcePage) -> pb.ResourcePage:
    """Some resources."""
    return pb.ResourcePage(
        resources=[to_resource(view) for view in page.resources],
        revision=page.revision,
        next=page.next or "",
        not_understood=page.not_understood,
    )


def to_kinds(kinds: tuple[KindRecord, ...], next: str | None) -> pb.KindList:
    """A page of kinds of resources."""
    return pb.KindList(kinds=[_kind(kind) for kind in kinds], next=next or "")


def to_nodes(listed: NodeList) -> pb.NodeList:
    """A page of nodes."""
    nodes = [to_node(view) for view in listed.nodes]
    return pb.NodeList(nodes=nodes, as_of=_timestamp(listed.as_of), next=listed.next or "")


def to_drain(drain: Drain) -> pb.DrainAnswer:
    """Since when, why and until when a node's tasks move away."""
    return pb.DrainAnswer(
        node=drain.node,
        since=_timestamp(drain.since),
        deadline=_timestamp(drain.deadline) if drain.deadline else None,
        why=drain.why,
        tasks=drain.tasks,
    )


def to_plan(preview: Preview) -> pb.PlanAnswer:
    """What the leader would do."""
    return pb.PlanAnswer(
        moves=[
            pb.PlannedMove(task=move.task, source=move.source or "", target=move.target or "", why=move.why)
            for move in preview.moves
        ],
        pending=preview.pending,
        nodes=[
            pb.PlannedNode(id=node.id, slots=node.slots, before=node.before, after=node.after) for node in preview.nodes
        ],
    )


def to_idlest(found: IdlestNode) -> pb.IdlestAnswer:
    """The node that has least to do."""
    return pb.IdlestAnswer(
        node=found.node,
        score=found.score,
        executors_free=found.executors_free,
        http=found.http,
        grpc=found.grpc,
        as_of=_timestamp(found.as_of),
    )


def to_hook(view: HookView) -> pb.Hook:
    """A hook, and what became of its deliveries."""
    return pb.Hook(
        name=view.name,
        events=view.events,
        url=view.url,
        command=view.command,
        timeout=_span(durations.parse(view.timeout)),
        retries=view.retries,
        per_minute=view.per_minute,
        enabled=view.enabled,
        created=_timestamp(view.created),
        waiting=view.waiting,
        delivered=view.status.delivered,
        failed=view.status.failed,
        error=joined(view.status.error, view.status.output),
    )


def to_cordon(cordon: Cordon) -> pb.CordonAnswer:
    """Since when and why a node gets no new tasks."""
    return pb.CordonAnswer(node=cordon.node, since=_timestamp(cordon.since), why=cordon.why)


def to_why(why: Why) -> pb.WhyAnswer:
    """Why something is as it is."""
    return pb.WhyAnswer(
        thing=why.thing,
        says=why.says,
        chosen=why.chosen,
        refusals=why.refusals,
        holds=why.holds,
        reasons=why.reasons,
        remedies=why.remedies,
    )


def to_change(change: ResourceChange) -> pb.ResourceChange:
    """What a watch of resources tells."""
    resource = to_resource(change.resource) if change.resource else None
    return pb.ResourceChange(what=change.what, resource=resource, why=change.why, resume=change.resume)


def to_happened(one: Happened) -> pb.Happened:
    """What a watch of events tells."""
    return pb.Happened(event=_event(one.event) if one.event else None, resume=one.resume)


def to_overview(seen: Overview) -> pb.OverviewAnswer:
    """The fleet at a glance."""
    return pb.OverviewAnswer(
        as_of=_timestamp(seen.as_of),
        leader=_leader(seen.leader) if seen.leader else None,
        nodes=seen.nodes,
        nodes_up=seen.nodes_up,
        slots=seen.slots,
        used=seen.used,
        tasks=seen.tasks,
        tasks_running=seen.tasks_running,
        failing=seen.failing,
        resources=seen.resources,
        pending=seen.pending,
        jobs=seen.jobs,
        runs=seen.runs,
        streams=seen.streams,
        lag=seen.lag,
        published=seen.published,
        spooled=seen.spooled,
        insecure=seen.insecure,
        concerns=[
            pb.Concern(severity=each.severity, about=each.about, subject=each.subject, text=each.text)
            for each in seen.concerns
        ],
        concerns_left_out=seen.concerns_left_out,
    )


def to_relays(listed: RelayList) -> pb.RelayList:
    """Every relay."""
    return pb.RelayList(
        relays=[_relay(view) for view in listed.relays],
        map=_relay_map(listed.map) if listed.map else None,
        as_of=_timestamp(listed.as_of),
    )


def to_tally(tally: ResourceTally) -> pb.ResourceTally:
    """What was counted of a resource's messages."""
    return pb.ResourceTally(
        kind=tally.kind,
        resource=tally.resource,
        unique=tally.unique,
        duplicates=tally.duplicates,
        seen_by_one=tally.seen_by_one,
        last_s=tally.last_s,
    )


def from_tally(told: pb.ResourceTally) -> ResourceTally:
    """The same, as another node answered it."""
    return ResourceTally(
        kind=told.kind,
        resource=told.resource,
        unique=told.unique,
        duplicates=told.duplicates,
        seen_by_one=told.seen_by_one,
        last_s=given(told, "last_s"),
    )


def to_events(reading: Reading) -> pb.EventList:
    """What happened."""
    events = [_event(event) for event in reading.events]
    return pb.EventList(events=events, revision=reading.revision, next=reading.next or "")


def _leader(leader: LeaderView) -> pb.LeaderView:
    return pb.LeaderView(node=leader.node, term=leader.term, since=_timestamp(leader.since), age_s=leader.age_s)


def _status(status: ResourceStatus) -> pb.ResourceStatus:
    places = [each.partition("|") for each in status.AssignedNode.split(",") if each]
    return pb.ResourceStatus(
        replicas=status.replicas,
        assigned=status.assigned,
        places=[pb.Place(node=node, address=address) for node, _, address in places],
        pending=status.pending,
        chosen=status.chosen,
        refusals=status.refusals,
        moving=status.moving,
        given_back=_given_back(status.given_back) if status.given_back else None,
        failing=status.failing or {},
        running=status.running,
        state=state_of(status),
    )


def _given_back(trouble: Trouble) -> pb.GivenBack:
    return pb.GivenBack(node=trouble.node, at=_timestamp(trouble.at), why=trouble.why, strikes=trouble.strikes)


def _kind(kind: KindRecord) -> pb.Kind:
    return pb.Kind(
        name=kind.name,
        app=kind.app,
        replicas=kind.replicas,
        exclusive=kind.exclusive,
        runs_alone=kind.runs_alone,
        silent_after=_span(kind.silent_after),
        start_within=_span(kind.start_within),
        labels=kind.labels,
        schema_json=None if kind.schema is None else msgspec.json.encode(kind.schema).decode(),
    )


def to_node(view: NodeView) -> pb.Node:
    """One node."""
    return pb.Node(
        id=view.id,
        is_up=view.is_up,
        leads=view.leads,
        role=view.role or "",
        host=view.host,
        http=view.http,
        grpc=view.grpc,
        labels=view.labels,
        app=view.app,
        kinds=view.kinds,
        slots=view.slots,
        used=view.used,
        tasks=view.tasks,
        cordon=to_cordon(view.cordon) if view.cordon else None,
        drain=to_drain(view.drain) if view.drain else None,
        since=_timestamp(view.since) if view.since else None,
        age_s=view.age_s,
        version=view.version,
        not_understood=view.not_understood,
        configured_slots=view.configured_slots,
        load=_load(view.load) if view.load else None,
        standing=view.standing,
        standing_why=view.standing_why,
        insecure=view.insecure,
        generation=view.generation,
        code=view.code,
        app_version=view.app_version,
        daemons=view.daemons,
        configured_labels=view.configured_labels,
    )


def _load(load: NodeLoad) -> pb.NodeLoad:
    return pb.NodeLoad(
        score=load.score,
        cpu=load.cpu,
        memory=load.memory,
        executors=load.executors,
        executors_used=load.executors_used,
    )


def _relay(view: RelayView) -> pb.Relay:
    return pb.Relay(
        node=view.node,
        is_home=view.is_home,
        status=_relay_status(view.status) if view.status else None,
        age_s=view.age_s,
        not_understood=view.not_understood,
    )


def _relay_map(relay_map: RelayMap) -> pb.RelayMap:
    return pb.RelayMap(version=relay_map.version, nodes=relay_map.nodes, before=relay_map.before)


def _relay_status(status: RelayStatus) -> pb.RelayStatus:
    return pb.RelayStatus(
        address=status.address,
        since=_timestamp(status.since),
        map_version=status.map_version,
        is_moving=status.is_moving,
        is_leaving=status.is_leaving,
        unreached=status.unreached,
        waiting=status.waiting,
        lines=status.lines,
        window=status.window,
        passed_on=status.passed_on,
        refused=status.refused,
        sinks=[_sink(sink) for sink in status.sinks],
    )


def _sink(sink: SinkStatus) -> pb.SinkStatus:
    return pb.SinkStatus(
        sink=sink.sink,
        state=sink.state,
        published=sink.published,
        confirmed=sink.confirmed,
        rejected=sink.rejected,
        waiting=sink.waiting,
        under_way=sink.under_way,
        spool_messages=sink.spool_messages,
        spool_bytes=sink.spool_bytes,
        spool_limit=sink.spool_limit,
        last_error=sink.last_error,
    )


def _event(event: Event) -> pb.Event:
    return pb.Event(
        id=event.id,
        at=_timestamp(event.at),
        kind=event.kind,
        subject=event.subject,
        node=event.node,
        severity=event.severity,
        text=event.text,
        fields_json=msgspec.json.encode(event.fields).decode(),
    )


def to_time(at: datetime | None) -> Timestamp | None:
    """A time as it is written; None is left out."""
    return None if at is None else _timestamp(at)


def _timestamp(at: datetime) -> Timestamp:
    told = Timestamp()
    told.FromDatetime(at.astimezone(UTC))
    return told


def _span(duration: timedelta) -> Duration:
    told = Duration()
    told.FromTimedelta(duration)
    return told
