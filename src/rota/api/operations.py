"""Operations: everything that can be asked of a fleet, as plain functions on its store.

Each door (HTTP, gRPC, the command line) reads a request, calls one of these, and writes the answer in its own way, so
that all of them allow and refuse the same. An operation says what its caller must be allowed to do, and how it is asked
(`api.verbs`). None of them needs the leader: they read and write records, and the leader follows the store.

Writes expect what they were decided on. Where the caller names no version, a write that came too late is decided again.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from rota.api import idempotency
from rota.api.bodies import DrainBody, ReasonBody, SlotsBody
from rota.api.idempotency import Note
from rota.api.parameters import (
    IfMatch,
    IsPending,
    KindName,
    KindsOfEvents,
    Limit,
    LimitOfEvents,
    NodeName,
    OfKind,
    OfNode,
    OnceKey,
    Prefix,
    ResourceId,
    Since,
    Token,
    TokenBack,
    Until,
    Wait,
)
from rota.api.schema import (
    EventPage,
    IdlestNode,
    KindPage,
    NodeList,
    NodeSlots,
    NodeView,
    ResourcePage,
    ResourceView,
    Uncordoned,
    Undrained,
    Why,
    kind_view,
    read_changes,
    read_resource,
    read_slots,
)
from rota.api.verbs import needs, verb
from rota.control.outlook import outlook
from rota.decide.access import Access
from rota.decide.listing import ORIGIN, explain, is_failing
from rota.decide.load import Candidate, NoneIdle, idlest
from rota.decide.peers import GONE, shown
from rota.decide.trouble import GIVEN_BACK, told
from rota.kit import durations
from rota.kit.clock import Clock
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.errors import Compacted, Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import Key, NodeId, Revision
from rota.model.node import Leader, Node, NodeLoad, NodeStatus
from rota.model.peers import NodeHealth, Standing, Strikes
from rota.model.resource import (
    Cordon,
    Drain,
    KindRecord,
    LabelsSet,
    Listing,
    Query,
    ResourceRecord,
    ResourceStatus,
    SlotsSet,
    Trouble,
    WantedResource,
    labelled,
    record_of,
)
from rota.model.stream import KIND as STREAM
from rota.store import events
from rota.store.follow import follow
from rota.store.port import Absent, At, Delete, Entry, Put, Store
from rota.store.records import understood
from rota.workloads.checks import Check, did_you_mean
from rota.workloads.resources.fit import check_replicas, check_spec

T = TypeVar("T")

PAGE = 100
MAX_PAGE = 1000
MAX_EVENTS = 1000
LONGEST_WAIT = timedelta(minutes=1)
TRIES = 5
"""How often a write without a version is decided again before somebody is told."""

SHOWN = 10
"""Refusals of one node that are told; there may be thousands."""

LATELY = timedelta(days=1)
"""How long `why` reports that a node gave a resource back."""


# Resources


@verb(
    "POST",
    "/v1/resources",
    Access.OPERATE,
    rpc="Resources.Create",
    body=WantedResource,
    makes=True,
    found_at="/v1/resources/{kind}/{id}",
    is_versioned=True,
    codes=("already_exists", "unknown_kind"),
)
async def create_resource(
    store: Store,
    clock: Clock,
    fields: Mapping[str, object],
    *,
    key: OnceKey = None,
    wait: Wait = None,
    by: str = "",
) -> ResourceView:
    """Make a resource. With `wait`, return when the leader has placed it or said why not, or when that time is over.

    `key` names the request of its caller: asked again with the same key and fields, it is the same resource.
    """
    wanted = read_resource(fields)
    check_wait(wait)
    made = await _created(store, clock, wanted, key, by)
    return await await_placement(store, made, wait) if wait else made


@needs(Access.VIEW)
async def await_placement(store: Store, view: ResourceView, wait: timedelta) -> ResourceView:
    """A resource when the leader has decided about it, or as it is when the time is over."""
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(wait.total_seconds()),
            aclosing(follow(store, keys.resource_status(view.kind, view.id))) as entries,
        ):
            async for entry in entries:
                view = view.with_status(status_of(entry, view.uid))
                if view.status and (view.status.pending or not view.is_pending):
                    break
    return view


@verb("GET", "/v1/resources/{kind}/{id}", Access.VIEW, rpc="Resources.Get", is_versioned=True)
async def get_resource(store: Store, kind: KindName, id: ResourceId) -> ResourceView:
    """A resource and how it is covered; NotFound if there is none."""
    entry, record = await _resource(store, kind, id)
    status = await store.get(keys.resource_status(kind, id))
    return view_of(record, entry.modified, status)


@verb("GET", "/v1/resources", Access.VIEW, rpc="Resources.List")
async def list_resources(
    store: Store,
    *,
    kind: OfKind = None,
    prefix: Prefix = "",
    pending: IsPending = False,
    limit: Limit = PAGE,
    token: Token = None,
) -> ResourcePage:
    """Resources in the order of kind and id: of one kind, with ids that begin so, only those that lack tasks.

    `token` is the `next` of the page before. Each page is read at a revision of its own.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")
    wanted = _Listed(kind, prefix, pending, limit)
    while True:
        with suppress(Compacted):  # somebody compacts without mercy
            return await _page(store, wanted, token)


@verb(
    "PATCH", "/v1/resources/{kind}/{id}", Access.OPERATE, rpc="Resources.Update", body=WantedResource, is_versioned=True
)
async def update_resource(
    store: Store, kind: KindName, id: ResourceId, changes: Mapping[str, object], *, version: IfMatch = None
) -> ResourceView:
    """Change some fields of a resource; Conflict if it is not at `version` any more."""
    _leave_to_its_stream(kind, id)

    async def attempt() -> ResourceView | None:
        entry, record = await _resource(store, kind, id)
        _expect_version(entry, version)
        changed, modified = read_changes(record, changes), entry.modified
        declared = await store.get(keys.kind(kind))
        if declared is not None:  # one that nobody declares any more may still be changed
            declaration = codec.decode(KindRecord, declared.value)
            check_replicas(declaration, changed.id, changed.replicas)
            if changed.spec != record.spec:  # an old spec may stay as it is, whatever the app has become
                check_spec(declaration, changed.id, changed.spec)
        if changed != record:
            revision = await _written(store, Put(entry.key, codec.encode(changed)), entry)
            if revision is None:
                return None
            modified = revision
        return view_of(changed, modified, await store.get(keys.resource_status(kind, id)))

    return await _until_in_time(f"{kind}/{id}", attempt)


@verb("DELETE", "/v1/resources/{kind}/{id}", Access.OPERATE, rpc="Resources.Delete", deletes=True)
async def delete_resource(store: Store, kind: KindName, id: ResourceId, *, version: IfMatch = None) -> ResourceView:
    """Delete a resource, and return it as it was. The leader stops its tasks."""
    _leave_to_its_stream(kind, id)

    async def attempt() -> ResourceView | None:
        entry, record = await _resource(store, kind, id)
        _expect_version(entry, version)
        status = await store.get(keys.resource_status(kind, id))
        was_deleted = await _written(store, Delete(entry.key), entry)
        return view_of(record, entry.modified, status) if was_deleted else None

    return await _until_in_time(f"{kind}/{id}", attempt)


@verb(
    "GET",
    "/v1/kinds",
    Access.VIEW,
    rpc="Resources.ListKinds",
    answer=KindPage,
    page_by=lambda kind: kind.name,
    shown=kind_view,
)
async def list_kinds(store: Store) -> tuple[KindRecord, ...]:
    """The kinds of resources that apps of this fleet have declared, by name; not those that stand for streams."""
    entries = (await store.scan(keys.KINDS)).entries
    kinds = [kind for entry in entries if (kind := understood(KindRecord, entry))]
    return tuple(kind for kind in kinds if not kind.name.startswith(STREAM))


# Nodes


@verb("GET", "/v1/nodes", Access.VIEW, rpc="Nodes.List", page_by=lambda node: node.id)
async def list_nodes(store: Store) -> NodeList:
    """Every node that is in the fleet, or that has a cordon or tasks."""
    now = await store.now()
    seen = await _seen_nodes(store)
    return NodeList(nodes=tuple(_node_view(id, seen, now) for id in sorted(seen.ids)), as_of=now)


@verb("GET", "/v1/nodes/{node}", Access.VIEW, rpc="Nodes.Get")
async def get_node(store: Store, node: NodeName) -> NodeView:
    """One node: what it offers, what of that is taken, and whether it gets more; NotFound if there is none."""
    seen = await _seen_nodes(store)
    if node not in seen.ids:
        raise await no_node(store, node)
    return _node_view(NodeId(node), seen, await store.now())


@verb("GET", "/v1/nodes/idlest", Access.VIEW, rpc="Nodes.Idlest", codes=("no_node",))
async def idlest_node(store: Store) -> IdlestNode:
    """The node that has least to do, of those that are reached and may have work; Unavailable says why not."""
    listed = await list_nodes(store)
    views = {view.id: view for view in listed.nodes}
    match idlest(_candidate(view) for view in listed.nodes):
        case NoneIdle(refusals):
            reasons = "; ".join(f"{node}: {why}" for node, why in refusals.items()) or "there are no nodes"
            raise Unavailable(f"no node is available ({reasons}); retry later", code="no_node")
        case found:
            view = views[found.node]
            return IdlestNode(
                node=found.node,
                score=found.score,
                executors_free=found.free,
                http=view.http,
                grpc=view.grpc,
                as_of=listed.as_of,
            )


@verb("POST", "/v1/nodes/{node}/cordon", Access.OPERATE, rpc="Nodes.Cordon", body=ReasonBody)
async def cordon_node(store: Store, clock: Clock, node: NodeName, why: str = "") -> Cordon:
    """Give a node no new tasks; it keeps those it has. One that is cordoned stays so since then."""
    _check_reason(why)
    before = await _cordon(store, node)
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    cordon = Cordon(node=NodeId(node), since=before.since if before else clock.wall(), why=why)
    if before is not None and why in ("", before.why):
        return before
    await store.commit(Put(keys.cordon(cordon.node), codec.encode(cordon)))
    return cordon


@verb("POST", "/v1/nodes/{node}/uncordon", Access.OPERATE, rpc="Nodes.Uncordon", answer=Uncordoned)
async def uncordon_node(store: Store, node: NodeName) -> bool:
    """Let a node have tasks again; whether it had a cordon."""
    key = keys.cordon(NodeId(node))
    if await store.get(key) is None:
        if await store.get(keys.node(NodeId(node))) is None:
            raise await no_node(store, node)
        return False
    await store.commit(Delete(key))
    return True


@verb("POST", "/v1/nodes/{node}/drain", Access.OPERATE, rpc="Nodes.Drain", body=DrainBody)
async def drain_node(store: Store, node: NodeName, *, why: str = "", deadline: timedelta | None = None) -> Drain:
    """Have a node's tasks move to others, each once another runs it there; it gets no new ones.

    What is still there after the deadline is stopped. Of a node that is drained already, the reason and the deadline
    may be changed so.
    """
    _check_reason(why)
    if deadline is not None:
        Check("node", node).duration("deadline", deadline)
    key = keys.drain(NodeId(node))
    before = understood(Drain, await store.get(key))
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    if before is not None and why in ("", before.why) and deadline is None:
        return before
    now = await store.now()  # the leader, on another machine, compares the deadline with the store's clock too
    drain = Drain(
        node=NodeId(node),
        since=before.since if before else now,
        deadline=now + deadline if deadline else before.deadline if before else None,
        why=why or (before.why if before else ""),
        tasks=before.tasks if before else len(await list_tasks(store, node)),
    )
    await store.commit(Put(key, codec.encode(drain)))
    return drain


@verb("POST", "/v1/nodes/{node}/undrain", Access.OPERATE, rpc="Nodes.Undrain", answer=Undrained)
async def undrain_node(store: Store, node: NodeName) -> bool:
    """Let a node keep the tasks it has left, and have new ones; whether it was drained."""
    key = keys.drain(NodeId(node))
    if await store.get(key) is None:
        if await store.get(keys.node(NodeId(node))) is None:
            raise await no_node(store, node)
        return False
    await store.commit(Delete(key))
    return True


@needs(Access.VIEW)
async def list_tasks(store: Store, node: str) -> list[str]:
    """The ids of the tasks that a node has to run."""
    begin = keys.assignments(NodeId(node))
    async with aclosing(scan_all(store, begin)) as entries:
        return [entry.key.removeprefix(begin) async for entry in entries]


@verb("PATCH", "/v1/nodes/{node}", Access.OPERATE, rpc="Nodes.SetSlots", body=SlotsBody, answer=NodeSlots)
async def set_slots(store: Store, clock: Clock, node: NodeName, slots: object) -> SlotsSet | None:
    """Give a node so many slots, whatever its settings say; None gives it back those. What is too much moves away."""
    wanted, key = read_slots(node, slots), keys.slots(NodeId(node))
    before = understood(SlotsSet, await store.get(key))
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    if wanted is None:
        await store.commit(Delete(key))
        return None
    if before is not None and before.slots == wanted:
        return before
    given = SlotsSet(node=NodeId(node), slots=wanted, since=clock.wall())
    await store.commit(Put(key, codec.encode(given)))
    return given


# Why, and what happened


@needs(Access.VIEW, heavy=True)
async def why(store: Store, thing: str) -> Why:
    """Why `kind/id` is where it is, or why a node has what it has."""
    kind, slash, id = thing.partition("/")
    return await why_resource(store, kind, id) if slash else await why_node(store, thing)


@verb("GET", "/v1/why/{kind}/{id}", Access.VIEW, rpc="Resources.Why", heavy=True, codes=("resource_not_found",))
async def why_resource(store: Store, kind: KindName, id: ResourceId) -> Why:
    """Which nodes hold a resource and why, or why each node does not."""
    view = await get_resource(store, kind, id)
    status = view.status
    if status is None:
        return Why(thing=view.name, says=await _why_unplaced(store, view))
    says = f"{status.assigned} of {status.replicas} tasks are placed"
    if status.not_running:
        says += f" and {status.running} run"
    if status.AssignedNode:
        says += f", on {', '.join(each.partition('|')[0] for each in status.AssignedNode.split(','))}"
    if status.pending:
        says += f"; {status.pending}"
    if status.moving:
        says += f"; {status.moving}"
    hints: tuple[str, ...] = ()
    if view.origin == ORIGIN and is_failing(understood(Listing, await store.get(keys.listing(kind)))):
        hints = (f"its source: {(await why_source(store, kind)).says}",)
    hints += tuple(f"fails on {node}: {why}" for node, why in _fails_now(status).items())
    hints += tuple(await _given_back(store, kind, id))
    answer = Why(thing=view.name, says=says, chosen=status.chosen, refusals=status.refusals, reasons=hints)
    if not status.pending and not status.moving:
        return answer
    seen = await outlook(store, view.name)
    return replace(answer, refusals={**answer.refusals, **seen.refusals}, remedies=seen.remedies)


def _fails_now(status: ResourceStatus) -> dict[str, str]:
    """Where tasks fail that have not been given back: what was, `_given_back` reads from the nodes' own notes."""
    return {node: why for node, why in (status.failing or {}).items() if not why.startswith(GIVEN_BACK)}


async def _given_back(store: Store, kind: str, id: str) -> list[str]:
    """Which nodes could not keep a resource's task alive lately, the last one first."""
    async with aclosing(scan_all(store, keys.trouble(kind, id, NodeId("")))) as entries:
        found = [understood(Trouble, entry) async for entry in entries]
    now = await store.now()
    lately = [each for each in found if each is not None and now - each.at < LATELY]
    lately.sort(key=lambda each: each.at, reverse=True)
    return [told(each) for each in lately[:SHOWN]]


@verb("GET", "/v1/sources/{kind}/why", Access.VIEW, rpc="Resources.WhySource", codes=("unknown_kind",))
async def why_source(store: Store, kind: KindName) -> Why:
    """Who asked the source of a kind last, when, and what came of it."""
    record = await _kind(store, kind)
    listing = understood(Listing, await store.get(keys.listing(kind)))
    says = explain(record, understood(Query, await store.get(keys.query(kind))), listing)
    if await store.get(keys.LEADER) is None:
        says += "; no node leads, so the source is not queried"
    return Why(thing=f"source of {kind}", says=says)


@verb("GET", "/v1/why/{node}", Access.VIEW, rpc="Nodes.Why", heavy=True, codes=("node_not_found",))
async def why_node(store: Store, node: NodeName) -> Why:
    """What a node has to run, and why it gets nothing new."""
    seen = await _seen_nodes(store)
    if node not in seen.ids:
        raise await no_node(store, node)
    view = _node_view(NodeId(node), seen, await store.now())
    reasons = tuple(_closed(view, has_leader=seen.leader is not None))
    says = f"it has {view.tasks} {'task' if view.tasks == 1 else 'tasks'} in {view.used} of {view.slots} slots"
    if view.slots_set:
        says += f" (set on {view.slots_set.since:%Y-%m-%d %H:%M:%S} UTC; its settings say {view.configured_slots})"
    return Why(
        thing=node,
        says=f"{says}; {'; '.join(reasons)}" if reasons else f"{says}, and may get more",
        holds=tuple(seen.tasks.get(view.id, ())),
        reasons=reasons,
        refusals=await _refused_by(store, node),
    )


@verb("GET", "/v1/events", Access.VIEW, rpc="Events.List", answer=EventPage)
async def read_events(
    store: Store,
    *,
    since: Since = None,
    until: Until = None,
    kinds: KindsOfEvents = (),
    node: OfNode = None,
    limit: LimitOfEvents = 50,
    token: TokenBack = None,
) -> events.Reading:
    """What happened, the newest last; `token` is the `next` of the page before, and leads further back."""
    if not 0 <= limit <= MAX_EVENTS:
        raise Invalid(f"limit is {limit}; it must be from 0 to {MAX_EVENTS}")
    return await events.read(store, since=since, until=until, kinds=kinds, node=node, limit=limit, before=token or None)


def _check_reason(why: str) -> None:
    if not why.isprintable() or len(why) > 200:
        raise Invalid("a reason has at most 200 characters, all printable; shorten it")


def check_limit(limit: int) -> None:
    """Invalid unless a page may have so many entries."""
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")


def check_wait(wait: timedelta | None) -> None:
    """Invalid if that is no time to wait for a placement."""
    if wait is not None and not timedelta() <= wait <= LONGEST_WAIT:
        shown = durations.render(wait) if wait > timedelta() else str(wait)
        raise Invalid(f"wait is {shown}; it must be from 0s to {durations.render(LONGEST_WAIT)}")


# Making a resource


def _leave_to_its_stream(kind: str, id: str) -> None:
    """Invalid for what stands for a group of a stream: the leader changes and deletes it."""
    if kind.startswith(STREAM):
        stream = kind.removeprefix(STREAM)
        raise Invalid(f'{kind}/{id} stands for a group of stream "{stream}", which looks after it; leave it alone')


async def _created(store: Store, clock: Clock, wanted: WantedResource, key: str | None, by: str) -> ResourceView:
    request = idempotency.digest(wanted)
    if key is not None and (note := await idempotency.find(store, key, request, by)):
        return await _made_before(store, key, note)
    kind = await _kind(store, wanted.kind)
    check_replicas(kind, wanted.id, wanted.replicas)
    check_spec(kind, wanted.id, wanted.spec)
    record = record_of(wanted, secrets.token_hex(16), clock.wall())
    put = Put(keys.resource(record.kind, record.id), codec.encode(record))
    try:
        if key is None:
            revision = await store.commit(put, expect=[Absent(put.key)])
        else:
            made = Note(request=request, kind=record.kind, id=record.id, uid=record.uid)
            async with idempotency.noted(store, key, made, by) as also:
                revision = await store.commit(put, also, expect=[Absent(put.key), Absent(also.key)])
    except Conflict:
        # Perhaps the same request, a moment earlier.
        if key is not None and (note := await idempotency.find(store, key, request, by)):
            return await _made_before(store, key, note)
        raise await _taken(store, wanted) from None
    return view_of(record, revision, None)


async def _made_before(store: Store, key: str, note: Note) -> ResourceView:
    """The resource that this request made when it was asked first."""
    with suppress(NotFound):
        view = await get_resource(store, note.kind, note.id)
        if view.uid == note.uid:
            return view
    raise Conflict(
        f"idempotency key {key} made {note.kind}/{note.id}, which has been deleted since; "
        "use a new key to make it again",
        code="key_reused",
    )


async def _taken(store: Store, wanted: WantedResource) -> Conflict:
    key = keys.resource(wanted.kind, wanted.id)
    entry = await store.get(key)
    at = f", at version {entry.modified}" if entry else ""
    return Conflict(
        f"resource {wanted.name} exists already{at}; update it, or choose another id", [key], code="already_exists"
    )


async def _kind(store: Store, name: str) -> KindRecord:
    """The kind; Invalid names those there are."""
    entry = await store.get(keys.kind(name))
    if entry is not None:
        return codec.decode(KindRecord, entry.value)
    known = [entry.key.removeprefix(keys.KINDS) for entry in (await store.scan(keys.KINDS)).entries]
    if not known:
        raise Invalid(
            f'no app of this fleet has a kind "{name}", or any; start a node with an app that declares it',
            code="unknown_kind",
        )
    guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise Invalid(f'no app of this fleet has a kind "{name}"{guess}', code="unknown_kind")


# Reading resources


async def _resource(store: Store, kind: str, id: str) -> tuple[Entry, ResourceRecord]:
    entry = await store.get(keys.resource(kind, id))
    if entry is None:
        raise NotFound(
            f"there is no resource {kind}/{id}; see which there are with: rota resources ls", code="resource_not_found"
        )
    return entry, codec.decode(ResourceRecord, entry.value)


def view_of(record: ResourceRecord, version: Revision, status: Entry | None) -> ResourceView:
    """A resource as it is shown."""
    return ResourceView(
        kind=record.kind,
        id=record.id,
        uid=record.uid,
        version=version,
        created=record.created,
        origin=record.origin,
        spec=record.spec,
        priority=record.priority,
        replicas=record.replicas,
        cost=record.cost,
        labels=record.labels,
        pin=record.pin,
        tags=record.tags,
        affinity=record.affinity,
        status=None,
    ).with_status(status_of(status, record.uid))


def status_of(entry: Entry | None, uid: str) -> ResourceStatus | None:
    """The status, unless it is of an earlier resource of the same name, or of a newer Rota."""
    status = understood(ResourceStatus, entry)
    return status if status and uid == status.ID else None


class _Listed(msgspec.Struct, frozen=True):
    """Which resources a list is to have."""

    kind: str | None
    prefix: str
    pending: bool
    limit: int

    @property
    def below(self) -> str:
        """How their names begin, kind and id."""
        return "" if self.kind is None else f"{self.kind}/{self.prefix}"

    @property
    def scanned(self) -> int:
        """How many to read at a time: no more than are wanted, unless most may turn out not to be."""
        return MAX_PAGE if self.pending or (self.prefix and self.kind is None) else self.limit

    def has(self, view: ResourceView) -> bool:
        """Is this one of them?"""
        return view.id.startswith(self.prefix) and (view.is_pending or not self.pending)


async def _page(store: Store, wanted: _Listed, token: str | None) -> ResourcePage:
    found: list[ResourceView] = []
    not_understood: dict[str, str] = {}
    at: Revision | None = None
    while True:
        after = keys.RESOURCES + token if token else None
        listing = await store.scan(keys.RESOURCES + wanted.below, after=after, limit=wanted.scanned, at=at)
        at = listing.revision
        statuses = await _statuses(store, wanted.below, token, listing.entries, at)
        for number, entry in enumerate(listing.entries, 1):
            token = entry.key.removeprefix(keys.RESOURCES)
            try:
                view = view_of(codec.decode(ResourceRecord, entry.value), entry.modified, statuses.get(token))
            except Invalid as error:
                not_understood[token] = str(error)
                continue
            if wanted.has(view):
                found.append(view)
            if len(found) == wanted.limit and (listing.more or number < len(listing.entries)):
                return ResourcePage(resources=tuple(found), revision=at, next=token, not_understood=not_understood)
        if not listing.more:
            return ResourcePage(resources=tuple(found), revision=at, not_understood=not_understood)


async def _statuses(
    store: Store, below: str, token: str | None, resources: Collection[Entry], at: Revision
) -> dict[str, Entry]:
    """The statuses of a page of resources, by name. Statuses lie in the same order, so a page or two has them."""
    found: dict[str, Entry] = {}
    last = max((entry.key.removeprefix(keys.RESOURCES) for entry in resources), default="")
    while resources:
        after = keys.RESOURCE_STATUS + token if token else None
        listing = await store.scan(keys.RESOURCE_STATUS + below, after=after, limit=len(resources), at=at)
        for entry in listing.entries:
            token = entry.key.removeprefix(keys.RESOURCE_STATUS)
            found[token] = entry
        if not listing.more or (token and token >= last):
            break
    return found


def _expect_version(entry: Entry, version: int | None) -> None:
    if version is not None and version != entry.modified:
        name = entry.key.removeprefix(keys.RESOURCES)
        raise Conflict(
            f"resource {name} is at version {entry.modified}, not {version}: it was changed meanwhile; "
            "read it again and decide again",
            [entry.key],
            code="stale_version",
        )


async def _written(store: Store, write: Put | Delete, seen: Entry) -> Revision | None:
    """The revision of a write that was decided on what was seen; None if that has changed meanwhile."""
    try:
        return await store.commit(write, expect=[At(seen.key, seen.modified)])
    except Conflict:
        return None


async def _until_in_time(name: str, attempt: Callable[[], Awaitable[ResourceView | None]]) -> ResourceView:
    """What an attempt returns; one that came too late is made again, and then sees what is new."""
    for _ in range(TRIES):
        if view := await attempt():
            return view
    raise Conflict(f"resource {name} is being changed all the time; try again")


# Reading nodes


class _Nodes(msgspec.Struct, frozen=True):
    """What the store has on nodes."""

    nodes: dict[NodeId, Entry]
    work: dict[NodeId, NodeStatus]
    cordons: dict[NodeId, Cordon]
    drains: dict[NodeId, Drain]
    slots_set: dict[NodeId, SlotsSet]
    labels_set: dict[NodeId, LabelsSet]
    loads: dict[NodeId, NodeLoad]
    health: dict[NodeId, NodeHealth]
    strikes: list[Strikes]
    tasks: dict[NodeId, list[str]]
    used: dict[NodeId, int]
    leader: Leader | None

    @property
    def ids(self) -> set[NodeId]:
        """Every node that there is anything of."""
        return {*self.nodes, *self.cordons, *self.drains, *self.slots_set, *self.labels_set, *self.tasks}


async def _seen_nodes(store: Store) -> _Nodes:
    tasks: defaultdict[NodeId, list[str]] = defaultdict(list)
    used: defaultdict[NodeId, int] = defaultdict(int)
    async with aclosing(scan_all(store, keys.ASSIGNMENTS)) as entries:
        async for entry in entries:
            node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
            assignment = understood(Assignment, entry)
            tasks[NodeId(node)].append(task)
            used[NodeId(node)] += assignment.cost if assignment else 1
    leader = await store.get(keys.LEADER)
    return _Nodes(
        nodes={NodeId(entry.key.removeprefix(keys.NODES)): entry for entry in (await store.scan(keys.NODES)).entries},
        work=_by_node(NodeStatus, keys.STATUS, (await store.scan(keys.STATUS)).entries),
        cordons=_by_node(Cordon, keys.CORDONS, (await store.scan(keys.CORDONS)).entries),
        drains=_by_node(Drain, keys.DRAINS, (await store.scan(keys.DRAINS)).entries),
        slots_set=_by_node(SlotsSet, keys.SLOTS, (await store.scan(keys.SLOTS)).entries),
        labels_set=_by_node(LabelsSet, keys.LABELS, (await store.scan(keys.LABELS)).entries),
        loads=_by_node(NodeLoad, keys.NODE_LOADS, (await store.scan(keys.NODE_LOADS)).entries),
        health=_by_node(NodeHealth, keys.NODE_HEALTH, (await store.scan(keys.NODE_HEALTH)).entries),
        strikes=[found for entry in (await store.scan(keys.STRIKES)).entries if (found := understood(Strikes, entry))],
        tasks=dict(tasks),
        used=dict(used),
        leader=understood(Leader, leader),
    )


def _node_view(id: NodeId, seen: _Nodes, now: datetime) -> NodeView:
    entry, work, given = seen.nodes.get(id), seen.work.get(id), seen.slots_set.get(id)
    view = NodeView(
        id=id,
        is_up=entry is not None,
        used=seen.used.get(id, 0),
        tasks=len(seen.tasks.get(id, ())),
        cordon=seen.cordons.get(id),
        drain=seen.drains.get(id),
        slots=given.slots if given else 0,
        slots_set=given,
        labels_set=seen.labels_set.get(id),
        app=work.app if work else None,
        kinds=tuple(work.kinds) if work else (),
        generation=work.generation if work else 0,
        code=work.code if work else "",
        app_version=work.app_version if work else "",
        daemons=work.daemons if work else "",
    )
    if entry is None:
        return replace(view, standing=Standing.OFFLINE, standing_why=GONE)
    try:
        node = codec.decode(Node, entry.value)
    except Invalid as error:
        return replace(view, not_understood=str(error))
    complaints = [each for each in seen.strikes if (each.node, each.session) == (id, node.session)]
    stands = shown(seen.health.get(id), complaints)
    return replace(
        view,
        load=seen.loads.get(id),
        standing=stands.standing,
        standing_why=stands.why,
        leads=seen.leader is not None and seen.leader.session == node.session,
        role=node.role,
        host=node.host,
        http=node.http,
        grpc=node.grpc,
        labels=labelled(node.labels, view.labels_set),
        configured_labels=node.labels,
        slots=given.slots if given else node.slots,
        configured_slots=node.slots,
        since=node.since,
        age_s=max(0, round((now - node.since).total_seconds())),
        insecure=node.insecure,
        version=node.version,
    )


def _candidate(view: NodeView) -> Candidate:
    load = view.load
    return Candidate(
        node=view.id,
        score=load.score if load else 100.0,
        free=load.executors - load.executors_used if load else 0,
        refusal=_not_to_be_had(view),
    )


def _not_to_be_had(view: NodeView) -> str | None:
    """Why a node cannot be the idlest; None if it can."""
    if not view.is_up:
        return "it is not in the fleet"
    if view.role is None or not view.role.may_work:
        return "it runs no work"
    if view.cordon:
        return "it is cordoned"
    if view.standing is Standing.OFFLINE:
        return "it is offline"
    return None if view.load else "it has not said yet how busy it is"


def _closed(view: NodeView, *, has_leader: bool) -> list[str]:
    """Why a node gets no new tasks; nothing if it may."""
    if not view.is_up:
        return ["it is not in the fleet"]
    if view.role is None:
        return [f"its record is not understood here ({view.not_understood})"]
    if not view.role.may_work:
        return [f"its role is {view.role}, and such a node runs no tasks"]
    reasons = []
    if view.cordon:
        why = f", because: {view.cordon.why}" if view.cordon.why else ""
        reasons.append(f"it is cordoned since {view.cordon.since:%Y-%m-%d %H:%M:%S} UTC{why}")
    if view.drain:
        why = f", because: {view.drain.why}" if view.drain.why else ""
        reasons.append(f"it is drained since {view.drain.since:%Y-%m-%d %H:%M:%S} UTC{why}")
    if not view.kinds:
        reasons.append("its app declares no kind of resources" if view.app else "it runs no app")
    if view.used >= view.slots:
        reasons.append("all its slots are taken" if view.slots else "it has no slots")
    if view.used > view.slots:
        reasons.append("it has more tasks than slots, so the newest of them move away, some at a time")
    if not has_leader:
        reasons.append("no node leads, so nothing is placed")
    return reasons


async def _refused_by(store: Store, node: str) -> dict[str, str]:
    """Resources that lack a task and that this node does not take; the first few."""
    found: dict[str, str] = {}
    async with aclosing(scan_all(store, keys.RESOURCE_STATUS)) as entries:
        async for entry in entries:
            status = understood(ResourceStatus, entry)
            if status and node in status.refusals:
                found[entry.key.removeprefix(keys.RESOURCE_STATUS)] = status.refusals[node]
                if len(found) == SHOWN:
                    break
    return found


async def _why_unplaced(store: Store, view: ResourceView) -> str:
    """Why nobody has said anything of a resource yet."""
    if await store.get(keys.LEADER) is None:
        return "no node leads, so nothing is placed; start a node that may lead"
    return "the leader has not looked at it yet; ask again in a moment"


async def _cordon(store: Store, node: str) -> Cordon | None:
    entry = await store.get(keys.cordon(NodeId(node)))
    return codec.decode(Cordon, entry.value) if entry else None


async def no_node(store: Store, node: str) -> NotFound:
    """What to raise for a node that is not there; it names those that are."""
    known = [entry.key.removeprefix(keys.NODES) for entry in (await store.scan(keys.NODES)).entries]
    there = f"there are {', '.join(known)}" if known else "there are none at the moment"
    return NotFound(f'there is no node "{node}"; {there}', code="node_not_found")


# Reading in general


async def scan_all(store: Store, prefix: Key, at: Revision | None = None) -> AsyncGenerator[Entry, None]:
    """Every entry of a prefix, page by page; unless it is read `at` a revision, what changes may be seen or not."""
    after: Key | None = None
    while True:
        listing = await store.scan(prefix, after=after, limit=MAX_PAGE, at=at)
        for entry in listing.entries:
            yield entry
        if not listing.more:
            return
        after = listing.entries[-1].key


def _by_node(kind: type[T], prefix: Key, entries: Collection[Entry]) -> dict[NodeId, T]:
    found = {NodeId(entry.key.removeprefix(prefix)): understood(kind, entry) for entry in entries}
    return {node: record for node, record in found.items() if record is not None}
