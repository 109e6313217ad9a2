"""Where stream tasks are placed: the assignments of all streams' groups, and since when this leader knows them."""

import asyncio
import logging
from collections import defaultdict
from contextlib import aclosing
from datetime import datetime

import msgspec

from rota.kit.bell import Bell
from rota.model import keys
from rota.model.ids import Key, NodeId, Revision
from rota.resources.core.assignment import Assignment
from rota.store.clock import StoreClock
from rota.store.follow import follow_all
from rota.store.port import Entry, Store
from rota.store.records import understood
from rota.streams.core.records import KIND

log = logging.getLogger(__name__)


class Placed(msgspec.Struct, frozen=True):
    """One stream task on one node."""

    group: str
    slot: int
    epoch: Revision
    node: NodeId
    since: datetime
    """When this leader first saw it, by the store's clock."""


class Placements:
    """The placed tasks, by stream."""

    def __init__(self, clock: StoreClock) -> None:
        self.is_known = asyncio.Event()
        """Were they all read once?"""

        self._clock = clock
        self._bells: defaultdict[str, Bell] = defaultdict(Bell)
        self._streams: defaultdict[str, dict[Key, Placed]] = defaultdict(dict)

    def of(self, stream: str) -> list[Placed]:
        """The tasks of a stream."""
        return list(self._streams[stream].values())

    def bell(self, stream: str) -> Bell:
        """Rings when a task of a stream was placed or taken away."""
        return self._bells[stream]

    async def follow(self, store: Store) -> None:
        """Follow the assignments in the store until cancelled."""
        async with aclosing(follow_all(store, keys.ASSIGNMENTS)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._forget_all_but({change.key for change in news.changes})
                for change in news.changes:
                    self._see(change.key, change.entry)
                self.is_known.set()

    def _forget_all_but(self, here: set[Key]) -> None:
        for stream, placed in self._streams.items():
            self._streams[stream] = {key: each for key, each in placed.items() if key in here}
            self._bells[stream].ring()

    def _see(self, key: Key, entry: Entry | None) -> None:
        node, _, task = key.removeprefix(keys.ASSIGNMENTS).partition("/")
        kind = task.partition("/")[0]
        if not kind.startswith(KIND):
            return
        stream = kind.removeprefix(KIND)
        placed = self._streams[stream]
        assignment = understood(Assignment, entry, log)
        if entry is None or assignment is None or assignment.stopping:
            placed.pop(key, None)
        elif key not in placed or placed[key].epoch != entry.modified:
            placed[key] = Placed(assignment.resource, assignment.slot, entry.modified, NodeId(node), self._clock.now())
        self._bells[stream].ring()
