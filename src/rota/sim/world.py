"""A simulated world: a store, a network, machines with clocks and processes, and faults to all of them.

Everything random comes from one seeded source, so a seed is a story: the same at each run. `World.tell` writes the
story down; `digest` names it in a few characters.

A process is everything that was started under its `CallbackGroup` (`kit.time.virtual`): freezing it is SIGSTOP,
crashing it is kill −9, and neither lets it clean up.
"""

import asyncio
import contextvars
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random

from rota.kit.time.instant import Instant
from rota.kit.time.virtual import CallbackGroup, virtual_loop
from rota.model.node import NodeStatus
from rota.resources.core.records import KindRecord
from rota.sim.network import SimNetwork, SimStore
from rota.store.memory import Universe

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class SimClock:
    """A machine's clocks: the monotonic one drifts a little, the wall clock is wrong and steps."""

    def __init__(self, random: Random) -> None:
        self._loop = virtual_loop()
        self._rate = 1.0 + random.uniform(-0.01, 0.01)
        self._boot = random.uniform(0, 1e6)
        self._skew = timedelta(seconds=random.uniform(-5, 5))

    def monotonic(self) -> Instant:
        return Instant(self._boot + self._loop.now * self._rate)

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop.now) + self._skew

    def step(self, by: timedelta) -> None:
        """Set the wall clock forward or back."""
        self._skew += by


class SimProcess:
    """One life of a machine's program."""

    def __init__(self, machine: "Machine", program: Callable[["Machine"], Awaitable[None]]) -> None:
        self.name = machine.name
        self.group = CallbackGroup(machine.name)
        self.is_dead = False
        with self.group.enter():
            self.task = asyncio.ensure_future(program(machine))
            self.context = contextvars.copy_context()
            """Of what happens in it without its doing."""

        self.task.add_done_callback(lambda task: machine.ended(self))


class Machine:
    """A name, a clock, a way to the store, and the process that runs there."""

    def __init__(
        self, world: "World", name: str, program: Callable[["Machine"], Awaitable[None]], has_own_faults: bool = False
    ) -> None:
        self.name, self.has_own_faults = name, has_own_faults
        self.clock = SimClock(world.random)
        self.store = SimStore(world.network, name, self.clock)
        self._world = world
        self._program = program
        self.lives = [SimProcess(self, program)]

    @property
    def process(self) -> SimProcess:
        """The present life."""
        return self.lives[-1]

    def ended(self, process: SimProcess) -> None:
        """A process ended by itself, which no fault may cause."""
        if not self._world.is_over:
            error = None if process.task.cancelled() else process.task.exception()
            self._world.violate(f"{self.name} died by itself: {error!r}")

    @property
    def is_up(self) -> bool:
        """Does its process run, and is it not frozen?"""
        return not self.process.is_dead and not self.process.group.is_frozen

    def crash(self) -> None:
        """kill −9."""
        if self._world.is_over:
            return  # or its last life would never finish ending
        self._world.tell(f"{self.name} crashes")
        self.process.is_dead = True
        self.process.group.freeze()

    def restart(self) -> None:
        """A new process; the old one must be dead."""
        self._world.tell(f"{self.name} restarts")
        self.lives.append(SimProcess(self, self._program))

    def freeze(self) -> None:
        """SIGSTOP."""
        if self._world.is_over:
            return
        self._world.tell(f"{self.name} freezes")
        self.process.group.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        self._world.tell(f"{self.name} thaws")
        self.process.group.thaw()


class World:
    """All of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.story: list[str] = []
        self.violations: list[str] = []
        self.machines: list[Machine] = []
        self.is_over = False
        self._loop = virtual_loop()
        self.store_clock = SimClock(self.random)
        self.universe = Universe(self.store_clock)
        self.network = SimNetwork(self.universe, self.random)

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return self._loop.now

    @property
    def nodes(self) -> list[Machine]:
        """The machines that the faults of all scenarios may hit."""
        return [machine for machine in self.machines if not machine.has_own_faults]

    def start(
        self, name: str, program: Callable[[Machine], Awaitable[None]], *, has_own_faults: bool = False
    ) -> Machine:
        """A machine that runs `program`; one with faults of its own is left alone by those of all scenarios."""
        machine = Machine(self, name, program, has_own_faults)
        self.machines.append(machine)
        return machine

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.time:9.3f} {what}")

    def violate(self, what: str) -> None:
        """Report a broken rule; ignored while everything is torn down and dead processes finish."""
        if self.is_over:
            return
        self.tell(f"VIOLATION: {what}")
        self.violations.append(what)

    @property
    def digest(self) -> str:
        """The same for the same story."""
        return hashlib.sha256("\n".join(self.story).encode()).hexdigest()[:12]

    async def end(self) -> None:
        """Stop everything. Clean-up code that still runs meets a store that does not answer."""
        self.is_over = True
        self.network.close()
        tasks = []
        for machine in self.machines:
            for life in machine.lives:
                life.group.thaw()
                life.task.cancel()
                tasks.append(life.task)
        await asyncio.gather(*tasks, return_exceptions=True)


def status_of(app: str, kinds: Iterable[KindRecord]) -> NodeStatus:
    """The status of a simulated node: which kinds it has, and no processes."""
    return NodeStatus(
        app=app,
        generation=1,
        previous=None,
        reloading=None,
        pools=[],
        tasks_ordered=0,
        tasks_running=0,
        kinds=[kind.name for kind in kinds],
    )
