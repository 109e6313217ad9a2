"""Sources: which node queries one and when, and what its list changes. Pure.

`next_query` says who is asked now, or when to look again. `compare` says what a list changes of what the store has, or
that it is held: an empty list, or one that drops more than half of what the source had listed, is more often a broken
source than the truth. It is applied when the next query lists the same ids, or by a sync with `force`. The price: a
real drop by more than half is applied one period later. Resources that the source did not list are never touched.

`resources.fleet.sources` asks, `resources.node.queries` answers.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from rota.kit.record import replace
from rota.kit.time import durations
from rota.model.ids import NodeId, Revision, TermNumber
from rota.resources.core.records import (
    NEVER,
    NO_AFFINITY,
    Affinity,
    KindRecord,
    Listing,
    Query,
    ResourceRecord,
    SyncRequest,
)

ORIGIN = "source"
"""Of the resources that a source has listed."""

LARGEST = 8 * 1024
"""Bytes of a spec, and of labels: the same as for resources from the API."""

PRIORITY = 1_000_000
REPLICAS = 1000
"""The maximum of each; a priority may also be that far below zero."""

TIMEOUT = timedelta(seconds=60)
"""How long a source may take if its kind does not say."""

GRACE = timedelta(seconds=10)
"""Time beyond that for a node to apply the list."""

FRESH = timedelta(minutes=1)
"""A new leader does not repeat a query younger than this, and a failed query is repeated after this long at the
latest."""

NAMED = 5
"""Resources that a reason names."""


class ListedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource as a source gives it."""

    id: str
    priority: int = 0
    replicas: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity = NO_AFFINITY
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ApplyListing(msgspec.Struct, frozen=True):
    """What brings the stored resources to the list."""

    add: tuple[ListedResource, ...]
    change: tuple[ResourceRecord, ...]
    """As they are to be; uid and creation time are what they were."""

    remove: tuple[ResourceRecord, ...]
    left: tuple[str, ...] = ()
    """Ids that are listed but were added by others: they stay as they are."""


class HoldListing(msgspec.Struct, frozen=True):
    """The list is not applied, for now."""

    why: str
    digest: str


class QuerySource(msgspec.Struct, frozen=True):
    """Have a node ask the source now."""

    node: NodeId
    force: bool
    sync: Revision


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing to do until then; None: until something changes."""

    until: datetime | None


Candidates: TypeAlias = Mapping[NodeId, int]
"""Nodes that may be asked, and how much each has to do."""


def next_query(
    kind: KindRecord,
    query: Query | None,
    listing: Listing | None,
    sync: tuple[SyncRequest, Revision] | None,
    candidates: Candidates,
    term: TermNumber,
    began: datetime,
    now: datetime,
) -> QuerySource | WaitUntil:
    """Which node is to query the source of a kind now, or when to check again; `began` is when the term began."""
    if kind.source_every is None or not candidates:
        return WaitUntil(None)
    taken_up = query.sync if query else NEVER
    if sync is not None:
        return QuerySource(_idlest(candidates), sync[0].force, max(taken_up, sync[1]))
    if query is None:
        return QuerySource(_idlest(candidates), False, taken_up)
    if listing is None or listing.nonce != query.nonce:
        return _await_answer(query, kind.source_timeout or TIMEOUT, candidates, now)
    due = _due(kind.source_every, query, listing, term, began)
    trouble = listing.node if listing.error else None
    return WaitUntil(due) if now < due else QuerySource(_idlest(candidates, but=trouble), False, taken_up)


def compare(
    stored: Mapping[str, ResourceRecord], listed: Iterable[ListedResource], last: Listing | None, *, force: bool
) -> ApplyListing | HoldListing:
    """What the list changes of the stored resources of its kind, or why it is held."""
    wanted = {each.id: each for each in listed}
    ours = {id: record for id, record in stored.items() if record.origin == ORIGIN}
    gone = [record for id, record in ours.items() if id not in wanted]
    digest = digest_of(wanted)
    if why := _too_few(len(wanted), len(gone), len(ours)):
        is_confirmed = last is not None and last.held == digest
        if not (force or is_confirmed):
            return HoldListing(why, digest)
    changed = [_changed(ours[id], each) for id, each in wanted.items() if id in ours]
    return ApplyListing(
        add=tuple(each for id, each in wanted.items() if id not in stored),
        change=tuple(record for record in changed if record != ours[record.id]),
        remove=tuple(gone),
        left=tuple(sorted(wanted.keys() & (stored.keys() - ours.keys()))),
    )


def problem(listed: Iterable[ListedResource], kind: KindRecord) -> str:
    """What is wrong with a list, so that none of it is taken; nothing if it is fine."""
    seen: dict[str, ListedResource] = {}
    for each in listed:
        if seen.setdefault(each.id, each) != each:
            return f'it lists "{each.id}" twice, and differently; list it once'
        if why := _unfit(each, kind):
            return f'it lists "{each.id[:200]}", {why}'
    return ""


def explain(kind: KindRecord, query: Query | None, listing: Listing | None) -> str:
    """What came of asking the source of a kind, and what comes next, in a sentence."""
    if kind.source_every is None:
        return "it has no source; others add its resources"
    if query is None:
        return "it has not been queried yet; that needs a leader, and a node whose app has the kind and is not cordoned"
    again = f"it is asked every {durations.render(kind.source_every)}"
    if listing is None or listing.nonce != query.nonce:
        return f"{query.node} was asked at {_clock(query.asked)} and has not answered yet; {again}"
    said = f"{listing.node} asked it at {_clock(listing.at)}"
    if listing.error:
        return f"{said} and got no list, so the old one of {listing.count} stays: {listing.error}; {again}"
    if listing.held:
        return (
            f"{said}, and the list is held, so the old one stays: {listing.why}. It is applied if the next list has "
            f"the same ids, or now, with all that it drops, by: rota resources sync {kind.name} --force; {again}"
        )
    changes = f"{listing.added} added, {listing.changed} changed, {listing.removed} removed"
    left = f"; {listing.why}" if listing.why else ""
    return f"{said}: {listing.count} listed, {changes}{left}; {again}"


def is_failing(listing: Listing | None) -> bool:
    """Did the last query fail, or was its list held?"""
    return listing is not None and bool(listing.error or listing.held)


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def digest_of(ids: Iterable[str]) -> str:
    """A short name of a set of ids."""
    return sha256("\n".join(sorted(ids)).encode()).hexdigest()[:32]


def left_alone(ids: tuple[str, ...]) -> str:
    """A sentence about ids that others have added."""
    if not ids:
        return ""
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"left alone, as others added them: {', '.join(ids[:NAMED])}{more}"


def _await_answer(query: Query, timeout: timedelta, candidates: Candidates, now: datetime) -> QuerySource | WaitUntil:
    """Wait for the node that was asked, or ask another one once its time is over."""
    late = query.asked + timeout + GRACE
    if query.node in candidates and query.asked <= now < late:
        return WaitUntil(late)
    return QuerySource(_idlest(candidates, but=query.node), query.force, query.sync)


def _due(every: timedelta, query: Query, listing: Listing, term: TermNumber, began: datetime) -> datetime:
    """When the source is to be asked again after a query that was answered."""
    if query.term != term and not timedelta(0) <= began - query.asked < FRESH:
        return began
    return query.asked + (min(every, FRESH) if listing.error else every)


def _idlest(candidates: Candidates, but: NodeId | None = None) -> NodeId:
    others = {node: load for node, load in candidates.items() if node != but} or candidates
    return min(others, key=lambda node: (others[node], node))


def _too_few(listed: int, gone: int, stored: int) -> str:
    if not stored:
        return ""
    if not listed:
        return f"the list is empty, and there are {stored}"
    return f"the list drops {gone} of {stored}" if gone * 2 > stored else ""


def _changed(record: ResourceRecord, listed: ListedResource) -> ResourceRecord:
    names = (name for name in ListedResource.__struct_fields__ if name != "id")
    return replace(record, **{name: getattr(listed, name) for name in names})


def _unfit(listed: ListedResource, kind: KindRecord) -> str:
    """Why one resource cannot be taken."""
    if (
        not listed.id
        or len(listed.id.encode(errors="replace")) > 200
        or not listed.id.isprintable()
        or "/" in listed.id
    ):
        return 'which is no id: it has at most 200 bytes, all printable, and no "/"'
    if not -PRIORITY <= listed.priority <= PRIORITY:
        return f"whose priority is {listed.priority}; it must be from {-PRIORITY} to {PRIORITY}"
    if listed.replicas is not None and not 1 <= listed.replicas <= REPLICAS:
        return f"whose replicas are {listed.replicas}; they must be from 1 to {REPLICAS}"
    if kind.exclusive and (listed.replicas or 1) > 1:
        return f"with {listed.replicas} replicas, and {kind.name} is exclusive: such a resource has one task"
    for name in ("spec", "labels", "tags", "affinity"):
        value = getattr(listed, name)
        if (size := len(msgspec.json.encode(value))) > LARGEST:
            return f"whose {name} has {size} bytes; at most {LARGEST} are kept with it"
    return ""
