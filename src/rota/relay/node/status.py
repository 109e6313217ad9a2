"""Exchanges status between the relay and the fleet, through the store.

The relay's status is written under the node's lease: at once when something changed that other relays use, and figures
less often, because every write reaches everyone who follows the relays. A missing relay has no status.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from contextlib import aclosing

from rota.fleet.members.session import NodeSession
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, LeaseLost, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus
from rota.relay.node.hold import NodeRelay
from rota.resources.core.assignment import Assignment
from rota.store.follow import follow_all
from rota.store.port import Change, Delete, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

PACE = 0.5
"""Seconds between writes at least."""

FIGURES = 5.0
"""Seconds between writes when only figures changed."""


async def join_relays(store: Store, session: NodeSession, relay: NodeRelay, clock: Clock) -> None:
    """Connect relay and fleet through the store, as long as the session lasts."""
    relay.joined(session.incarnation.key)
    async with asyncio.TaskGroup() as parts:
        parts.create_task(_follow(store, relay), name="relays")
        parts.create_task(_follow_epochs(store, relay), name="epochs")
        parts.create_task(_publish(store, session, relay, clock), name="relay status")


async def _follow(store: Store, relay: NodeRelay) -> None:
    """Send the relay the map, and the addresses of the others."""
    relay_map: RelayMap | None = None
    members: dict[NodeId, RelayStatus] = {}
    async with aclosing(follow_all(store, keys.RELAY)) as coming:
        async for news in coming:
            if news.is_whole:
                relay_map, members = None, {}
            for change in news.changes:
                if change.key == keys.RELAY_MAP:
                    relay_map = understood(RelayMap, change.entry, log)
                elif change.key.startswith(keys.RELAY_STATUS):
                    node = NodeId(change.key.removeprefix(keys.RELAY_STATUS))
                    status = understood(RelayStatus, change.entry, log)
                    if status is None:
                        members.pop(node, None)
                    else:
                        members[node] = status
            relay.follow(relay_map, members)


async def _follow_epochs(store: Store, relay: NodeRelay) -> None:
    """Send the relay the epochs of the fleet's exclusive tasks; only once the app declares an exclusive kind."""
    await relay.has_exclusive.wait()
    async with aclosing(follow_all(store, keys.ASSIGNMENTS)) as coming:
        async for news in coming:
            relay.fence(epochs(news.changes, relay.exclusive_kinds))


def epochs(changes: Iterable[Change], kinds: frozenset[str]) -> dict[tuple[str, str], int]:
    """The exclusive resources among new assignments. Those that are to end are left out: their tasks may still emit."""
    found = {}
    for change in changes:
        _, _, task = change.key.removeprefix(keys.ASSIGNMENTS).partition("/")
        if change.entry is not None and task.partition("/")[0] in kinds:
            assignment = understood(Assignment, change.entry, log)
            if assignment is not None and assignment.exclusive and not assignment.stopping:
                found[assignment.kind, assignment.resource] = int(change.entry.modified)
    return found


async def _publish(store: Store, session: NodeSession, relay: NodeRelay, clock: Clock) -> None:
    """Write the relay's status whenever it has changed, until cancelled."""
    key, written, at = keys.relay_status(session.node.id), None, clock.monotonic()
    while True:
        relay.changed.clear()
        status = relay.status
        is_due = clock.monotonic() - at >= FIGURES
        if _essence(status) != _essence(written) or (is_due and status != written):
            write: Write = Put(key, codec.encode(status), session.keeper.lease) if status else Delete(key)
            try:
                await store.commit(write, expect=[session.incarnation])
                written, at = status, clock.monotonic()
            except (Conflict, Invalid, LeaseLost, Unavailable, Unknown) as error:
                log.debug("relay status not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(PACE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PACE):
                await relay.changed.wait()


def _essence(status: RelayStatus | None) -> object:
    """The part of a status that other relays use."""
    if status is None:
        return None
    sinks = tuple((sink.sink, sink.state) for sink in status.sinks)
    return status.address, status.since, status.map_version, status.is_moving, status.is_leaving, sinks
