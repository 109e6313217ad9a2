"""The resources' scenario: clean seeds, and a broken safeguard found."""

from rota.sim.run import run_seed, run_seeds


def test_resources_stay_covered_whatever_happens() -> None:
    verdicts = list(run_seeds(range(12), "resources"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["terms"] for verdict in verdicts) > 30
    assert sum(verdict.counts["commits of assignments"] for verdict in verdicts) > 300, "nothing was tried"


def test_exclusive_work_that_trusts_its_lease_for_ever_is_found() -> None:
    found = [violation for seed in range(6) for violation in run_seed(seed, "resources", "deadline").violations]
    assert any("acts on" in violation for violation in found)
