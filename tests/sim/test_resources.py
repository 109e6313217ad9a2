"""The resources' scenario: clean seeds, and a broken safeguard found."""

import asyncio

import pytest

from rota.kit.time import virtual
from rota.kit.time.instant import Instant
from rota.model import codec, keys
from rota.model.ids import LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, Role
from rota.resources.sim import GRACE, QUIET, TTL, Resources, SimWork
from rota.runtime.pipes.brief import Order
from rota.sim.run import run_seed, run_seeds
from rota.sim.world import EPOCH, Machine, World
from rota.store.port import Delete, Put


def test_resources_stay_covered_whatever_happens() -> None:
    verdicts = list(run_seeds(range(12), "resources"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["terms"] for verdict in verdicts) > 30
    assert sum(verdict.counts["commits of assignments"] for verdict in verdicts) > 300, "nothing was tried"


@pytest.mark.matrix
def test_exclusive_work_that_trusts_its_lease_for_ever_is_found() -> None:
    found = [violation for seed in range(6) for violation in run_seed(seed, "resources", "deadline").violations]
    assert any("acts on" in violation for violation in found)


@pytest.mark.parametrize(
    ("node", "is_found"),
    [
        pytest.param("n1", False, id="the node came back a moment ago, so a leader may have kept tasks from it"),
        pytest.param("n0", True, id="it never was away"),
    ],
)
def test_a_fleet_at_rest_moves_something_only_once_a_node_has_rested(node: str, is_found: bool) -> None:
    assert virtual.run(_is_found(NodeId(node))) is is_found


async def _is_found(returning: NodeId) -> bool:
    """Is it found that something was written a while after a node came back, and never again?"""
    world = World(0)
    resources = Resources(world, None)
    for id, session in (("n0", "s0"), ("n1", "s1"), (returning, "s0" if returning == "n0" else "s2")):
        node = Node(
            id=NodeId(id), session=SessionId(session), lease=LeaseId("l"), role=Role.BOTH, home=id, host=id, pid=1,
            since=EPOCH, lease_ttl=TTL, slots=1,
        )  # fmt: skip
        resources.check([Put(keys.node(node.id), codec.encode(node))], Revision(1))
    quiet = asyncio.create_task(resources.stay_quiet("settled"))
    await asyncio.sleep(QUIET / 2)
    resources.check([Delete(keys.assignment(NodeId("n0"), "room/1#0"))], Revision(2))
    await quiet
    await world.end()
    return bool(world.violations)


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
