"""Assignments: what the store says this node should run, as whole sets of orders.

Read at one revision and watched from there; each commit makes a new set. A store that is away changes nothing: what
runs runs on. After a gap the whole set is read again, so nothing is missed, and nothing is asked of the leader.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from random import random

import msgspec

from rota.kit.backoff import delays
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.errors import Compacted, Invalid, Unavailable
from rota.model.ids import NodeId
from rota.node.pipes import Order
from rota.store.follow import RETRY
from rota.store.port import Entry, Store

log = logging.getLogger(__name__)


async def follow_assignments(
    store: Store, node: NodeId, want: Callable[[Iterable[Order]], None], jitter: Callable[[], float] = random
) -> None:
    """Call `want` with the orders of this node, now and whenever they change, for ever."""
    waits = delays(*RETRY, jitter)
    while True:
        try:
            async with aclosing(_until_it_breaks(store, keys.assignments(node))) as sets:
                async for entries in sets:
                    want(list(_orders(node, entries)))
                    waits = delays(*RETRY, jitter)
        except (Compacted, Unavailable) as error:
            log.debug("following assignments again", extra={"node": node, "why": str(error)})
        await asyncio.sleep(next(waits).total_seconds())


async def _until_it_breaks(store: Store, prefix: str) -> AsyncGenerator[Iterable[Entry], None]:
    listing = await store.scan(prefix)
    entries = {entry.key: entry for entry in listing.entries}
    yield entries.values()
    async with aclosing(store.watch(prefix, listing.revision)) as commits:
        async for commit in commits:
            for change in commit.changes:
                if change.entry is None:
                    entries.pop(change.key, None)
                else:
                    entries[change.key] = change.entry
            yield entries.values()


def _orders(node: NodeId, entries: Iterable[Entry]) -> Iterable[Order]:
    for entry in entries:
        task = entry.key.removeprefix(keys.assignments(node))
        try:
            assignment = codec.decode(Assignment, entry.value)
        except Invalid as error:
            log.error("assignment not understood", extra={"task": task, "why": str(error)})
            continue
        yield Order(
            task=task,
            epoch=entry.modified,
            kind=assignment.kind,
            resource=assignment.resource,
            slot=assignment.slot,
            spec=msgspec.json.encode(assignment.spec),
            is_exclusive=assignment.exclusive,
        )
