"""The other nodes: a link to each, their health, and the checks of whether they answer.

`Peers` follows the fleet and keeps one link for each member, for its present session; the link connects with its first
call and is closed when the member leaves. Every part that calls another node takes the link from here.

`check_peers` periodically checks that every member answers. Failed checks are shown to the fleet as strikes, in keys
under this node's lease, written only when they change. `fleet.core.members.peers` has the rules.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from datetime import datetime, timedelta
from random import random
from typing import TypeAlias

from rota.fleet.core.members.peers import Heard, StrikeLedger, Withheld, heard, weight
from rota.fleet.members.session import NodeSession
from rota.kit.time.clock import Clock
from rota.link.port import NodeLink, NotMe
from rota.model import codec, keys
from rota.model.config import PeersConfig
from rota.model.errors import Conflict, Denied, Invalid, LeaseLost, RotaError, Unavailable, Unknown
from rota.model.ids import Key, NodeId, SessionId
from rota.model.node import Node
from rota.model.peers import NodeHealth, Strikes
from rota.store.follow import PrefixChanges, follow_all
from rota.store.port import Delete, Put, Store, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

Open: TypeAlias = Callable[[Node], AbstractAsyncContextManager[NodeLink]]
"""Opens a link to a node."""

TIMEOUT = timedelta(seconds=2)
"""How long one check may take; half the time between checks if that is less."""

BETWEEN = 1.0
"""Seconds between two rounds at least, however many nodes are doubted."""

BATCH = 100


class Peers:
    """The other members of the fleet, as one node sees them."""

    def __init__(self, me: NodeId, open: Open) -> None:
        self._me, self._open = me, open
        self._links: dict[NodeId, tuple[NodeLink, AsyncExitStack]] = {}
        self.members: dict[NodeId, Node] = {}
        """Every other node that is in the fleet."""

        self.health: dict[NodeId, NodeHealth] = {}
        """Health by node, as the fleet records it."""

        self.ledger = StrikeLedger(me)
        self.doubted = asyncio.Event()

    def link(self, node: NodeId) -> NodeLink | None:
        """The link to a node's present session; None if it is not in the fleet, or has no door."""
        found = self._links.get(node)
        return found[0] if found else None

    def weight(self, node: NodeId, now: datetime, ramp: timedelta) -> float:
        """The part of its share of work that a node should be sent from here, from 0 to 1.

        One that this node itself does not reach gets none, whatever the others say. `now` is by the store's clock.
        """
        return 0.0 if node in self.ledger.strikes else weight(self.health.get(node), now, ramp)

    def doubt(self) -> None:
        """A call to some node failed: check all nodes now."""
        self.doubted.set()

    @property
    def sessions(self) -> dict[NodeId, SessionId]:
        """The members that can be checked."""
        return {node: self.members[node].session for node in self._links}

    async def follow(self, store: Store, jitter: Callable[[], float] = random) -> None:
        """Follow the members of the fleet, until cancelled."""
        try:
            async with aclosing(follow_all(store, keys.NODES, jitter)) as coming:
                async for news in coming:
                    await self._take(news)
        finally:
            for node in list(self._links):
                await self._close(node)

    async def follow_health(self, store: Store, jitter: Callable[[], float] = random) -> None:
        """Follow the health records, until cancelled."""
        async with aclosing(follow_all(store, keys.NODE_HEALTH, jitter)) as coming:
            async for news in coming:
                if news.is_whole:
                    self.health = {}
                for change in news.changes:
                    self.health.pop(NodeId(change.key.removeprefix(keys.NODE_HEALTH)), None)
                    if found := understood(NodeHealth, change.entry, log):
                        self.health[found.node] = found

    async def _take(self, news: PrefixChanges) -> None:
        named = {NodeId(change.key.removeprefix(keys.NODES)): change.entry for change in news.changes}
        if news.is_whole:
            named.update(dict.fromkeys(self.members.keys() - named.keys()))
        for id, entry in named.items():
            if id == self._me:
                continue
            node, before = understood(Node, entry, log), self.members.get(id)
            if node is None:
                self.members.pop(id, None)
                await self._close(id)
            elif before is None or before.session != node.session:
                await self._close(id)
                self.members[id] = node
                await self._connect(node)

    async def _connect(self, node: Node) -> None:
        if not node.grpc:
            return
        way = AsyncExitStack()
        try:
            self._links[node.id] = await way.enter_async_context(self._open(node)), way
        except Invalid as error:
            log.warning("no way to a node", extra={"node": node.id, "why": str(error)})

    async def _close(self, node: NodeId) -> None:
        if found := self._links.pop(node, None):
            await found[1].aclose()


async def check_peers(
    store: Store,
    session: NodeSession,
    peers: Peers,
    config: PeersConfig,
    clock: Clock,
    tell: Callable[..., None],
    jitter: Callable[[], float] = random,
) -> None:
    """Check the other nodes periodically, and show the fleet which of them do not answer, until cancelled."""
    await _Checks(store, session, peers, config, clock, tell, jitter).run()


class _Checks:
    """The checks of one session."""

    def __init__(
        self,
        store: Store,
        session: NodeSession,
        peers: Peers,
        config: PeersConfig,
        clock: Clock,
        tell: Callable[..., None],
        jitter: Callable[[], float],
    ) -> None:
        self._store, self._session, self._peers = store, session, peers
        self._every, self._clock, self._tell, self._jitter = config.check_every, clock, tell, jitter
        self._timeout = min(TIMEOUT, config.check_every / 2)
        self._shown: dict[NodeId, Strikes] = {}
        self._denied: set[NodeId] = set()
        self._is_cut_off = False
        peers.ledger = StrikeLedger(session.node.id)  # what an earlier session showed went with its lease

    async def run(self) -> None:
        while True:
            late = await self._pause()
            try:
                await self._round(late)
                await self._show()
            except (Conflict, LeaseLost, Unavailable, Unknown) as error:
                log.debug("strikes not written", extra={"node": self._session.node.id, "why": str(error)})

    async def _pause(self) -> timedelta:
        """Wait until the next round; returns how much longer than planned that took."""
        span = self._every.total_seconds() * (0.9 + 0.2 * self._jitter())
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(span):
                await self._peers.doubted.wait()
        except TimeoutError:
            return timedelta(seconds=self._clock.monotonic() - began - span)
        await asyncio.sleep(max(0.0, BETWEEN - (self._clock.monotonic() - began)))
        self._peers.doubted.clear()
        return timedelta()

    async def _round(self, late: timedelta) -> None:
        members, began = self._peers.sessions, self._clock.monotonic()
        answers = await asyncio.gather(*(self._check(node) for node in members))
        took = timedelta(seconds=self._clock.monotonic() - began)
        said = {node: why for node, why in zip(members, answers, strict=True) if why is not _NOBODY}
        ledger = self._peers.ledger
        match heard(said, max(late, took - self._timeout)):
            case Withheld() as withheld:
                ledger.forget_all_but(self._peers.sessions)
                self._withhold(withheld)
            case Heard() as round:
                self._is_cut_off = self._is_cut_off and not round.answered
                now = await self._store.now() if round.struck else self._clock.wall()
                ledger.take(round, self._peers.sessions, now)

    async def _check(self, node: NodeId) -> str | None:
        """Why a node does not answer; None if it does."""
        link = self._peers.link(node)
        if link is None:
            return _NOBODY
        try:
            await link.check(timeout=self._timeout)
        except NotMe:
            return _NOBODY  # it has a new session, which the store will show; this check says nothing about it
        except Denied as error:  # it is there; only it does not know our token
            if node not in self._denied:
                self._denied.add(node)
                log.warning("a node does not know our token", extra={"node": node, "why": str(error)})
        except RotaError as error:
            return str(error)
        return None

    def _withhold(self, withheld: Withheld) -> None:
        log.debug("no node is struck", extra={"node": self._session.node.id, "why": withheld.why})
        if withheld.is_cut_off and not self._is_cut_off:
            self._is_cut_off = True
            self._tell("node.cut_off", self._session.node.id, why=withheld.why)

    async def _show(self) -> None:
        """Write the strikes that differ from what was written."""
        wanted, me = self._peers.ledger.strikes, self._session.node.id
        changed = [node for node in wanted.keys() | self._shown.keys() if wanted.get(node) != self._shown.get(node)]
        for start in range(0, len(changed), BATCH):
            some = {node: wanted.get(node) for node in sorted(changed)[start : start + BATCH]}
            writes = [self._write(keys.strikes(node, me), strikes) for node, strikes in some.items()]
            await self._store.commit(*writes, expect=[self._session.incarnation])
            self._note(some)

    def _write(self, key: Key, strikes: Strikes | None) -> Write:
        return Put(key, codec.encode(strikes), self._session.keeper.lease) if strikes else Delete(key)

    def _note(self, written: Mapping[NodeId, Strikes | None]) -> None:
        for node, strikes in written.items():
            if strikes is None:
                self._shown.pop(node, None)
            else:
                self._shown[node] = strikes


_NOBODY = ""
"""The error of a check without a message: its type."""
