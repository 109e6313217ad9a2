"""Watching: the present state, then every change, without polling.

`watch_resources` begins with a `put` for each resource and a `synced`; then follows a `put` or a `delete` for each
change of a record or of its status. A client that reconnects resumes with the revision of the last change that had one:
only the last change of a commit has it, because a client resuming within a commit would miss the rest. If the history
was compacted, a `reset` says so, and the watch begins again.

Changes are sent in batches, one for each commit. The price: a watch remembers each resource that it has sent, so that a
deletion can include the resource, and a status can be matched to it.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from enum import StrEnum
from random import random

import msgspec

from rota.doors.parameters import After, OfNode, Prefix
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.event_operations import read_events
from rota.fleet.doors.parameters import KindsOfEvents, LimitOfEvents
from rota.fleet.events import event_log as events
from rota.kit.record import replace
from rota.kit.time.backoff import delays
from rota.model import keys
from rota.model.errors import Compacted, Unavailable
from rota.model.event import Event
from rota.model.ids import Key, Revision
from rota.resources.core.records import ResourceRecord
from rota.resources.doors.answers import ResourceView
from rota.resources.doors.parameters import OfKind
from rota.resources.doors.reading import status_of, view_of
from rota.store.follow import RETRY
from rota.store.port import Change, Commit, Store
from rota.store.records import understood
from rota.store.scanning import scan_all

BOTH: Key = "/resource"
"""Prefixes of the keys of records and of statuses."""

BATCH = 200
"""Resources of one batch at the beginning."""


class What(StrEnum):
    """The kinds of changes that a watch sends."""

    PUT = "put"
    """A resource exists, or has changed, or its status has."""

    DELETE = "delete"
    SYNCED = "synced"
    """The initial state has been sent; changes follow."""

    RESET = "reset"
    """Forget everything: the state is sent again."""

    HAPPENED = "happened"
    """An event."""


class ResourceChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change that a watch of resources sends."""

    what: What
    resource: ResourceView | None = None
    """The resource; a deleted one as it was."""

    why: str = ""
    """The reason of a reset."""

    resume: Revision | None = None
    """The revision to resume from; None: more changes of the same commit follow."""


@verb(
    "GET",
    "/v1/resources/watch",
    Access.VIEW,
    rpc="Resources.Watch",
    goes_on="Events `put` and `delete`, whose data is a ResourceView; `synced`; `reset`.",
)
async def watch_resources(
    store: Store, *, kind: OfKind = None, prefix: Prefix = "", after: After = None
) -> AsyncGenerator[tuple[ResourceChange, ...], None]:
    """Watch resources, all or by kind and id prefix: the present ones, then each change; or the changes after a
    revision."""
    after = after or None
    seen = _Seen(kind, prefix)
    waits, has_begun = delays(*RETRY, random), False
    while True:
        try:
            async with aclosing(_from_there(store, seen, after)) as batches:
                async for batch in batches:
                    yield batch
                    after = batch[-1].resume or after
                    waits, has_begun = delays(*RETRY, random), True
        except Compacted:
            yield (ResourceChange(what=What.RESET, why="the history since then is gone; this is how it is now"),)
            after, has_begun = None, True
        except Unavailable:
            if not has_begun:
                raise
            await asyncio.sleep(next(waits).total_seconds())


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a watch of events."""

    event: Event | None
    """The event; None: all earlier events have been sent."""

    resume: Revision | None = None
    """The revision to resume from; None: not here."""


@verb(
    "GET",
    "/v1/events/watch",
    Access.VIEW,
    rpc="Events.Watch",
    goes_on="Events `happened`, whose data is an Event; `synced`.",
)
async def watch_events(
    store: Store,
    *,
    kinds: KindsOfEvents = (),
    node: OfNode = None,
    limit: LimitOfEvents = 50,
    after: After = None,
) -> AsyncGenerator[tuple[Happened, ...], None]:
    """Watch events: the newest ones, then each as it is written; or each that was written after a revision."""
    if after is None:
        reading = await read_events(store, kinds=kinds, node=node, limit=limit)
        after, before = reading.revision, reading.events
    else:
        after, before = min(after, await store.revision()), ()  # a later one is another store's
    yield (*(Happened(event=each) for each in before), Happened(event=None, resume=after))
    async with aclosing(events.follow_batches(store, after, kinds=kinds, node=node)) as batches:
        async for revision, batch in batches:
            *first, last = batch
            yield (*(Happened(event=each) for each in first), Happened(event=last, resume=revision))


async def _from_there(
    store: Store, seen: "_Seen", after: Revision | None
) -> AsyncGenerator[tuple[ResourceChange, ...], None]:
    """All resources and the changes since, or the changes after a revision; Compacted if that history is gone."""
    present = await store.revision()
    if after is not None and after > present:
        raise Compacted(after, present)  # it was another store's
    await seen.load(store, present if after is None else after)
    if after is None:
        for batch in _batches([ResourceChange(what=What.PUT, resource=view) for view in seen.views.values()]):
            yield batch
    yield (ResourceChange(what=What.SYNCED, resume=seen.revision),)
    async with aclosing(store.watch(BOTH, seen.revision)) as commits:
        async for commit in commits:
            if changes := seen.fold(commit):
                yield changes


class _Seen:
    """The resources that a watch is about, as they were at a revision."""

    def __init__(self, kind: str | None, prefix: str) -> None:
        self._kind, self._prefix = kind, prefix
        self.revision = Revision(0)
        self.views: dict[str, ResourceView] = {}

    async def load(self, store: Store, at: Revision) -> None:
        """Read them."""
        below = "" if self._kind is None else f"{self._kind}/{self._prefix}"
        self.views, self.revision = {}, at
        for prefix in (keys.RESOURCES, keys.RESOURCE_STATUS):
            async with aclosing(scan_all(store, prefix + below, at)) as entries:
                async for entry in entries:
                    self._see(Change(entry.key, entry))

    def fold(self, commit: Commit) -> tuple[ResourceChange, ...]:
        """Apply a commit; returns the changes."""
        before: dict[str, ResourceView | None] = {}
        for change in reversed(commit.changes):  # records first, for statuses sort before them
            name = _name(change.key)
            before.setdefault(name, self.views.get(name))
            self._see(change)
        self.revision = commit.revision
        told = list(self._differences(before))
        return (*told[:-1], replace(told[-1], resume=commit.revision)) if told else ()

    def _differences(self, before: dict[str, ResourceView | None]) -> Iterator[ResourceChange]:
        for name, was in reversed(before.items()):
            now = self.views.get(name)
            if now is not None and now != was:
                yield ResourceChange(what=What.PUT, resource=now)
            elif now is None and was is not None:
                yield ResourceChange(what=What.DELETE, resource=was)

    def _see(self, change: Change) -> None:
        name = _name(change.key)
        if not self._is_wanted(name):
            return
        known = self.views.get(name)
        if change.key.startswith(keys.RESOURCE_STATUS):
            if known is not None:
                self.views[name] = known.with_status(status_of(change.entry, known.uid))
        elif change.entry is None:
            self.views.pop(name, None)
        elif (record := understood(ResourceRecord, change.entry)) is not None:
            view = view_of(record, change.entry.modified, None)
            is_same = known is not None and known.uid == view.uid
            self.views[name] = view.with_status(known.status) if known and is_same else view

    def _is_wanted(self, name: str) -> bool:
        kind, _, id = name.partition("/")
        return self._kind in (None, kind) and id.startswith(self._prefix)


def _name(key: Key) -> str:
    return key.removeprefix(keys.RESOURCES).removeprefix(keys.RESOURCE_STATUS)


def _batches(changes: list[ResourceChange]) -> Iterator[tuple[ResourceChange, ...]]:
    for start in range(0, len(changes), BATCH):
        yield tuple(changes[start : start + BATCH])
