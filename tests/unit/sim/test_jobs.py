"""The jobs' scenario: clean seeds, and broken safeguards found."""

import pytest

from rota.sim.run import run_seed


def test_every_due_time_runs_once_whatever_happens() -> None:
    verdicts = [run_seed(seed, "jobs") for seed in range(4)]
    assert [(verdict.seed, verdict.violations[0]) for verdict in verdicts if verdict.violations] == []
    counts = {name: sum(verdict.counts[name] for verdict in verdicts) for name in verdicts[0].counts}
    assert counts["runs"] > 400
    assert counts["tried again"] > 20
    assert counts["with late outcomes"] > 1, "nothing came late"


@pytest.mark.parametrize(("broken", "words"), [("cursor", "was made twice"), ("owner", "was executed twice")])
def test_a_writer_that_expects_nothing_is_found(broken: str, words: str) -> None:
    found = [violation for seed in range(3) for violation in run_seed(seed, "jobs", broken).violations]
    assert any(words in violation for violation in found)


def test_the_same_seed_tells_the_same_story() -> None:
    assert run_seed(3, "jobs").digest == run_seed(3, "jobs").digest
