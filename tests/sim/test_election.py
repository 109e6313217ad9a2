"""The election under faults, by seed numbers."""

import os
import subprocess
import sys

import pytest

from rota.sim.run import run_seed, run_seeds


def test_seeds_break_no_rule() -> None:
    verdicts = list(run_seeds(range(40)))
    assert {verdict.seed: verdict.violations for verdict in verdicts if verdict.violations} == {}
    assert sum(verdict.counts["terms"] for verdict in verdicts) > 80, "too quiet to prove anything"
    assert sum(verdict.counts["leader writes accepted"] for verdict in verdicts) > 800


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param("fence", "was accepted in term", id="a write without a fence is caught"),
        pytest.param("deadline", "may still act in term", id="a leader without a deadline is caught"),
    ],
)
def test_a_missing_safeguard_is_found(broken: str, words: str) -> None:
    found = [violation for seed in range(10) for violation in run_seed(seed, "election", broken).violations]
    assert any(words in violation for violation in found)


def test_a_seed_tells_the_same_story_in_any_process() -> None:
    code = "from rota.sim.run import run_seed; print(run_seed(7, 'election', 'fence').digest)"
    environ = {**os.environ, "PYTHONHASHSEED": "12345"}
    told = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == run_seed(7, "election", "fence").digest


def test_seeds_differ() -> None:
    assert run_seed(1).digest != run_seed(2).digest
