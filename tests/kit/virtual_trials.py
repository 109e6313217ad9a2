"""The trials of leadership on the memory store: it lives in one process, so processes are groups in virtual time."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.kit.time import virtual
from rota.kit.time.instant import Instant
from rota.kit.time.virtual import CallbackGroup
from rota.model.errors import TermOver
from rota.model.ids import NodeId
from rota.model.node import Role
from rota.sim.world import EPOCH
from rota.store import Put, Store, open_store
from tests.kit.trials import leader_other_than
from tests.kit.waiting import Recorder

PROBE = "/probe"


class LoopClock:
    """The virtual loop's time."""

    def monotonic(self) -> Instant:
        return Instant(asyncio.get_running_loop().time())

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.monotonic())


CLOCK = LoopClock()


class Contenders:
    """Nodes in groups of their own that can be frozen and crashed."""

    def __init__(self, store: Store, ttl: float) -> None:
        self._store = store
        self._ttl = timedelta(seconds=ttl)
        self.groups: dict[str, CallbackGroup] = {}
        self.terms: dict[str, Term] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str) -> None:
        """One more."""
        self.groups[name] = CallbackGroup(name)
        with self.groups[name].enter():
            self._tasks.append(asyncio.create_task(self._run(NodeId(name)), name=name))

    async def stop(self) -> None:
        """All of them."""
        for group in self.groups.values():
            group.thaw()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, node: NodeId) -> None:
        async def lead(term: Term) -> None:
            self.terms[node] = term
            await asyncio.Event().wait()

        async def body(session: NodeSession) -> None:
            life = session.node.session
            await LeaderCandidate(self._store, session.keeper, session.incarnation, node, life, CLOCK, lead).run()

        identity = Identity(node=node, home=node, role=Role.BOTH, lease_ttl=self._ttl)
        await in_session(self._store, identity, CLOCK, body)


def kill_in_memory(ttl: float) -> float:
    """Virtual seconds until another node leads."""

    async def main() -> float:
        async with open_store("memory://", clock=CLOCK) as store:
            nodes = Contenders(store, ttl)
            for name in "abc":
                nodes.start(name)
            first = await leader_other_than(store, None)
            await asyncio.sleep(ttl)
            killed = asyncio.get_running_loop().time()
            nodes.groups[first.node].freeze()
            await leader_other_than(store, first)
            took = asyncio.get_running_loop().time() - killed
            await nodes.stop()
            return took

    return virtual.run(main())


def freeze_in_memory(ttl: float, attempts: int = 50) -> tuple[int, int]:
    """How many writes of a deposed leader were accepted, and how many refused."""

    async def main() -> tuple[int, int]:
        async with open_store("memory://", clock=CLOCK) as store:
            nodes = Contenders(store, ttl)
            nodes.start("a")
            first = await leader_other_than(store, None)
            nodes.start("b")
            await asyncio.sleep(1)
            nodes.groups[first.node].freeze()
            second = await leader_other_than(store, first)
            await asyncio.sleep(1)
            assert second.node in nodes.terms
            nodes.groups[first.node].thaw()
            async with Recorder(store, PROBE, await store.revision()) as probes:
                refused = await _insist(nodes.terms[first.node], attempts)
                await asyncio.sleep(1)
                accepted = len(probes.commits)
            await nodes.stop()
            return accepted, refused

    return virtual.run(main())


async def _insist(term: Term, attempts: int) -> int:
    """Write as leader again and again; how often that was refused."""
    refused = attempts
    for _ in range(attempts):
        with suppress(TermOver):
            await term.insist(Put(PROBE, str(term.number).encode()))
            refused -= 1
    return refused
