"""Scenario: contenders for leadership, with everything going wrong.

Three to five nodes run the product's own session and election code. The leader keeps writing its term into a probe key.
Faults rage, then stop. What must hold:

- No write of an older term is ever accepted: at each accepted probe the leader key is that term's.
- When a term begins, no other node still takes itself for the leader by its own clock, and nothing of another term
  still runs, except on a machine that stands still.
- Once the faults have stopped, a node leads within two leases and a little, and its writes are accepted; and every node
  is back in the fleet.
- No node dies of anything but a crash.

`broken="fence"` makes leaders write without their fence, `broken="deadline"` makes them treat their lease as unlimited;
the scenario must find both.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.term import Term
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.model import keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import Instant, NodeId, Revision, TermNumber
from rota.model.node import Role
from rota.sim.faults import rage
from rota.sim.world import Machine, SimProcess, World
from rota.store.leases.keeper import LeaseKeeper
from rota.store.port import Delete, Put, Write

TTL = timedelta(seconds=10)
PROBE = "/probe"
FAULTS_END = 180.0
RECOVERY = 2 * TTL.total_seconds() + 5
BROKEN = ("fence", "deadline")
"""What can be broken on purpose."""


class Trusting(LeaseKeeper):
    """A keeper that treats its lease as unlimited: what the deadline protects from."""

    @property
    def safe_until(self) -> Instant:
        return Instant(float("inf"))


class Election:
    """One run of the scenario."""

    RULED = (keys.LEADER, PROBE)
    """The key prefixes that its rules are about."""

    def __init__(self, world: World, broken: str | None, *, pace: float = 1.0) -> None:
        """`pace`: the factor by which everything takes longer in a larger scenario."""
        self._world, self._broken, self._pace = world, broken, pace
        self._acting: dict[SimProcess, tuple[TermNumber, LeaseKeeper]] = {}
        self._proven = asyncio.Event()
        self.terms = 0
        self.writes = 0

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        return {"terms": self.terms, "leader writes accepted": self.writes}

    async def run(self) -> None:
        """The whole story."""
        world = self._world
        world.network.committed = self.check
        for number in range(world.random.randint(3, 5)):
            world.start(f"n{number}", self._program)
        await rage(world, until=FAULTS_END, pause=(0.5, 12.0), length=(0.5, 35.0))
        await self.recover()

    async def recover(self) -> None:
        """The faults are over: a node leads soon, and then every node is back."""
        self._proven.clear()
        try:
            async with asyncio.timeout(RECOVERY):
                await self._proven.wait()
        except TimeoutError:
            self._world.violate(f"nobody led within {RECOVERY:.0f} s of the last fault")
        await asyncio.sleep(RECOVERY)
        self._check_everybody_is_back()

    async def _program(self, machine: Machine) -> None:
        """The program of each machine."""
        jitter, process = self._world.random.random, machine.process

        async def lead(term: Term) -> None:
            await self.lead(process, term, machine.store.commit if self._broken == "fence" else term.commit)

        async def body(session: NodeSession) -> None:
            keeper = session.keeper
            if self._broken == "deadline":
                keeper.__class__ = Trusting
            node, name, store = session.node, NodeId(machine.name), machine.store
            await LeaderCandidate(
                store, keeper, session.incarnation, name, node.session, machine.clock, lead, jitter
            ).run()

        identity = Identity(node=NodeId(machine.name), home=machine.name, role=Role.BOTH, lease_ttl=TTL)
        await in_session(machine.store, identity, machine.clock, body, jitter)

    async def lead(self, process: SimProcess, term: Term, write: Callable[[Put], Awaitable[Revision]]) -> None:
        """Write the probe during a term, periodically."""
        self._acting[process] = term.number, term.keeper
        try:
            while True:
                with suppress(Conflict, Unavailable, Unknown):  # the next write may succeed
                    await write(Put(PROBE, str(term.number).encode()))
                await asyncio.sleep(self._world.random.uniform(0.1, 2.0) * self._pace)
        finally:
            self._acting.pop(process, None)

    def check(self, writes: Iterable[Write], revision: Revision) -> None:
        """The rules, at each accepted commit."""
        for write in writes:
            match write:
                case Put(keys.LEADER):
                    self._check_new_term(TermNumber(revision))
                case Delete(keys.LEADER):
                    self._acting.clear()  # it was taken away by force: its holder learns of that later
                case Put(key, value) if key == PROBE:
                    self._check_probe(TermNumber(int(value)))

    def _check_probe(self, term: TermNumber) -> None:
        self.writes += 1
        leader = self._world.universe.get(keys.LEADER)
        present = TermNumber(leader.created) if leader else None
        if present == term:
            self._proven.set()
        else:
            self._world.violate(f"a write of term {term} was accepted in term {present}")

    def _check_new_term(self, term: TermNumber) -> None:
        self.terms += 1
        self._world.tell(f"term {term} begins")
        for process, (other, keeper) in self._acting.items():
            if process.is_dead:
                continue
            if keeper.may_act:
                self._world.violate(f"{process.name} may still act in term {other} when term {term} begins")
            if not process.group.is_frozen:
                self._world.violate(f"{process.name} still runs term {other} when term {term} begins")

    def _check_everybody_is_back(self) -> None:
        present = {entry.key for entry in self._world.universe.scan(keys.NODES, None, None, None).entries}
        for machine in self._world.nodes:
            if keys.node(NodeId(machine.name)) not in present:
                self._world.violate(f"{machine.name} is not back in the fleet")
