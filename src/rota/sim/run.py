"""Running scenarios by seed, one or thousands, over all cores.

The result of a seed is a `Verdict`; the same seed gives the same verdict and the same story, on any machine.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from rota.kit import virtual
from rota.sim.election import Election
from rota.sim.world import World


@dataclass(frozen=True)
class Verdict:
    """What one seed showed."""

    seed: int
    violations: tuple[str, ...]
    terms: int
    writes: int
    digest: str
    story: tuple[str, ...]


def run_election(seed: int, broken: str | None = None) -> Verdict:
    """One seed of the election."""
    return virtual.run(_election(seed, broken))


def run_elections(seeds: Iterable[int], broken: str | None = None) -> Iterator[Verdict]:
    """Many seeds, in order, on all cores."""
    # Spawned, not forked: whoever calls us may have threads.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_be_quiet) as pool:
        yield from pool.map(partial(run_election, broken=broken), seeds, chunksize=8)


def _be_quiet() -> None:
    """Say nothing of nodes that die: here they do it by the thousand, and on purpose."""
    logging.getLogger("rota").setLevel(logging.CRITICAL)


async def _election(seed: int, broken: str | None) -> Verdict:
    world = World(seed)
    election = Election(world, broken)
    await election.run()
    return Verdict(
        seed=seed,
        violations=tuple(world.violations),
        terms=election.terms,
        writes=election.writes,
        digest=world.digest,
        story=tuple(world.story),
    )
