"""Operations on resources: the requests of every door, as plain functions on the store.

An operation declares the permission it needs and its routes (`doors.verbs`). None of them needs the leader: they read
and write records, and the leader follows the store. Writes expect the revisions they were decided on. If the caller
names no version, a write that lost a race is decided again.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta

from rota.doors.guard import idempotency
from rota.doors.guard.idempotency import IdempotencyNote
from rota.doors.limits import MAX_PAGE, PAGE, TRIES, check_wait
from rota.doors.parameters import IfMatch, Limit, OnceKey, Prefix, Token, Wait
from rota.doors.verbs import needs, verb
from rota.fleet.core.access.gate import Access
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Invalid, NotFound
from rota.model.ids import Revision
from rota.resources.core.fit import check_replicas, check_spec
from rota.resources.core.records import KindRecord, WantedResource, record_of
from rota.resources.doors.answers import KindPage, ResourcePage, ResourceView, kind_view, read_changes, read_resource
from rota.resources.doors.parameters import IsPending, KindName, OfKind, ResourceId
from rota.resources.doors.reading import ResourceFilter, kind_record, page_of, resource_record, status_of, view_of
from rota.store.follow import follow
from rota.store.port import Absent, At, Delete, Entry, Put, Store
from rota.store.records import understood
from rota.streams.core.records import KIND as STREAM


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
    """Create a resource. With `wait`, return when the leader has placed it or given a reason why not, or at the
    timeout.

    `key` is an idempotency key: a repeated request with the same key and fields returns the same resource.
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
    """Get a resource and how it is covered; NotFound if there is none."""
    entry, record = await resource_record(store, kind, id)
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
    """List resources in the order of kind and id: of one kind, by id prefix, only those that lack tasks.

    `token` is the `next` of the page before. Each page is read at a revision of its own.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")
    wanted = ResourceFilter(kind, prefix, pending, limit)
    while True:
        with suppress(Compacted):  # the store is compacted faster than the page is read
            return await page_of(store, wanted, token)


@verb(
    "PATCH", "/v1/resources/{kind}/{id}", Access.OPERATE, rpc="Resources.Update", body=WantedResource, is_versioned=True
)
async def update_resource(
    store: Store, kind: KindName, id: ResourceId, changes: Mapping[str, object], *, version: IfMatch = None
) -> ResourceView:
    """Change some fields of a resource; Conflict if it is not at `version` any more."""
    _leave_to_its_stream(kind, id)

    async def attempt() -> ResourceView | None:
        entry, record = await resource_record(store, kind, id)
        _expect_version(entry, version)
        changed, modified = read_changes(record, changes), entry.modified
        declared = await store.get(keys.kind(kind))
        if declared is not None:  # a resource of a kind that is no longer declared may still be changed
            declaration = codec.decode(KindRecord, declared.value)
            check_replicas(declaration, changed.id, changed.replicas)
            if changed.spec != record.spec:  # an old spec may stay even if the app's schema has changed
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
        entry, record = await resource_record(store, kind, id)
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
    """List the kinds of resources that apps of this fleet have declared, by name; not those that stand for streams."""
    entries = (await store.scan(keys.KINDS)).entries
    kinds = [kind for entry in entries if (kind := understood(KindRecord, entry))]
    return tuple(kind for kind in kinds if not kind.name.startswith(STREAM))


def _leave_to_its_stream(kind: str, id: str) -> None:
    """Invalid for what stands for a group of a stream: the leader changes and deletes it."""
    if kind.startswith(STREAM):
        stream = kind.removeprefix(STREAM)
        raise Invalid(f'{kind}/{id} stands for a group of stream "{stream}", which looks after it; leave it alone')


async def _created(store: Store, clock: Clock, wanted: WantedResource, key: str | None, by: str) -> ResourceView:
    request = idempotency.digest(wanted)
    if key is not None and (note := await idempotency.find(store, key, request, by)):
        return await _made_before(store, key, note)
    kind = await kind_record(store, wanted.kind)
    check_replicas(kind, wanted.id, wanted.replicas)
    check_spec(kind, wanted.id, wanted.spec)
    record = record_of(wanted, secrets.token_hex(16), clock.wall())
    put = Put(keys.resource(record.kind, record.id), codec.encode(record))
    try:
        if key is None:
            revision = await store.commit(put, expect=[Absent(put.key)])
        else:
            made = IdempotencyNote(request=request, kind=record.kind, id=record.id, uid=record.uid)
            async with idempotency.noted(store, key, made, by) as also:
                revision = await store.commit(put, also, expect=[Absent(put.key), Absent(also.key)])
    except Conflict:
        # Perhaps the same request, a moment earlier.
        if key is not None and (note := await idempotency.find(store, key, request, by)):
            return await _made_before(store, key, note)
        raise await _taken(store, wanted) from None
    return view_of(record, revision, None)


async def _made_before(store: Store, key: str, note: IdempotencyNote) -> ResourceView:
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
