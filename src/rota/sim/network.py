"""The simulated network and the store behind it.

This is the boundary where order is permuted. A request travels for a random time, is carried out by the store in one
step, and its answer travels back; each way may lose it. A request under way does not depend on its sender: that may
freeze, crash or give up waiting, and it still arrives. That is what fences are for.

`SimStore` is a client of the store as a real adapter would be: it waits for an answer up to its time-out and then says
Unavailable for what only reads, Unknown for what may have been written.
"""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

from rota.kit.time.clock import Clock
from rota.kit.time.virtual import VirtualLoop, virtual_loop
from rota.model import keys
from rota.model.errors import Conflict, RotaError, Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import rules
from rota.store.memory import Universe
from rota.store.port import Commit, Entry, Expect, Lease, ScanResult, Write

T = TypeVar("T")

NEVER_REWRITTEN = (keys.LEADER, keys.INCARNATIONS)
"""Keys no competitor can have changed: no conflict over them is simulated."""

TIMEOUT = 2.0
"""Seconds a client waits for an answer."""


@dataclass
class Weather:
    """How bad the network and the store are at the moment; the faults change it."""

    delay: tuple[float, float] = (0.001, 0.01)
    """Seconds a message travels: least and most."""

    loss: float = 0.0
    """The part of messages that vanish."""

    refusal: float = 0.0
    """The part of requests that the store refuses, having done nothing."""

    repeat: float = 0.0
    """The part of messages between nodes that arrive twice. Those to the store are numbered by their connection."""

    conflict: float = 0.0
    """The part of commits that lose against an imagined competitor."""

    store_down_until: float = 0.0
    """Until then the store does not move: requests wait at its door."""

    cut_up: set[str] = field(default_factory=set)
    """Nodes whose requests do not get through."""

    cut_down: set[str] = field(default_factory=set)
    """Nodes that no answer reaches."""


class _Request:
    """A request to the store, and the future that its caller waits for.

    It has a time-out only from when the network knows that no answer comes in time: there are thousands of requests,
    and nearly all are answered.
    """

    __slots__ = ("_context", "_is_doubted", "_loop", "_unsure", "deadline", "node", "operation", "reply")

    def __init__(
        self,
        loop: VirtualLoop,
        node: str,
        operation: Callable[[], Any],
        unsure: type[Unavailable] | type[Unknown],
    ) -> None:
        self.node, self.operation = node, operation
        self._unsure, self._loop, self._context = unsure, loop, contextvars.copy_context()
        self.deadline = loop.now + TIMEOUT
        self.reply: asyncio.Future[Any] = loop.create_future()
        self._is_doubted = False

    def doubt(self) -> None:
        """No answer comes in time: the caller gives up at its time-out."""
        if not self._is_doubted:
            self._is_doubted = True
            self._loop.call_at(self.deadline, self._give_up, context=self._context)

    def _give_up(self) -> None:
        _settle(self.reply, None, self._unsure("store sim://: no answer in time"))


class SimNetwork:
    """Carries messages between the nodes and the store."""

    def __init__(self, universe: Universe, random: Random) -> None:
        self.universe = universe
        self.weather = Weather()
        self.committed: Callable[[Iterable[Write], Revision], None] = lambda writes, revision: None
        """Called in the very step of each accepted commit."""

        self._random = random
        self._loop = virtual_loop()
        self._context = contextvars.copy_context()
        self._is_closed = False

    def close(self) -> None:
        """Lose every message from now on."""
        self._is_closed = True

    def request(self, request: _Request) -> None:
        """Have the store carry out the request and send the reply, unless one of them gets lost."""
        if self._is_lost(request.node in self.weather.cut_up):
            request.doubt()
        else:
            self._carry(request, self.arrive, request)

    def arrive(self, request: _Request) -> None:
        """The store carries out the request and sends the reply, unless that gets lost."""
        down_until = self.weather.store_down_until
        if self._loop.now < down_until:
            if down_until > request.deadline:
                request.doubt()
            self._loop.call_at(down_until, self.arrive, request, context=self._context)
            return
        answer = error = None
        try:
            if self.weather.refusal and self._random.random() < self.weather.refusal:
                raise Unavailable("store sim://: it is not well")
            answer = request.operation()
        except RotaError as refused:
            error = refused
        except BaseException:  # a bug in the scenario: report it, or it would look like a deadlock
            request.doubt()
            raise
        if self._is_lost(request.node in self.weather.cut_down):
            request.doubt()
        else:
            self._carry(request, _settle, request.reply, answer, error)

    def _is_lost(self, is_cut: bool) -> bool:
        return self._is_closed or is_cut or self._random.random() < self.weather.loss

    def _carry(self, request: _Request, deliver: Callable[..., None], *what: Any) -> None:
        least, most = self.weather.delay
        at = self._loop.now + least + (most - least) * self._random.random()  # as `uniform` has it, for every message
        if at > request.deadline:
            request.doubt()
        self._loop.call_at(at, deliver, *what, context=self._context)

    def competes(self) -> bool:
        """Does a simulated competitor win this commit?"""
        return self._random.random() < self.weather.conflict


class SimStore:
    """One node's client of the store."""

    def __init__(self, network: SimNetwork, node: str, clock: Clock) -> None:
        self._network = network
        self._universe = network.universe
        self._node = node
        self._clock = clock
        self._loop = virtual_loop()

    async def get(self, key: Key) -> Entry | None:
        rules.check_key(key)
        return await self._ask(lambda: self._universe.get(key))

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        rules.check_scan(prefix, after, limit)
        return await self._ask(lambda: self._universe.scan(prefix, after, limit, at))

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        expectations = rules.check_commit(writes, expect)
        return await self._ask(partial(self._commit, writes, expectations), Unknown)

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        rules.check_prefix(prefix)
        send = self._network.request
        while True:
            try:
                commits, reached = await self._ask(partial(self._since, prefix, after), send=send)
            except Unavailable:
                send = self._network.request
                continue
            for commit in commits:
                yield commit
            after = await self._universe.news(prefix, max(after, reached))
            send = self._network.arrive  # the store reports the end unasked; if that gets lost, the client asks

    async def grant(self, ttl: timedelta) -> Lease:
        rules.check_ttl(ttl)
        asked = self._clock.monotonic()
        lease = await self._ask(lambda: self._universe.grant(ttl))
        return Lease(lease, ttl, Instant(asked + ttl.total_seconds()))

    async def renew(self, lease: Lease) -> Instant:
        asked = self._clock.monotonic()
        await self._ask(lambda: self._universe.renew(lease.id))
        return Instant(asked + lease.ttl.total_seconds())

    async def revoke(self, lease: LeaseId) -> None:
        await self._ask(lambda: self._universe.revoke(lease), Unknown)

    async def now(self) -> datetime:
        return await self._ask(self._universe.clock.wall)

    async def revision(self) -> Revision:
        return await self._ask(lambda: self._universe.revision)

    async def compact(self, before: Revision) -> None:
        await self._ask(lambda: self._universe.compact(before))

    async def close(self) -> None:
        """There is nothing to close."""

    def _ask(
        self,
        operation: Callable[[], T],
        unsure: type[Unavailable] | type[Unknown] = Unavailable,
        send: Callable[[_Request], None] | None = None,
    ) -> "asyncio.Future[T]":
        """What the answer will be; no coroutine, for there are thousands of questions in a seed."""
        request = _Request(self._loop, self._node, operation, unsure)
        (send or self._network.request)(request)
        return request.reply

    def _commit(self, writes: tuple[Write, ...], expect: tuple[Expect, ...]) -> Revision:
        contested = [expectation.key for expectation in expect if not expectation.key.startswith(NEVER_REWRITTEN)]
        if contested and self._network.competes():
            raise Conflict(f"{contested[0]}: changed since you read it", contested[:1])
        before = self._universe.revision
        revision = self._universe.commit(writes, expect)
        if revision != before:
            self._network.committed(writes, revision)
        return revision

    def _since(self, prefix: Key, after: Revision) -> tuple[list[Commit], Revision]:
        return self._universe.since(prefix, after), self._universe.revision


def _settle(reply: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(result)
    else:
        reply.set_exception(error)
