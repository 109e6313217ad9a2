"""The relay's scenario: clean seeds, and each broken safeguard found."""

import pytest

from rota.relay.sim.scenario import BROKEN
from rota.sim.run import run_seed, run_seeds

FOUND = {
    "confirm": "was acked and is lost",
    "fsync": "was acked and is lost",
    "fate": "was acked and is lost",
    "shipping": "was delivered at",
    "holding": "was delivered at",
    "horizon": "was delivered at",
    "queueing": "was delivered at",
    "epoch": "was delivered at",
    "requeue": "without an ack",
    "batches": "was acked and is lost",
}
"""What is left out → the words of the rule that finds it."""

RARE = {"fsync": 100, "fate": 20}
"""Where to begin to look for what few seeds have, as a disk that fails between a write and its fsync."""


def test_nothing_acked_is_lost_whatever_happens() -> None:
    verdicts = list(run_seeds(range(12), "relay"))
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.counts["messages delivered"] for verdict in verdicts) > 6_000, "nothing was tried"
    assert sum(verdict.counts["relay maps"] for verdict in verdicts) > 30, "nothing moved"
    stories = [line for verdict in verdicts for line in verdict.story]
    for fault in ("died", "crashes", "freezes", "cut off", "stands still", "broke off", "goes to"):
        assert any(fault in line for line in stories), f"no seed had: {fault}"


@pytest.mark.matrix
@pytest.mark.parametrize("broken", BROKEN)
def test_a_missing_safeguard_is_found(broken: str) -> None:
    seeds = range(RARE.get(broken, 0), 200)
    found = (violation for seed in seeds for violation in run_seed(seed, "relay", broken).violations)
    assert any(FOUND[broken] in violation for violation in found)


def test_a_seed_tells_the_same_story() -> None:
    assert run_seed(3, "relay").digest == run_seed(3, "relay").digest
