"""A node whose store fails while it starts: at each single call, for a moment or for a while. It comes up all the same.

The node is whole but for its processes and doors, and runs in virtual time on the memory store. A first start counts
the calls; then one start for each of them, in which that call fails.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import pytest

import rota
from rota.compose import member as composition
from rota.compose.member import FleetMember
from rota.compose.parts import NodeParts, NodeSettings
from rota.compose.state import NodeState
from rota.jobs.core.records import JobSpec
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.config import NodeConfig
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, NodeId, Revision
from rota.model.node import Node
from rota.resources.core.records import WantedResource
from rota.runtime.pipes.loader import Loaded
from rota.runtime.system import data_folder
from rota.store import Commit, Entry, Lease, ScanResult, Store, open_store
from rota.store.port import Expect, Write
from tests.kit.virtual_trials import CLOCK

T = TypeVar("T")

TTL = timedelta(seconds=5)
WRITES = frozenset({"commit", "renew", "revoke"})
STARTED = 3.0
"""Seconds after which a node has done everything once: it leads, has declared and placed what it is told to."""

UP = 60.0
"""Seconds that it may take to come up after the store is back; much more than it needs, and they cost nothing."""


class Way(StrEnum):
    """How a call fails."""

    AWAY = "it is not sent"
    NOT_MADE = "it is lost on the way there"
    MADE = "its answer is lost on the way back"


@dataclass(frozen=True)
class Failure:
    """Which call fails, and for how long all those after it."""

    call: int
    way: Way
    seconds: float = 0.0


class FailingStore:
    """A store that does not take or not answer some of its calls; watches only stand still, as every store's do."""

    def __init__(self, store: Store, failure: Failure | None) -> None:
        self._store, self._failure = store, failure
        self.calls: list[str] = []
        """What was asked, in order."""

        self._back_at: float | None = None

    @property
    def is_back(self) -> bool:
        """Has it failed, and does it work again?"""
        return self._back_at is not None and asyncio.get_running_loop().time() > self._back_at

    def _fails(self, call: str) -> bool:
        self.calls.append(call)
        now = asyncio.get_running_loop().time()
        if self._failure is not None and len(self.calls) == self._failure.call:
            self._back_at = now + self._failure.seconds
            return True
        return self._back_at is not None and now < self._back_at

    async def _ask(self, call: str, work: Callable[[], Awaitable[T]]) -> T:
        if not self._fails(call):
            return await work()
        assert self._failure is not None
        if call.split(maxsplit=1)[0] not in WRITES or self._failure.way is Way.AWAY:
            raise Unavailable(f"{call}: the store is away")
        if self._failure.way is Way.MADE:
            await work()
        raise Unknown(f"{call}: the answer got lost")

    async def get(self, key: Key) -> Entry | None:
        return await self._ask(f"get {key}", lambda: self._store.get(key))

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        return await self._ask(f"scan {prefix}", lambda: self._store.scan(prefix, after=after, limit=limit, at=at))

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        expected = tuple(expect)
        return await self._ask(
            f"commit {' '.join(write.key for write in writes)}", lambda: self._store.commit(*writes, expect=expected)
        )

    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        async with aclosing(self._store.watch(prefix, after)) as commits:
            async for commit in commits:
                if self._back_at is not None:
                    await asyncio.sleep(max(0.0, self._back_at - asyncio.get_running_loop().time()))
                yield commit

    async def grant(self, ttl: timedelta) -> Lease:
        return await self._ask("grant", lambda: self._store.grant(ttl))

    async def renew(self, lease: Lease) -> Instant:
        return await self._ask("renew", lambda: self._store.renew(lease))

    async def revoke(self, lease: LeaseId) -> None:
        await self._ask("revoke", lambda: self._store.revoke(lease))

    async def now(self) -> datetime:
        return await self._ask("now", self._store.now)

    async def revision(self) -> Revision:
        return await self._ask("revision", self._store.revision)

    async def compact(self, before: Revision) -> None:
        await self._ask("compact", lambda: self._store.compact(before))

    async def close(self) -> None:
        await self._store.close()


def an_app() -> Loaded:
    """What a loader would tell of an app."""
    app = rota.App("trial")

    @app.resource(start_within="1h")
    async def room(task: rota.Task) -> None:
        """Runs nowhere: there are no processes here."""

    @app.job(every="1s")
    def tick(run: rota.Run) -> None:
        """Likewise."""

    return Loaded(app.summary(), "")


class Start:
    """One start of a node, with one failure."""

    def __init__(self, folder: Path, failure: Failure | None) -> None:
        self._data, self._failure = folder, failure
        self.calls: list[str] = []

    async def run(self, patch: pytest.MonkeyPatch) -> None:
        """Start, and come up."""
        config = NodeConfig(store="memory://", id=NodeId("a"), data=self._data, app="app.py", lease_ttl=TTL)
        settings = NodeSettings(
            node=config,
            resources=lambda: [WantedResource(kind="room", id="1")],
            declared_jobs=lambda: [JobSpec(name="tock", every=timedelta(seconds=1))],
        )
        async with open_store("memory://", clock=CLOCK) as real:
            store = FailingStore(real, self._failure)
            patch.setattr(composition, "open_store", lambda *_, **__: _given(store))
            with data_folder.hold(self._data) as folder:
                parts = NodeParts(settings, folder, CLOCK)
                state = parts.state
                assert state.runtime is not None
                assert parts.relay_place is not None
                state.runtime.generations._apps[1] = an_app()
                state.runtime.generations.settle_on(1, None)
                member = asyncio.ensure_future(FleetMember(parts).run())
                try:
                    await self._until_up(real, store, state, member)
                finally:
                    self.calls = store.calls.copy()
                    member.cancel()
                    await asyncio.gather(member, return_exceptions=True)
                    parts.relay_place.door.close()

    async def _until_up(self, real: Store, store: FailingStore, state: NodeState, member: asyncio.Future[None]) -> None:
        end = asyncio.get_running_loop().time() + (self._failure.seconds + UP if self._failure else STARTED)
        while asyncio.get_running_loop().time() < end:
            await asyncio.wait([member], timeout=0.25)
            assert not member.done(), f"the node ended: {member.exception()!r}"
            if store.is_back and await is_up(real, state):
                return
        assert self._failure is None or store.is_back, "nothing has failed"
        assert await is_up(real, state), "it is not up"


@asynccontextmanager
async def _given(store: Store) -> AsyncIterator[Store]:
    yield store


async def is_up(store: Store, state: NodeState) -> bool:
    """Does it lead, in one incarnation and with a place of its own, and is everything declared and placed?"""
    if state.session is None or state.term is None:
        return False
    entry = await store.get(keys.node(state.id))
    if entry is None or codec.decode(Node, entry.value).session != state.session_id:
        return False
    assert len((await store.scan(keys.INCARNATIONS)).entries) == 1
    wanted = (f"{keys.assignments(state.id)}room/1", keys.job("tick"), keys.job("tock"), keys.status(state.id))
    return all([(await store.scan(key)).entries for key in wanted])


def start(folder: Path, patch: pytest.MonkeyPatch, failure: Failure | None = None) -> list[str]:
    """Start a node that comes up; what it asked of the store."""
    one = Start(folder, failure)
    random.seed(0)  # so that its waits are those of the start whose calls were counted
    try:
        virtual.run(one.run(patch))
    except AssertionError as error:
        failed = one.calls[failure.call - 1] if failure else "nothing"
        raise AssertionError(f"{failure}, which is {failed}: {error}") from error
    return one.calls


@pytest.mark.slow
@pytest.mark.parametrize("way", Way)
def test_a_node_comes_up_whatever_call_to_the_store_fails_while_it_starts(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, call in enumerate(start(tmp_path, monkeypatch), 1):
        if way is Way.AWAY or call.split()[0] in WRITES:
            start(tmp_path, monkeypatch, Failure(number, way))


@pytest.mark.slow
def test_a_node_comes_up_whenever_the_store_goes_away_for_longer_than_a_lease_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, _ in enumerate(start(tmp_path, monkeypatch), 1):
        start(tmp_path, monkeypatch, Failure(number, Way.AWAY, 1.5 * TTL.total_seconds()))
