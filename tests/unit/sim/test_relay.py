"""The relay's scenario: clean seeds, and each broken safeguard found."""

from rota.sim.run import run_seed, run_seeds


def test_nothing_acked_is_lost_whatever_happens() -> None:
    verdicts = list(run_seeds(range(40), "relay"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["messages delivered"] for verdict in verdicts) > 20_000, "nothing was tried"
    assert sum(verdict.counts["relay maps"] for verdict in verdicts) > 100, "nothing moved"
    stories = [line for verdict in verdicts for line in verdict.story]
    for fault in ("died", "crashes", "freezes", "cut off", "stands still", "broke off", "goes to"):
        assert any(fault in line for line in stories), f"no seed had: {fault}"


def test_a_seed_tells_the_same_story() -> None:
    assert run_seed(3, "relay").digest == run_seed(3, "relay").digest
