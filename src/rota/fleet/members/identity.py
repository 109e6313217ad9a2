"""The fleet a node belongs to: compared with the one whose store it has opened, before anything is written there."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from random import random

from rota.fleet.core.members.identity import FleetClaim, StoreFacts, Stranger, enter
from rota.jobs.core.records import JobRecord
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.model.node import FleetRecord, NodeStatus
from rota.resources.core.records import KindRecord
from rota.store.port import Absent, At, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds between looks at the app's name."""

RETRY = timedelta(milliseconds=100), timedelta(seconds=2)


async def wait_to_belong(store: Store, node: NodeId, claim: FleetClaim, clock: Clock) -> None:
    """Return when the store is confirmed to belong to this node's fleet; Invalid if it belongs to another."""
    waits, reported = delays(*RETRY, random), ""
    while True:
        try:
            return await check_belonging(store, node, claim, clock)
        except (Conflict, Unavailable, Unknown) as error:
            if str(error) != reported:
                reported = str(error)
                log.warning("not joined yet", extra={"node": node, "why": reported})
        await asyncio.sleep(next(waits).total_seconds())


async def check_belonging(
    store: Store, node: NodeId, claim: FleetClaim, clock: Clock, *, is_member: bool = False
) -> None:
    """Invalid if the store holds another fleet; the record is written if the node has something new to say."""
    entry = await store.get(keys.FLEET)
    found = codec.decode(FleetRecord, entry.value) if entry else None
    around = await _surroundings(store, node) if found is None or claim.fleet != found.name else StoreFacts()
    entrance = enter(claim, found, around, clock.wall(), is_member=is_member)
    if isinstance(entrance, Stranger):
        raise Invalid(entrance.why)
    if entrance.record is not None and entrance.record != found:
        seen = At(keys.FLEET, entry.modified) if entry else Absent(keys.FLEET)
        await store.commit(Put(keys.FLEET, codec.encode(entrance.record)), expect=[seen])


async def keep_app_known(
    store: Store, node: NodeId, app: Callable[[], str | None], clock: Clock, *, pace: float = PACE
) -> None:
    """Record the app's name when a reload changes it, so that the node may join again under that name."""
    known = app()
    while True:
        await asyncio.sleep(pace)
        if (now := app()) == known:
            continue
        try:
            await check_belonging(store, node, FleetClaim(app=now), clock, is_member=True)
            known = now
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("app not on record yet", extra={"node": node, "why": str(error)})


async def _surroundings(store: Store, node: NodeId) -> StoreFacts:
    """The present members, and the apps that joined before fleets had a record."""
    nodes = (entry.key.removeprefix(keys.NODES) for entry in (await store.scan(keys.NODES)).entries)
    kinds = [understood(KindRecord, entry) for entry in (await store.scan(keys.KINDS)).entries]
    jobs = [understood(JobRecord, entry) for entry in (await store.scan(keys.JOBS)).entries]
    statuses = [understood(NodeStatus, entry) for entry in (await store.scan(keys.STATUS)).entries]
    apps = frozenset(each.app for each in (*kinds, *jobs, *statuses) if each is not None and each.app)
    return StoreFacts(apps, tuple(sorted(set(nodes) - {node})))
