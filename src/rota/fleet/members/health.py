"""Health records: the chore that turns strikes into transitions between online and offline.

The node that claimed the beat reads the members, their strikes and their health records, and writes what has changed. A
node's record and the event that reports it are one commit, which expects the record as it was: so each transition
happens once and is reported once, however many nodes believe that it is their turn.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count
from typing import TypeVar

from rota.fleet.core.members.peers import Members, PeerVerdict, health, is_forgotten, verdicts
from rota.fleet.events.event_log import event_put
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict
from rota.model.event import KINDS, Severity
from rota.model.ids import Key, NodeId
from rota.model.node import Node
from rota.model.peers import NodeHealth, Standing, Strikes
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

T = TypeVar("T")

TOLD = 500_000
"""First number of the events recorded here."""

NO_DOOR = PeerVerdict(Standing.ONLINE, "it has no door that others could try")


class HealthKeeper:
    """Keeps the health of every node, in the beats that `me` claimed."""

    def __init__(self, store: Store, me: NodeId, incarnation: At, clock: Clock, every: timedelta) -> None:
        self._store, self._me, self._incarnation, self._clock, self._every = store, me, incarnation, clock, every
        self._numbers = count(TOLD)

    async def tend(self, _: int) -> None:
        """Record which nodes went offline and which came back."""
        now = await self._store.now()
        nodes = _all(Node, (await self._store.scan(keys.NODES)).entries)
        strikes = _all(Strikes, (await self._store.scan(keys.STRIKES)).entries)
        entries = (await self._store.scan(keys.NODE_HEALTH)).entries
        known = {NodeId(entry.key.removeprefix(keys.NODE_HEALTH)): entry for entry in entries}
        judged = self._judge({node.id: node.session for node in nodes if node.grpc}, strikes)
        standing = {node.id: judged.get(node.id, NO_DOOR) for node in nodes}
        for node in sorted(standing.keys() | known.keys()):
            await self._tend(node, known.get(node), standing.get(node), now)

    def _judge(self, members: Members, strikes: Iterable[Strikes]) -> dict[NodeId, PeerVerdict]:
        return verdicts(members, strikes, self._every)

    async def _tend(self, node: NodeId, entry: Entry | None, verdict: PeerVerdict | None, now: datetime) -> None:
        before = understood(NodeHealth, entry, log)
        if entry is not None and before is None:
            return  # a newer Rota keeps it
        after = health(before, node, verdict, now, self._every)
        try:
            if after is not None:
                await self._write(entry, before, after)
            elif entry and before and is_forgotten(before, verdict is not None, now):
                await self._store.commit(Delete(entry.key), expect=[At(entry.key, entry.modified), self._incarnation])
        except Conflict:
            log.debug("transition recorded by another node", extra={"node": node})

    async def _write(self, entry: Entry | None, before: NodeHealth | None, after: NodeHealth) -> None:
        put = Put(keys.node_health(after.node), codec.encode(after))
        expected = self._expected(put.key, entry)
        if before is None and after.is_online:  # it has just joined, which `node.joined` reports
            await self._store.commit(put, expect=[*expected, self._incarnation])
            return
        kind = "node.online" if after.is_online else "node.offline"
        at, number = self._clock.wall(), next(self._numbers)
        also = event_put(kind, after.node, {"why": after.why}, node=self._me, at=at, number=number)
        await self._store.commit(put, also, expect=[*expected, Absent(also.key), self._incarnation])
        level = logging.WARNING if KINDS[kind].severity is Severity.WARNING else logging.INFO
        log.log(level, kind.replace(".", " "), extra={"subject": after.node, "why": after.why})

    def _expected(self, key: Key, entry: Entry | None) -> list[Expect]:
        """The expectation that no other node has recorded it meanwhile."""
        return [At(key, entry.modified) if entry else Absent(key)]


def _all(kind: type[T], entries: Iterable[Entry]) -> list[T]:
    return [record for entry in entries if (record := understood(kind, entry, log))]
