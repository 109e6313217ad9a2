"""The resources' scenario: clean seeds, and a broken safeguard found."""

import asyncio

import pytest

from rota.kit import virtual
from rota.kit.instant import Instant
from rota.node.pipes.brief import Order
from rota.sim.resources import GRACE, SimWork
from rota.sim.run import run_seed, run_seeds
from rota.sim.world import Machine, World


def test_resources_stay_covered_whatever_happens() -> None:
    verdicts = list(run_seeds(range(12), "resources"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["terms"] for verdict in verdicts) > 30
    assert sum(verdict.counts["commits of assignments"] for verdict in verdicts) > 300, "nothing was tried"


@pytest.mark.matrix
def test_exclusive_work_that_trusts_its_lease_for_ever_is_found() -> None:
    found = [violation for seed in range(6) for violation in run_seed(seed, "resources", "deadline").violations]
    assert any("acts on" in violation for violation in found)


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_exclusive_task_stops_within_its_grace_once_the_fleet_is_to_recover(seed: int) -> None:
    assert virtual.run(_runs_after_its_grace(seed)) == (True, False)


async def _runs_after_its_grace(seed: int) -> tuple[bool, bool]:
    """Does a task of the slowest pace run before it is asked to stop, and when its grace and two looks are over?"""
    pace, works = 32, []

    async def program(machine: Machine) -> None:
        works.append(SimWork(world, machine, is_trusting=False, pace=pace))
        works[0].extend(Instant(float("inf")))
        works[0].want([Order("single/1#0", 7, "single", "1", 0, b"{}", is_exclusive=True)])
        await works[0].run()

    world = World(seed)
    world.start("n0", program)
    look = 0.5 * pace
    await asyncio.sleep(look)
    before = "single/1#0" in works[0].running
    works[0].want([])
    works[0].hurry()
    await asyncio.sleep(GRACE + 2 * look)
    after = "single/1#0" in works[0].running
    await world.end()
    return before, after
