"""Which tests a run has: everything once, or with `--matrix` everything in every way.

`make quick` leaves out what needs a server (`needs`), what searches at random (`hypothesis`, which its own plugin sets)
and what waits for seconds or tries thousands of cases (`slow`). Two marks leave tests to the matrix:

- `matrix`: the test, or the one set of parameters, runs only there. Planted mistakes and deep searches have it.
- `variants`: of the test's sets of parameters the default tier runs one. Such sets repeat slow behaviour.

A process, system or browser test with a store as parameter is run on one of the stores without any mark. Which one
follows from the test's name, as with `variants`, so that it is the same in every run and every worker.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import pytest

from tests.kit.harness import StoreHarness

T = TypeVar("T")

MARKS = (
    "slow: waits for seconds or tries thousands of cases; not in `make quick`",
    "matrix: run only with --matrix, in `make test-all`",
    "variants: without --matrix, run one of the sets of parameters, chosen by the test's name",
)

ONE_STORE = ("tests/process/", "tests/system/", "tests/browser/")
"""Folders whose tests run on one store each; the laws of `tests/contract` hold on every one."""


def choice(name: str, among: Sequence[T]) -> T:
    """One of several, chosen by a test's name."""
    return among[crc32(name.encode()) % len(among)]


def left_to_the_matrix(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The tests that a run without `--matrix` leaves out."""
    left, alternatives = set(), defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix"):
            left.add(item)
        elif (name := _alternatives(item)) is not None:
            alternatives[name].append(item)
    for (name, *_), among in alternatives.items():
        left |= {*among} - {choice(name, among)}
    return left


def _alternatives(item: pytest.Item) -> tuple[str, ...] | None:
    """What is the same for all tests of which one is enough: the name, and the parameters other than the store."""
    name = item.nodeid.partition("[")[0]
    if item.get_closest_marker("variants"):
        return (name,)
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    others = {key: value for key, value in params.items() if not _is_store(value)}
    if len(others) == len(params) or not name.startswith(ONE_STORE):
        return None
    return (name, repr(sorted(others.items())))


def _is_store(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, StoreHarness)
