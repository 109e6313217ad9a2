"""A session: one life of a node in the fleet.

`in_session` joins the fleet (the store's incarnation, a lease, the node's key under it), runs `body`, and leaves. When
the lease is lost the body is cancelled and everything begins again with a fresh session id, so that what the fleet gave
away meanwhile is not mistaken for ours. A store that is out of reach only makes it wait.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from random import random

import msgspec

from rota.fleet.core.members.identity import FleetClaim
from rota.fleet.core.members.membership import Join, TakeOver, WaitFor, admission
from rota.fleet.core.members.reach import refusal
from rota.fleet.members.identity import check_belonging
from rota.kit import aio
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, LeaseLost, Unavailable, Unknown
from rota.model.ids import Instant, LeaseId, NodeId, SessionId
from rota.model.node import Node, Role
from rota.store import incarnation as incarnations
from rota.store.follow import follow
from rota.store.leases.keeper import LeaseKeeper, RenewalRunner
from rota.store.port import Absent, At, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

LEAVE = 3.0
"""Seconds a leaving node waits for the store."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a node writes about itself in every session."""

    node: NodeId
    home: str
    role: Role
    lease_ttl: timedelta
    http: str = ""
    grpc: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    slots: int = 0
    executors: int = 0
    version: str = ""
    insecure: bool = False
    claim: FleetClaim = msgspec.field(default_factory=FleetClaim)
    """Which fleet it belongs to."""

    network: str = ""
    """The id of the machine whose loopback it uses; empty: do not check whether the others can reach it."""

    token_mark: str = ""
    is_advertised_by_hand: bool = False
    has_own_token: bool = False
    """Do its settings name no token, so that it made one?"""


class NodeSession(msgspec.Struct, frozen=True):
    """A node's place in the fleet, for as long as its lease lasts."""

    node: Node
    keeper: LeaseKeeper
    incarnation: At
    """The key of the store's incarnation that it joined, as everything its leader writes expects it."""


async def in_session(
    store: Store,
    identity: Identity,
    clock: Clock,
    body: Callable[[NodeSession], Awaitable[None]],
    jitter: Callable[[], float] = random,
    aside: RenewalRunner | None = None,
) -> None:
    """Run `body` in one session after the other, until it returns or is cancelled; leases are renewed `aside`."""
    has_been_in = False
    while True:
        session = await join(store, identity, clock, jitter, aside, has_been_in=has_been_in)
        has_been_in = True
        log.info("joined", extra={"node": session.node.id, "session": session.node.session})
        try:
            await aio.apart(_run(store, session, body, jitter))
            return
        except* LeaseLost:
            log.warning("session ended", extra={"node": session.node.id, "session": session.node.session})
        finally:
            await _leave(store, session)


async def join(
    store: Store,
    identity: Identity,
    clock: Clock,
    jitter: Callable[[], float] = random,
    aside: RenewalRunner | None = None,
    *,
    has_been_in: bool = False,
) -> NodeSession:
    """A new session.

    Raises Conflict if another node keeps using our name, Invalid if the store is half loaded, holds another fleet, or
    has nodes on other machines that could not call this one. A node that `has_been_in` the fleet is not refused for the
    last reason: that would end its running work.
    """
    patience, logged = TakeoverWait(clock), ""
    waits = delays(timedelta(milliseconds=100), identity.lease_ttl / 5, jitter)
    while True:
        try:
            if session := await _try_to_join(store, identity, clock, jitter, patience, aside, has_been_in):
                return session
        except (Conflict, Unavailable, Unknown, LeaseLost) as error:
            patience.check(error)
            if str(error) != logged:
                logged = str(error)
                log.warning("not joined yet", extra={"node": identity.node, "why": logged})
        await asyncio.sleep(next(waits).total_seconds())


class TakeoverWait:
    """How long to wait for nodes that hold our name or address and may be dead: two of their leases."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holder: Node | None = None
        self._since = clock.monotonic()
        self._seen: dict[SessionId, Instant] = {}

    def waits_for(self, holder: Node | None) -> None:
        """Start to wait for a holder; a new one gets a wait of its own."""
        if holder is None or self._holder is None or holder.session != self._holder.session:
            self._since = self._clock.monotonic()
        self._holder = holder

    def check(self, error: Exception) -> None:
        """Raise Conflict when the same holder has outlived two leases: it is alive, and the name is its."""
        holder = self._holder
        if holder is None or not isinstance(error, Conflict):
            return
        if self._is_alive(holder, self._since):
            raise Conflict(
                f'node id "{holder.id}" is in use by pid {holder.pid} on {holder.host}; stop it, or choose another id'
            ) from error

    def alive(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes first seen so long ago that their records would be gone if they were dead."""
        now = self._clock.monotonic()
        return [node for node in nodes if self._is_alive(node, self._seen.setdefault(node.session, now))]

    def _is_alive(self, node: Node, since: Instant) -> bool:
        """Has a node outlived two leases?"""
        return self._clock.monotonic() - since > 2 * node.lease_ttl.total_seconds()


async def _try_to_join(
    store: Store,
    identity: Identity,
    clock: Clock,
    jitter: Callable[[], float],
    patience: TakeoverWait,
    aside: RenewalRunner | None,
    has_been_in: bool,
) -> NodeSession | None:
    incarnation = await incarnations.current(store, clock)
    await check_belonging(store, identity.node, identity.claim, clock)
    key = keys.node(identity.node)
    entry = await store.get(key)
    holder = codec.decode(Node, entry.value) if entry else None
    match admission(holder, identity.home, socket.gethostname()):
        case TakeOver(old):
            log.info("taking over from an earlier life", extra={"node": identity.node, "lease": old})
            await store.revoke(old)
            return None
        case WaitFor(holder):
            patience.waits_for(holder)
            raise Conflict(f'node id "{holder.id}" is held by pid {holder.pid} on {holder.host}', [key])
        case Join():
            patience.waits_for(None)
    if not has_been_in:
        await _check_reach(store, identity, clock, patience)
    lease = await store.grant(identity.lease_ttl)
    node = _record(identity, lease.id, lease.ttl, clock)
    await store.commit(Put(key, codec.encode(node), lease.id), expect=[Absent(key), incarnation])
    return NodeSession(node, LeaseKeeper(store, lease, clock, jitter, aside), incarnation)


async def _check_reach(store: Store, identity: Identity, clock: Clock, patience: TakeoverWait) -> None:
    """Invalid if nodes on other machines are there, and could not call this one.

    Conflict if they may be dead: a restart of this machine gives it another network, and leaves records of nodes that
    it ran before.
    """
    if not identity.network:
        return
    others = [node for entry in (await store.scan(keys.NODES)).entries if (node := understood(Node, entry))]
    node = _record(identity, LeaseId(""), identity.lease_ttl, clock)
    is_refused = partial(refusal, node, is_by_hand=identity.is_advertised_by_hand, has_own_token=identity.has_own_token)
    if (why := is_refused(patience.alive(others))) is not None:
        raise Invalid(why)
    if (why := is_refused(others)) is not None:
        raise Conflict(f"{why}; waiting to see if that node is alive")


def _record(identity: Identity, lease: LeaseId, ttl: timedelta, clock: Clock) -> Node:
    return Node(
        id=identity.node,
        session=SessionId(secrets.token_hex(8)),
        lease=lease,
        role=identity.role,
        home=identity.home,
        host=socket.gethostname(),
        pid=os.getpid(),
        since=clock.wall(),
        lease_ttl=ttl,
        http=identity.http,
        grpc=identity.grpc,
        labels=dict(identity.labels),
        slots=identity.slots,
        executors=identity.executors,
        version=identity.version,
        insecure=identity.insecure,
        network=identity.network,
        token_mark=identity.token_mark,
    )


async def _run(
    store: Store, session: NodeSession, body: Callable[[NodeSession], Awaitable[None]], jitter: Callable[[], float]
) -> None:
    """Run the body while renewing its lease and watching its key."""
    async with asyncio.TaskGroup() as parts:
        keeping = [
            parts.create_task(session.keeper.keep(), name="lease"),
            parts.create_task(_stay(store, session, jitter), name="place"),
        ]
        try:
            await body(session)
        finally:
            for task in keeping:
                task.cancel()


async def _stay(store: Store, session: NodeSession, jitter: Callable[[], float]) -> None:
    """Follow our own key; LeaseLost if it is gone or another session's, even if the lease is valid."""
    async with aclosing(follow(store, keys.node(session.node.id), jitter)) as entries:
        async for entry in entries:
            if entry is None or entry.lease != session.keeper.lease:
                raise LeaseLost(session.keeper.lease)


async def _leave(store: Store, session: NodeSession) -> None:
    """Revoke the lease, so that no node has to wait for its end; if the store is away it expires by itself."""
    try:
        async with asyncio.timeout(LEAVE):
            await store.revoke(session.keeper.lease)
        log.info("left", extra={"node": session.node.id})
    except (TimeoutError, Unavailable, Unknown) as error:
        log.warning("left without a word", extra={"node": session.node.id, "why": str(error)})
