"""Querying the source of a kind now, instead of when it is due."""

import asyncio
from contextlib import aclosing, suppress
from datetime import timedelta

import msgspec

from rota.doors.parameters import Wait
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.kit.time import durations
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, Unknown
from rota.model.ids import Revision
from rota.model.spec.checks import did_you_mean
from rota.resources.core.listing import TIMEOUT
from rota.resources.core.records import KindRecord, Listing, SyncRequest
from rota.resources.doors.bodies import SyncBody
from rota.resources.doors.operations import list_kinds
from rota.resources.doors.parameters import KindName
from rota.store.follow import follow
from rota.store.port import Absent, At, Put, Store

MARGIN = timedelta(seconds=30)
"""How long to wait for the leader beyond the source's timeout, unless the caller gives a time."""


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """The result of querying a source."""

    listing: Listing | None
    """The list; null if the caller did not wait."""


@verb("POST", "/v1/sources/{kind}/sync", Access.OPERATE, body=SyncBody, answer=Synced)
async def sync_source(
    store: Store, kind: KindName, *, force: bool = False, no_wait: bool = False, wait: Wait = None
) -> Listing | None:
    """Query the source of a kind now, and return the result; None with `no_wait`.

    With `force` the list is applied however many resources it drops. Raises Unknown if there is no result in time.
    """
    record = await _with_source(store, kind)
    asked = await _request(store, kind, force)
    if no_wait:
        return None
    return await _outcome(store, kind, asked, wait or (record.source_timeout or TIMEOUT) + MARGIN)


async def _with_source(store: Store, name: str) -> KindRecord:
    """The kind; Invalid if there is none, or if it has no source."""
    known = {record.name: record for record in await list_kinds(store)}
    record = known.get(name)
    if record is None:
        guess = did_you_mean(name, known) or (f"; there are {', '.join(sorted(known))}" if known else "")
        raise Invalid(f'no app of this fleet has a kind "{name}"{guess}')
    if record.source_every is None:
        raise Invalid(f'kind "{name}" has no source; declare one with @{name}.source(), or add resources yourself')
    return record


async def _request(store: Store, kind: str, force: bool) -> Revision:
    """Write the request; returns its revision. A request that is not taken up yet keeps its `force`."""
    key = keys.sync(kind)
    while True:
        entry = await store.get(key)
        wanted = SyncRequest(
            kind=kind, force=force or (entry is not None and codec.decode(SyncRequest, entry.value).force)
        )
        with suppress(Conflict):
            seen = At(key, entry.modified) if entry else Absent(key)
            return await store.commit(Put(key, codec.encode(wanted)), expect=[seen])


async def _outcome(store: Store, kind: str, asked: Revision, longest: timedelta) -> Listing:
    """The result of the first query since then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(longest.total_seconds()), aclosing(follow(store, keys.listing(kind))) as entries:
            async for entry in entries:
                listing = codec.decode(Listing, entry.value) if entry else None
                if listing is not None and listing.sync >= asked:
                    return listing
    raise Unknown(
        f"{kind}: the source was not queried within {durations.render(longest)}; is there a leader, and a node whose "
        "app has the kind? Ask: rota status"
    )
