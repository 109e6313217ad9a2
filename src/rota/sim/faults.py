"""Faults: what goes wrong in a simulated world, how often, and for how long.

`rage` lets faults of all kinds come and go until a given time and then heals everything, so that a scenario can ask
whether the fleet recovers. Each fault is one function that breaks something, waits and repairs it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta

from rota.sim.network import Weather
from rota.sim.world import Machine, World

Fault = Callable[[World, float], Coroutine[None, None, None]]


async def rage(world: World, until: float, pause: tuple[float, float], length: tuple[float, float]) -> None:
    """Faults one after the other and over each other until `until`; then none."""
    running: set[asyncio.Task[None]] = set()
    while world.time < until:
        fault = world.random.choice(FAULTS)
        task = asyncio.create_task(fault(world, world.random.uniform(*length)))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(world.random.uniform(*pause))
    for task in list(running):
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    heal(world)


def heal(world: World) -> None:
    """Repair everything."""
    world.network.weather = Weather()
    for machine in world.machines:
        if machine.process.is_dead:
            machine.restart()
        elif machine.process.group.is_frozen:
            machine.thaw()
    world.tell("all faults end")


async def crash(world: World, length: float) -> None:
    """A machine's process is killed, and started again later."""
    if machine := _any_up(world):
        machine.crash()
        await asyncio.sleep(length)
        if machine.process.is_dead:
            machine.restart()


async def freeze(world: World, length: float) -> None:
    """A machine's process is stopped, and goes on later."""
    if machine := _any_up(world):
        machine.freeze()
        await asyncio.sleep(length)
        if machine.process.group.is_frozen and not machine.process.is_dead:
            machine.thaw()


async def cut(world: World, length: float) -> None:
    """A machine loses the store, in one direction or in both."""
    machine = world.random.choice(world.nodes)
    weather = world.network.weather
    sides = world.random.choice(([weather.cut_up], [weather.cut_down], [weather.cut_up, weather.cut_down]))
    world.tell(f"{machine.name} is cut off, {len(sides)} way")
    for side in sides:
        side.add(machine.name)
    await asyncio.sleep(length)
    for side in sides:
        side.discard(machine.name)


async def stall(world: World, length: float) -> None:
    """The store does not answer for a while."""
    world.tell("the store stalls")
    world.network.weather.store_down_until = world.time + length
    await asyncio.sleep(length)


async def slow(world: World, length: float) -> None:
    """Messages take long, some of them very long."""
    world.tell("the network is slow")
    world.network.weather.delay = (0.001, world.random.choice((0.5, 3.0, length)))
    await asyncio.sleep(length)
    world.network.weather.delay = Weather().delay


async def lose(world: World, length: float) -> None:
    """Messages get lost."""
    world.tell("the network loses messages")
    world.network.weather.loss = world.random.uniform(0.05, 0.5)
    await asyncio.sleep(length)
    world.network.weather.loss = 0.0


async def refuse(world: World, length: float) -> None:
    """The store fails every request, and does nothing."""
    world.tell("the store fails")
    world.network.weather.refusal = world.random.uniform(0.05, 0.5)
    await asyncio.sleep(length)
    world.network.weather.refusal = 0.0


async def repeat(world: World, length: float) -> None:
    """What nodes send to each other arrives twice."""
    world.tell("messages are repeated")
    world.network.weather.repeat = world.random.uniform(0.05, 0.5)
    await asyncio.sleep(length)
    world.network.weather.repeat = 0.0


async def contend(world: World, length: float) -> None:
    """Commits lose against others."""
    world.tell("commits conflict")
    world.network.weather.conflict = world.random.uniform(0.05, 0.5)
    await asyncio.sleep(length)
    world.network.weather.conflict = 0.0


async def step(world: World, length: float) -> None:
    """A wall clock is set wrong."""
    clock = world.random.choice([world.store_clock, *(machine.clock for machine in world.machines)])
    by = timedelta(seconds=world.random.choice((-1, 1)) * world.random.uniform(1, 86400))
    world.tell(f"a wall clock steps by {by.total_seconds():.0f} s")
    clock.step(by)


FAULTS: tuple[Fault, ...] = (crash, freeze, cut, stall, slow, lose, refuse, repeat, contend, step)


def _any_up(world: World) -> Machine | None:
    up = [machine for machine in world.nodes if machine.is_up]
    return world.random.choice(up) if up else None
