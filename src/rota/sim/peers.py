"""Scenario: equal peers that check each other, share out chores and fire a hook, with everything going wrong.

Three to six nodes run the product's own checks, duties, health and hooks. All of them also do the chores without having
the duty, at the same moment, because nothing may depend on it. The story has four acts:

1. Blips. One node at a time answers no checks, or stands still, for less than the time between two checks; a pair of
   nodes cannot reach each other all the while; clocks are set wrong. No node may go offline.
2. Flapping. One node is cut off from the others again and again, in one direction or in both, and keeps the store. Each
   time it is offline within three checks, and back when it is reached.
3. Faults of all kinds at once.
4. Peace. Every node is online, and every event has been delivered.

What must hold at all times:

- A beat of a duty is claimed once, and beats only grow.
- A node's transitions alternate, and each has one event, written in the same commit.
- Each transition goes to the hook's outbox once, and is delivered.

`broken="moments"` counts strikes by observer, `broken="claims"` claims without expecting anything,
`broken="transitions"` writes them so; the scenario must find each.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from rota.fleet.core.hooks.record import Delivery, Hook, HookFailure
from rota.fleet.core.members.peers import ENOUGH, Members, PeerVerdict
from rota.fleet.hooks.deliver import Collector, Deliverer
from rota.fleet.leading.duties import Duties
from rota.fleet.members.health import HealthKeeper
from rota.fleet.members.peers import Peers, check_peers
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.link.port import NodeLink
from rota.link.records import Presence
from rota.model import codec, keys
from rota.model.config import PeersConfig
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.event import Event
from rota.model.ids import Key, NodeId, Revision
from rota.model.node import Node, Role
from rota.model.peers import DutyHeld, NodeHealth, Standing, Strikes
from rota.sim.faults import rage
from rota.sim.world import EPOCH, Machine, World
from rota.store.port import Entry, Expect, Put, Write

TTL = timedelta(minutes=1)
"""Long, so that nodes that answer no checks keep their lease: the scenario tests the checks."""

EVERY = timedelta(seconds=10)
CONFIG = PeersConfig(check_every=EVERY)
SECONDS = EVERY.total_seconds()
CHECKED = ENOUGH * 1.1 * SECONDS + 3
"""Seconds until three checks have failed, with jitter and time-outs."""

NOTICED = CHECKED + SECONDS + 5
"""Seconds until the node with the duty has written that down."""

BACK = NOTICED + 4 * SECONDS
"""Seconds until a node that fell a few times counts as online again."""

RAGE = 120.0
PEACE = 2 * TTL.total_seconds() + 16 * SECONDS + 400
"""Seconds until all are online and all is delivered, after the last fault: tries may be five minutes apart."""

HOOK = Hook(
    name="pager", events=["node.offline", "node.online"], url="sim://", retries=20, per_minute=6000, created=EPOCH
)
BROKEN = ("moments", "claims", "transitions")
"""What can be broken on purpose."""


class _PlainlyCounting(HealthKeeper):
    """Counts strikes of any observer at any time: what moments and majority protect from."""

    def _judge(self, members: Members, strikes: Iterable[Strikes]) -> dict[NodeId, PeerVerdict]:
        count: Counter[NodeId] = Counter()
        for each in strikes:
            count[each.node] += len(each.at)
        return {
            node: PeerVerdict(Standing.OFFLINE if count[node] >= ENOUGH else Standing.ONLINE, "counted")
            for node in members
        }


class _BlindKeeper(HealthKeeper):
    """Writes transitions without expecting the record as it was."""

    def _expected(self, key: Key, entry: Entry | None) -> list[Expect]:
        return []


class _Grabbing(Duties):
    """Claims beats without expecting the claim as it was."""

    def _expected(self, key: Key, entry: Entry | None) -> list[Expect]:
        return []


@dataclass
class _Way:
    """A link through the simulated network that only carries checks."""

    scenario: "PeersScenario"
    source: str
    target: Node

    async def check(self, *, timeout: timedelta) -> Presence | None:
        """Return when the other end has answered."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await self.scenario.travel(self.source, self.target.id)
                await self.scenario.travel(self.target.id, self.source)
        except TimeoutError:
            raise Unavailable(f"node {self.target.id} did not answer in time") from None
        return None


class PeersScenario:
    """One run of the scenario."""

    def __init__(self, world: World, broken: str | None) -> None:
        self._world, self._broken = world, broken
        self._cut: set[tuple[str, str]] = set()
        self._mute: set[str] = set()
        self._beats: dict[Key, int] = {}
        self._online: dict[NodeId, bool] = {}
        self._taken: set[str] = set()
        self._transitions: list[str] = []
        self._delivered: Counter[str] = Counter()
        self._done: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._may_fall = True

    def counts(self) -> Mapping[str, int]:
        """What was tried."""
        beats = sum(len(done) for done in self._done.values())
        return {"beats": beats, "transitions": len(self._transitions), "deliveries": self._delivered.total()}

    async def run(self) -> None:
        """The whole story."""
        world = self._world
        world.network.committed = self._check
        for number in range(world.random.randint(3, 6)):
            world.start(f"n{number}", self._program)
        await asyncio.sleep(3 * SECONDS)
        await self._add_hook()
        await self._blips()
        await self._flap()
        await rage(world, until=world.time + RAGE, pause=(0.5, 12.0), length=(0.5, 35.0))
        await asyncio.sleep(PEACE)
        self._check_peace()

    # What runs on each machine

    async def _program(self, machine: Machine) -> None:
        random = self._world.random

        async def body(session: NodeSession) -> None:
            store, clock, node = machine.store, machine.clock, session.node
            joined = session.incarnation
            load = random.uniform(0, 60)
            peers = Peers(node.id, lambda other: self._way(machine.name, other))
            duties = (_Grabbing if self._broken == "claims" else Duties)(
                store, node.id, node.session, joined, clock, lambda: load
            )
            keeping = {"moments": _PlainlyCounting, "transitions": _BlindKeeper}.get(self._broken or "", HealthKeeper)
            health = keeping(store, node.id, joined, clock, EVERY)
            collector = Collector(store, node.id, joined, clock, EVERY)
            deliverer = Deliverer(store, node.id, joined, clock, lambda: load, self._send, Counter(), random.random)

            async def tend(beat: int) -> None:
                self._note("health", beat)
                await health.tend(beat)

            async def meddle() -> None:
                while True:
                    await asyncio.sleep(SECONDS - self._world.time % SECONDS)  # all of them at the same time
                    with suppress(Conflict, Unavailable, Unknown):
                        await health.tend(0)
                        await collector.hold(0)

            async with asyncio.TaskGroup() as parts:
                parts.create_task(meddle())
                parts.create_task(peers.follow(store, random.random))
                parts.create_task(peers.follow_health(store, random.random))
                parts.create_task(check_peers(store, session, peers, CONFIG, clock, _nobody, random.random))
                parts.create_task(duties.every("health", EVERY, tend))
                parts.create_task(duties.every("hooks", EVERY, collector.hold))
                parts.create_task(collector.run())
                parts.create_task(deliverer.run())

        name = NodeId(machine.name)
        identity = Identity(node=name, home=machine.name, role=Role.BOTH, lease_ttl=TTL, grpc=f"{name}:1")
        await in_session(machine.store, identity, machine.clock, body, random.random)

    @asynccontextmanager
    async def _way(self, source: str, target: Node) -> AsyncIterator[NodeLink]:
        yield cast(NodeLink, _Way(self, source, target))

    async def travel(self, source: str, target: str) -> None:
        """Deliver a message between nodes, or lose it."""
        weather, random = self._world.network.weather, self._world.random
        await asyncio.sleep(random.uniform(*weather.delay))
        machine = next(each for each in self._world.machines if each.name == target)
        is_cut = (source, target) in self._cut or self._mute & {source, target}
        if is_cut or not machine.is_up or random.random() < weather.loss:
            await asyncio.Event().wait()

    async def _send(self, hook: Hook, delivery: Delivery) -> HookFailure | None:
        await asyncio.sleep(self._world.random.uniform(0.01, 0.5))
        if self._world.random.random() < 0.2:
            return HookFailure("it did not answer")
        self._delivered[delivery.event.id] += 1
        return None

    # The acts

    async def _add_hook(self) -> None:
        machine = self._world.machines[0]
        while True:
            with suppress(Conflict, Unavailable, Unknown):
                await machine.store.commit(Put(keys.hook(HOOK.name), codec.encode(HOOK)))
                return

    async def _blips(self) -> None:
        """Short outages, one at a time, and one cut that lasts: no node goes offline."""
        world = self._world
        self._may_fall = False
        one, other = world.random.sample([machine.name for machine in world.machines], 2)
        world.tell(f"{one} and {other} do not reach each other")
        if len(world.machines) > 3:  # of three nodes, a blip of the third would leave these two without any peer
            self._cut |= {(one, other), (other, one)}
        for _ in range(4):
            machine = world.random.choice(world.machines)
            machine.clock.step(timedelta(seconds=world.random.uniform(-300, 300)))
            await self._blip(machine, world.random.uniform(0.1, 0.9) * SECONDS)
            await asyncio.sleep(3 * SECONDS)
        self._cut.clear()
        await asyncio.sleep(2 * SECONDS)
        self._may_fall = True

    async def _blip(self, machine: Machine, length: float) -> None:
        self._world.tell(f"a blip of {machine.name}, {length:.1f} s")
        if self._world.random.random() < 0.5:
            machine.freeze()
            await asyncio.sleep(length)
            machine.thaw()
        else:
            self._mute.add(machine.name)
            await asyncio.sleep(length)
            self._mute.clear()

    async def _flap(self) -> None:
        """A node that no other reaches is offline in time, and back when it is reached again."""
        world = self._world
        victim = world.random.choice(world.machines).name
        others = [machine.name for machine in world.machines if machine.name != victim]
        for _ in range(2):
            ways = {(other, victim) for other in others}
            if world.random.random() < 0.5:
                ways |= {(victim, other) for other in others}
            world.tell(f"nobody reaches {victim}")
            self._cut |= ways
            await asyncio.sleep(NOTICED)
            if self._online.get(NodeId(victim)):
                world.violate(f"{victim} answers nobody, and is online after {NOTICED:.0f} s")
            self._cut -= ways
            world.tell(f"{victim} is reached again")
            await asyncio.sleep(BACK)
            if not self._online.get(NodeId(victim)):
                world.violate(f"{victim} answers everybody, and is offline after {BACK:.0f} s")

    # The rules

    def _note(self, duty: str, beat: int) -> None:
        self._done[duty][beat] += 1
        if self._done[duty][beat] > 1:
            self._world.violate(f"beat {beat} of {duty} was done twice")

    def _check(self, writes: Iterable[Write], revision: Revision) -> None:
        """The rules, at each accepted commit."""
        puts = [write for write in writes if isinstance(write, Put)]
        told = [codec.decode(Event, put.value) for put in puts if put.key.startswith(keys.EVENTS)]
        for write in puts:
            if write.key.startswith(keys.DUTIES):
                self._check_beat(write.key, codec.decode(DutyHeld, write.value).beat)
            elif write.key.startswith(keys.NODE_HEALTH):
                self._check_health(codec.decode(NodeHealth, write.value), told)
            elif write.key.startswith(keys.HOOK_OUTBOX):
                self._check_taken(codec.decode(Delivery, write.value))

    def _check_beat(self, duty: Key, beat: int) -> None:
        if beat <= self._beats.get(duty, -1):
            self._world.violate(f"beat {beat} of {duty} was claimed after {self._beats[duty]}")
        self._beats[duty] = beat

    def _check_health(self, health: NodeHealth, told: list[Event]) -> None:
        before = self._online.get(health.node, True)
        is_first = health.node not in self._online and health.is_online
        self._online[health.node] = health.is_online
        if is_first:
            return
        state = "online" if health.is_online else "offline"
        self._world.tell(f"{health.node} is {state}: {health.why}")
        if health.is_online == before:
            self._world.violate(f"{health.node} became {state} twice in a row")
        if [event.kind for event in told] != [f"node.{state}"]:
            self._world.violate(f"{health.node} became {state}, and that was not told")
        self._transitions += [event.id for event in told]
        if not health.is_online and not self._may_fall:
            self._world.violate(f"a blip made {health.node} offline")

    def _check_taken(self, delivery: Delivery) -> None:
        if delivery.attempts == 0:
            if delivery.id in self._taken:
                self._world.violate(f"{delivery.event.kind} of {delivery.event.subject} was taken twice for the hook")
            self._taken.add(delivery.id)

    def _check_peace(self) -> None:
        for machine in self._world.machines:
            if not self._online.get(NodeId(machine.name)):
                self._world.violate(f"{machine.name} is not online again")
        if late := [event for event in self._transitions if not self._delivered[event]]:
            self._world.violate(f"{len(late)} transitions were never delivered, such as {late[0]}")
        if len(self._taken) != len(self._transitions):
            self._world.violate(f"{len(self._transitions)} transitions, and {len(self._taken)} were taken for the hook")


def _nobody(*_: object, **__: object) -> None:
    """Gets events that nothing listens to."""
