"""Operations on streams: the requests of every door, as plain functions on the store.

Streams are declared by an app. A change requested at a door is stored as a wish (`streams.fleet.verbs`), which the
leader carries out; with `wait`, an operation returns when the leader has done so, or when that time is over.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any

from rota.doors.limits import MAX_PAGE, PAGE, check_limit, check_wait
from rota.doors.parameters import Limit, Prefix, Token, Wait
from rota.doors.verbs import needs, verb
from rota.doors.why_answers import Why
from rota.fleet.core.access.gate import Access
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import origin
from rota.model.spec.checks import did_you_mean
from rota.resources.core.records import ResourceStatus
from rota.store.follow import follow
from rota.store.port import Entry, Store
from rota.store.records import understood
from rota.streams.core.manifest import Manifest
from rota.streams.core.records import (
    Declaration,
    Group,
    MoveRecord,
    SkipRecord,
    StreamRecord,
    StreamStatus,
    StreamTaskStatus,
    StreamWishes,
    kind_of,
)
from rota.streams.core.spec import StreamSpec, spec_of
from rota.streams.core.why import held
from rota.streams.doors.answers import (
    PartitionLag,
    PublishedPage,
    StreamDetail,
    StreamHistory,
    StreamLag,
    StreamPage,
    StreamVersion,
    StreamView,
    group_view,
    lags,
    read_backfill,
    read_groups,
    read_offsets,
    read_place,
    read_tasks,
    stream_view,
    versions,
)
from rota.streams.doors.bodies import HandOffBody, ResetBody, ResetOffsetsBody, ScaleBody
from rota.streams.doors.parameters import StreamName, WithPast
from rota.streams.fleet import verbs

SHOWN = 100
"""How many of the latest skips and moves are shown."""


@verb("GET", "/v1/streams", Access.VIEW, rpc="Streams.List")
async def list_streams(
    store: Store, *, prefix: Prefix = "", with_past: WithPast = False, limit: Limit = PAGE, token: Token = None
) -> StreamPage:
    """List streams in the order of the name; `token` is the `next` of the page before.

    Backfills that are completed are left out and counted, unless `with_past` is true.
    """
    check_limit(limit)
    after = keys.STREAMS + token if token else None
    page = await store.scan(keys.STREAMS + prefix, after=after, limit=limit)
    found, strange = list[StreamView](), {}
    for entry in page.entries:
        try:
            found.append(await _view(store, entry))
        except Invalid as error:
            strange[entry.key.removeprefix(keys.STREAMS)] = str(error)
    last = page.entries[-1].key.removeprefix(keys.STREAMS) if page.more else None
    streams = tuple(view for view in found if with_past or not view.is_past)
    return StreamPage(streams=streams, next=last, left_out=len(found) - len(streams), not_understood=strange)


@verb("GET", "/v1/streams/{name}", Access.VIEW, rpc="Streams.Get")
async def get_stream(store: Store, name: StreamName) -> StreamView:
    """Get a stream and its state; NotFound if no app has declared it."""
    return await _view(store, await _declared(store, name))


@needs(Access.ADMIN)
async def stream_spec(store: Store, name: str) -> StreamSpec:
    """A stream's declaration with its passwords, for callers that open its source or output themselves; never for a
    door."""
    return spec_of(codec.decode(StreamRecord, (await _declared(store, name)).value))


@verb("GET", "/v1/streams/{name}/status", Access.VIEW, rpc="Streams.Status")
async def stream_status(store: Store, name: StreamName) -> StreamDetail:
    """Get a stream with its groups and tasks, and the records that were skipped or read again."""
    view = await get_stream(store, name)
    said: defaultdict[str, list[StreamTaskStatus]] = defaultdict(list)
    for entry in (await store.scan(f"{keys.STREAM_TASKS}{name}/")).entries:
        if (task := understood(StreamTaskStatus, entry)) is not None:
            said[task.group].append(task)
    skips = [understood(SkipRecord, each) for each in (await store.scan(f"{keys.STREAM_SKIPS}{name}/")).entries]
    moves = [understood(MoveRecord, each) for each in (await store.scan(keys.stream_moves(name))).entries]
    return StreamDetail(
        stream=view,
        groups=tuple(group_view(group, said[group.id]) for group in await _groups(store, name)),
        skips=tuple(sorted((each for each in skips if each), key=lambda each: each.at)[-SHOWN:]),
        moves=tuple([each for each in moves if each][-SHOWN:]),
    )


@verb("GET", "/v1/streams/{name}/why", Access.VIEW, rpc="Streams.Why")
async def why_stream(store: Store, name: StreamName) -> Why:
    """Explain why a stream is behind: how far it is, and each reason for that."""
    await _declared(store, name)
    wishes = understood(StreamWishes, await store.get(keys.STREAM_WISHES + name)) or StreamWishes()
    status = understood(StreamStatus, await store.get(keys.STREAM_STATUS + name))
    tasks = [understood(StreamTaskStatus, each) for each in (await store.scan(f"{keys.STREAM_TASKS}{name}/")).entries]
    begin = f"{keys.RESOURCE_STATUS}{kind_of(name)}/"
    placed = {
        entry.key.removeprefix(begin): found
        for entry in (await store.scan(begin, limit=MAX_PAGE)).entries
        if (found := understood(ResourceStatus, entry)) is not None
    }
    is_led = await store.get(keys.LEADER) is not None
    statuses = [task for task in tasks if task is not None]
    reasons = tuple(held(wishes, status, statuses, placed, await store.now(), is_led=is_led))
    says = f"{status.state}, {status.lag} records behind its source" if status else "not looked at yet"
    return Why(thing=name, says=says, reasons=reasons)


@verb("GET", "/v1/streams/{name}/lag", Access.VIEW, rpc="Streams.Lag", answer=StreamLag)
async def stream_lag(store: Store, name: StreamName) -> tuple[PartitionLag, ...]:
    """Get how far the output of each partition is behind its source, as the leader last saw it."""
    return lags(await get_stream(store, name))


@verb("GET", "/v1/streams/{name}/history", Access.VIEW, rpc="Streams.History", answer=StreamHistory)
async def stream_history(store: Store, name: StreamName) -> tuple[StreamVersion, ...]:
    """List a stream's declarations and what changed in each, the oldest first."""
    await _declared(store, name)
    entries = (await store.scan(f"{keys.STREAM_HISTORY}{name}/")).entries
    return versions([each for entry in entries if (each := understood(Declaration, entry)) is not None])


@verb("GET", "/v1/streams/{name}/published", Access.VIEW, rpc="Streams.Published")
async def list_published(store: Store, name: StreamName, *, limit: Limit = PAGE, token: Token = None) -> PublishedPage:
    """List the publishes of a stream whose output is files, a manifest each; the oldest first."""
    check_limit(limit)
    await _declared(store, name)
    after = keys.manifest(origin(name), token) if token else None
    page = await store.scan(keys.manifests(origin(name)), after=after, limit=limit)
    found = tuple(codec.decode(Manifest, entry.value) for entry in page.entries)
    return PublishedPage(published=found, next=found[-1].id if page.more else None)


# Wishes


@verb("POST", "/v1/streams/{name}/suspend", Access.OPERATE, rpc="Streams.Suspend")
async def suspend_stream(store: Store, name: StreamName, *, by: str, wait: Wait = None) -> StreamView:
    """Stop reading: groups publish what they have read, and no new ones start."""
    check_wait(wait)
    await _declared(store, name)
    await verbs.suspend(store, name, by)
    return await _awaited(store, name, wait, lambda view: view.has_ended)


@verb("POST", "/v1/streams/{name}/resume", Access.OPERATE, rpc="Streams.Resume")
async def resume_stream(store: Store, name: StreamName, *, by: str, wait: Wait = None) -> StreamView:
    """Continue a suspended or terminated stream where it stopped."""
    check_wait(wait)
    await _declared(store, name)
    await verbs.resume(store, name, by)
    return await _awaited(store, name, wait, lambda view: view.is_going)


@verb("POST", "/v1/streams/{name}/terminate", Access.OPERATE, rpc="Streams.Terminate")
async def terminate_stream(store: Store, name: StreamName, *, by: str, wait: Wait = None) -> StreamView:
    """Stop reading, even if an app declares the stream: groups publish what they have read, and no new ones start."""
    check_wait(wait)
    await _declared(store, name)
    await verbs.terminate(store, name, by)
    return await _awaited(store, name, wait, lambda view: view.has_ended)


@verb("POST", "/v1/streams/{name}/scale", Access.OPERATE, rpc="Streams.Scale", body=ScaleBody)
async def scale_stream(store: Store, name: StreamName, tasks: object, *, by: str) -> StreamView:
    """Set the number of task groups, or restore the declared one; only groups whose partitions change end."""
    wanted = read_tasks(name, tasks)
    await _declared(store, name)
    await verbs.scale(store, name, by, wanted)
    return await get_stream(store, name)


@verb("POST", "/v1/streams/{name}/handoff", Access.OPERATE, rpc="Streams.HandOff", body=HandOffBody)
async def hand_off_groups(
    store: Store, name: StreamName, groups: Iterable[object] = (), *, by: str, wait: Wait = None
) -> StreamView:
    """End groups and publish what they have read now, all that read unless some are named; new groups continue from
    there."""
    check_wait(wait)
    view = await get_stream(store, name)
    numbers = read_groups(view, await _groups(store, name), groups)
    await verbs.hand_off(store, name, by, numbers)
    return await _awaited(store, name, wait, lambda view: not set(numbers) & set(view.hand_off))


@verb("POST", "/v1/streams/{name}/reset", Access.OPERATE, rpc="Streams.Reset", body=ResetBody)
async def reset_stream(
    store: Store, name: StreamName, *, by: str, to: object = None, backfill: object = False, wait: Wait = None
) -> StreamView:
    """Set the offsets of all partitions to `earliest`, `latest` or a time; by default to where a new stream would
    begin.

    Records that are skipped are never published, unless with `backfill` another stream reads them; records that are
    read again are published again.
    """
    is_backfilled = read_backfill(name, backfill)
    check_wait(wait)
    view = await get_stream(store, name)
    place = read_place(name, view.spec["start"] if to is None else to)
    await verbs.reset(store, name, by, to=place, is_backfilled=is_backfilled)
    return await _awaited(store, name, wait, lambda view: view.reset is None)


@verb("POST", "/v1/streams/{name}/reset-offsets", Access.OPERATE, rpc="Streams.ResetOffsets", body=ResetOffsetsBody)
async def reset_offsets(
    store: Store, name: StreamName, offsets: Mapping[Any, object], *, by: str, wait: Wait = None
) -> StreamView:
    """Set the offsets of some partitions: a number, `earliest`, `latest` or a time; the others stay."""
    check_wait(wait)
    wanted = read_offsets(await get_stream(store, name), offsets)
    await verbs.reset(store, name, by, partitions=wanted)
    return await _awaited(store, name, wait, lambda view: view.reset is None)


# How


async def _declared(store: Store, name: str) -> Entry:
    entry = await store.get(keys.STREAMS + name) if name else None
    if entry is None:
        there = (await store.scan(keys.STREAMS, limit=MAX_PAGE)).entries
        guess = did_you_mean(name, [each.key.removeprefix(keys.STREAMS) for each in there])
        raise NotFound(
            f'there is no stream "{name}"{guess or "; rota streams ls shows those there are"}', code="stream_not_found"
        )
    return entry


async def _view(store: Store, entry: Entry) -> StreamView:
    record = codec.decode(StreamRecord, entry.value)
    status = understood(StreamStatus, await store.get(keys.STREAM_STATUS + record.name))
    wishes = understood(StreamWishes, await store.get(keys.STREAM_WISHES + record.name))
    return stream_view(record, entry.modified, status, wishes)


async def _groups(store: Store, name: str) -> list[Group]:
    """The groups, the oldest first."""
    entries = (await store.scan(f"{keys.STREAM_GROUPS}{name}/")).entries
    groups = [group for entry in entries if (group := understood(Group, entry)) is not None]
    return sorted(groups, key=lambda group: group.generation)


async def _awaited(
    store: Store, name: str, wait: timedelta | None, is_done: Callable[[StreamView], bool]
) -> StreamView:
    """The stream when the leader has done what was asked, or as it is when the time is over."""
    view = await get_stream(store, name)
    if wait is None:
        return view
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(wait.total_seconds()),
            aclosing(follow(store, keys.STREAM_STATUS + name)) as entries,
        ):
            async for _ in entries:  # it is written whenever groups or wishes are
                view = await get_stream(store, name)
                if is_done(view):
                    break
    return view
