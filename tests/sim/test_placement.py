"""The scenario of placement: clean seeds, and a broken safeguard found."""

import pytest

from rota.sim.run import run_seed, run_seeds


def test_tasks_are_placed_and_moved_without_uncovering_anything() -> None:
    verdicts = list(run_seeds(range(8), "placement"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["moves"] for verdict in verdicts) > 200, "nothing was tried"


@pytest.mark.matrix
def test_a_node_that_says_too_early_that_a_task_runs_is_found() -> None:
    found = [violation for seed in range(3) for violation in run_seed(seed, "placement", "haste").violations]
    assert any("running tasks by a move" in violation for violation in found)
