"""The jobs' scenario: clean seeds, and broken safeguards found."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from rota.jobs.core.records import JobSpec, RunRecord, RunState
from rota.jobs.fleet.part import JobsDependencies
from rota.jobs.fleet.scheduler import NodeStandings
from rota.jobs.sim import EXECUTORS, Jobs
from rota.kit.time import virtual
from rota.sim.network import SimStore
from rota.sim.run import run_seed
from rota.sim.world import World


def test_every_due_time_runs_once_whatever_happens() -> None:
    verdicts = [run_seed(seed, "jobs") for seed in range(4)]
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    counts = {name: sum(verdict.counts[name] for verdict in verdicts) for name in verdicts[0].counts}
    assert counts["runs"] > 400
    assert counts["tried again"] > 20
    assert counts["with late outcomes"] > 1, "nothing came late"


@pytest.mark.matrix
@pytest.mark.parametrize(("broken", "words"), [("cursor", "was made twice"), ("owner", "was executed twice")])
def test_a_writer_that_expects_nothing_is_found(broken: str, words: str) -> None:
    found = [violation for seed in range(3) for violation in run_seed(seed, "jobs", broken).violations]
    assert any(words in violation for violation in found)


def test_the_same_seed_tells_the_same_story() -> None:
    assert run_seed(3, "jobs").digest == run_seed(3, "jobs").digest


def test_a_fleet_whose_nodes_have_all_fallen_lately_still_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts as offline for the others, and answers; more is due than the one that decides can do alone."""
    fallen = partial(JobsDependencies, standing=NodeStandings(share=lambda other: 0.0))
    monkeypatch.setattr("rota.jobs.sim.JobsDependencies", fallen)
    took, seconds = 0.5, 90.0
    runs_a_second = 1.5 * EXECUTORS / took

    async def story() -> list[RunRecord]:
        world = World(1)
        every = timedelta(seconds=2)
        wanted = [JobSpec(name=f"j{number}", every=every, argv=("x",)) for number in range(int(2 * runs_a_second))]
        jobs = Jobs(world, None, jobs=wanted, lasts=lambda order: took)
        world.network.committed = jobs.check
        for number in range(4):
            world.start(f"n{number}", jobs._program)
        await jobs.declare(SimStore(world.network, "client", world.store_clock))
        await asyncio.sleep(seconds)
        return jobs.over()

    over = virtual.run(story())
    assert len(over) > 0.7 * runs_a_second * seconds
    assert RunState.MISSED not in {run.state for run in over}
    assert len({run.node for run in over}) == 4
