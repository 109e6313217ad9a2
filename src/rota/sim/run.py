"""Running scenarios by seed, one or thousands, over all cores.

The result of a seed is a `SeedVerdict`; the same seed gives the same verdict and the same story, on any machine.
"""

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Protocol

import msgspec

from rota.jobs.sim import Jobs
from rota.kit.child import in_a_child
from rota.kit.time import virtual
from rota.placement.sim.scenario import PlacementScenario
from rota.relay.sim.scenario import RelayScenario
from rota.resources.sim import Resources
from rota.services.sim.scenario import ServicesScenario
from rota.sim.election import Election
from rota.sim.fleet import FleetScenario
from rota.sim.peers import PeersScenario
from rota.sim.world import World
from rota.streams.sim.scenario import Streams

LITTER = 8
"""Seeds that share a process, whose memory grows by some ten MB with each of them."""


class SeedVerdict(msgspec.Struct, frozen=True):
    """The result of one seed."""

    seed: int
    violations: tuple[str, ...]
    counts: Mapping[str, int]
    """What was tried, by name."""

    digest: str
    story: tuple[str, ...]


class Scenario(Protocol):
    """A story that a world goes through."""

    def counts(self) -> Mapping[str, int]:
        """What was tried, by name; called at the end."""

    async def run(self) -> None:
        """The whole of it."""


SCENARIOS: Mapping[str, Callable[[World, str | None], Scenario]] = {
    "election": Election,
    "fleet": FleetScenario,
    "placement": PlacementScenario,
    "peers": PeersScenario,
    "jobs": Jobs,
    "relay": RelayScenario,
    "resources": Resources,
    "services": ServicesScenario,
    "streams": Streams,
}


def run_seed(seed: int, scenario: str = "election", broken: str | None = None) -> SeedVerdict:
    """One seed of a scenario."""
    gc.disable()  # a seed is short, and what is collected in the middle of it would cost a fifth of its time
    try:
        return virtual.run(_told(scenario, seed, broken, is_left=False))
    finally:
        gc.enable()


def run_seeds(
    seeds: Sequence[int], scenario: str = "election", broken: str | None = None, *, processes: int | None = None
) -> Iterator[SeedVerdict]:
    """Run many seeds, in order, in this many processes at a time; by default one per core."""
    # Spawned, not forked: the caller may have threads.
    count = processes or os.cpu_count() or 1
    litter = max(1, min(LITTER, len(seeds) // count))
    litters = [seeds[at : at + litter] for at in range(0, len(seeds), litter)]
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=begin_in_pool) as pool:
        for verdicts in pool.map(partial(_in_a_child, scenario=scenario, broken=broken), litters):
            yield from verdicts


def _in_a_child(seeds: Sequence[int], scenario: str, broken: str | None) -> list[SeedVerdict]:
    """Some seeds, in a process that ends with them: freeing what worlds were made of is a seventh of their time."""
    return in_a_child(lambda: [virtual.run_and_leave(_told(scenario, seed, broken, is_left=True)) for seed in seeds])


def begin_in_pool() -> None:
    """Set up a process of a pool of simulations.

    It logs nothing about nodes that die: in simulations thousands do, on purpose. It ends at once on Ctrl-C, because a
    pool would still run what is queued.
    """
    logging.getLogger("rota").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def _told(name: str, seed: int, broken: str | None, *, is_left: bool) -> SeedVerdict:
    world = World(seed)
    scenario = SCENARIOS[name](world, broken)
    await scenario.run()
    verdict = SeedVerdict(
        seed=seed,
        violations=tuple(world.violations),
        counts=scenario.counts(),
        digest=world.digest,
        story=tuple(world.story),
    )
    if not is_left:
        await world.end()
    return verdict
