"""The relay map: the leader writes the next one whenever `relay.core.map_plan` says so.

It follows the relays' status records, which lie under their nodes' leases and vanish with them. A conflict is no error:
another leader has written a map meanwhile, and the next one is computed from that.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress

from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import NodeId
from rota.relay.core.map_plan import next_map
from rota.relay.core.records import RelayMap, RelayStatus
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Entry, Put
from rota.store.records import understood

log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds until a failed write is retried, if no status changes before."""


async def keep_relay_map(term: Term, tell: Callable[..., None]) -> None:
    """Write the next map when it is time, until the term ends."""
    await _RelayMapSync(term, tell).run()


class _RelayMapSync:
    def __init__(self, term: Term, tell: Callable[..., None]) -> None:
        self._term, self._tell = term, tell
        self._map: RelayMap | None = None
        self._entry: Entry | None = None
        self._relays: dict[NodeId, RelayStatus] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="relays")
            while True:
                await self._news.wait()
                self._news.clear()
                while (relay_map := self._next()) is not None:
                    if await self._write(relay_map):
                        break  # the watch delivers the map that was written
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RETRY):
                            await self._news.wait()

    def _next(self) -> RelayMap | None:
        if self._entry is not None and self._map is None:
            return None  # a newer Rota has written it, so only a newer Rota may write the next
        return next_map(self._map, self._relays)

    async def _follow(self) -> None:
        async with aclosing(follow_all(self._term.store, keys.RELAY)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._map, self._entry, self._relays = None, None, {}
                for change in news.changes:
                    self._fold(change.key, change.entry)
                self._news.set()

    def _fold(self, key: str, entry: Entry | None) -> None:
        if key == keys.RELAY_MAP:
            self._entry, self._map = entry, understood(RelayMap, entry, log)
        elif key.startswith(keys.RELAY_STATUS):
            node, status = NodeId(key.removeprefix(keys.RELAY_STATUS)), understood(RelayStatus, entry, log)
            if status is None:
                self._relays.pop(node, None)
            else:
                self._relays[node] = status

    async def _write(self, relay_map: RelayMap) -> bool:
        seen = At(keys.RELAY_MAP, self._entry.modified) if self._entry else Absent(keys.RELAY_MAP)
        try:
            await self._term.commit(Put(keys.RELAY_MAP, codec.encode(relay_map)), expect=[seen])
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("relay map not written", extra={"version": relay_map.version, "why": str(error)})
            return False
        before = ", ".join(relay_map.before)
        self._tell(
            "relay.mapped",
            str(relay_map.version),
            nodes=", ".join(relay_map.nodes),
            before=before or None,
            term=self._term.number,
        )
        return True
