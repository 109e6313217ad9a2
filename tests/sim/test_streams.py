"""The streams' scenario: clean seeds, and broken safeguards found."""

import re

import pytest

from rota.sim.run import run_seed


def test_every_record_is_published_once_whatever_happens() -> None:
    verdicts = [run_seed(seed, "streams") for seed in range(6)]
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    counts = {name: sum(verdict.counts[name] for verdict in verdicts) for name in verdicts[0].counts}
    assert counts["records"] > 8_000
    assert counts["publishes"] > 60
    assert counts["perils at a step"] > 20
    assert counts["workers killed"] > 10


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("offsets", "was published"),
        ("end", "rows instead of"),
        ("status", "groups read partition|had agreed on|started at"),
    ],
)
def test_a_missing_safeguard_is_found(broken: str, words: str) -> None:
    found: list[str] = []
    for seed in range(20):
        found += run_seed(seed, "streams", broken).violations
        if any(re.search(words, violation) for violation in found):
            return
    pytest.fail(f"{words} was not found; there was {found[:3]}")


def test_the_same_seed_tells_the_same_story() -> None:
    assert run_seed(3, "streams").digest == run_seed(3, "streams").digest
