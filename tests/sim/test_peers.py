"""Equal peers under faults, by seed numbers."""

import pytest

from rota.sim.run import run_seed, run_seeds


def test_seeds_break_no_rule() -> None:
    verdicts = list(run_seeds(range(6), "peers"))
    assert {verdict.seed: verdict.violations for verdict in verdicts if verdict.violations} == {}
    assert sum(verdict.counts["beats"] for verdict in verdicts) > 400, "too quiet to prove anything"
    assert sum(verdict.counts["transitions"] for verdict in verdicts) > 20


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param("moments", "a blip made", id="strikes counted by observer are caught"),
        pytest.param("claims", "was claimed after", id="a claim that expects nothing is caught"),
        pytest.param("transitions", "twice in a row", id="a transition that expects nothing is caught"),
    ],
)
def test_a_missing_safeguard_is_found(broken: str, words: str) -> None:
    found = (violation for seed in range(12) for violation in run_seed(seed, "peers", broken).violations)
    assert any(words in violation for violation in found)


def test_a_seed_tells_the_same_story_each_time() -> None:
    assert run_seed(3, "peers").digest == run_seed(3, "peers").digest
