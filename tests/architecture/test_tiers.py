"""Of tests that repeat what is slow the default tier runs one, always the same; `--matrix` runs all."""

from collections import Counter
from typing import Any

import pytest

from tests.kit.harness import HARNESSES
from tests.kit.tiers import choice, left_to_the_matrix


class Listed:
    """A test as pytest lists it."""

    def __init__(self, nodeid: str, *marks: str, **params: object) -> None:
        self.nodeid, self._marks = nodeid, marks
        self.callspec = type("CallSpec", (), {"params": params})

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self._marks else None


def run(*listed: Any) -> list[str]:
    """The tests that the default tier runs."""
    left = left_to_the_matrix(listed)
    return [each.nodeid for each in listed if each not in left]


def on_every_store(name: str, **params: object) -> list[Listed]:
    words = "-".join(map(str, params.values()))
    return [Listed(f"{name}[{kind.name}{words}]", harness=kind, **params) for kind in HARNESSES]


def test_what_is_marked_for_the_matrix_is_left_out() -> None:
    assert run(Listed("tests/sim/test_a.py::test_b"), Listed("tests/sim/test_a.py::test_c", "matrix")) == [
        "tests/sim/test_a.py::test_b"
    ]


def test_of_variants_one_is_run_and_always_the_same() -> None:
    variants = [Listed(f"tests/process/test_a.py::test_b[{number}]", "variants") for number in range(6)]
    found = run(*variants)
    assert len(found) == 1
    assert run(*variants) == found


def test_of_variants_the_one_that_was_asked_for_is_run() -> None:
    only = Listed("tests/process/test_a.py::test_b[5]", "variants")
    assert run(only) == [only.nodeid]


@pytest.mark.parametrize("folder", ["process", "system", "browser"])
def test_a_process_system_or_browser_test_runs_on_one_store(folder: str) -> None:
    assert len(run(*on_every_store(f"tests/{folder}/test_a.py::test_b"))) == 1


def test_each_of_its_other_parameters_is_run() -> None:
    listed = [each for portable in "01" for each in on_every_store("tests/process/test_a.py::test_b", p=portable)]
    assert [name[-2] for name in run(*listed)] == ["0", "1"]


def test_laws_are_run_on_every_store() -> None:
    listed = on_every_store("tests/contract/test_a.py::test_b")
    assert run(*listed) == [each.nodeid for each in listed]


def test_every_store_has_its_share() -> None:
    shares = Counter(choice(f"tests/process/test_a.py::test_{number}", HARNESSES) for number in range(500))
    assert len(shares) == len(HARNESSES)
    assert min(shares.values()) > 50
