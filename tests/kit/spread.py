"""Which tests share a worker of xdist, and which come first.

Together are those that need a server that is slow to start, a browser with its fleet, or everything parsed.

Tests go to whichever worker is free, so every worker would start a Kafka, a RabbitMQ and a Chromium of its own. Those
of one group stay together, and the largest groups go first: none of them is left over for the end. After them come the
folders with the longest tests, for the same reason. The group follows from the test's name, for that is all the process
knows that hands tests out. (xdist has a mark for it, which it writes into the name; since pytest 9.2 it can no longer
do so, and without a word spreads such tests like all the others.)
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "parsed": re.compile(r"tests/architecture/test_(imports|phases|hints)\.py|.*/test_problems\.py"),
    "browser": re.compile(r"tests/browser/"),
    "kafka": re.compile(
        r"tests/contract/test_kafka_(source|sink)_only\.py|.*/test_(source|streams)\.py::.*\[kafka( to .*)?\]$"
    ),
    "rabbitmq": re.compile(
        r".*/test_(rabbitmq_only|relay_fleet)\.py|tests/process/test_live_rooms\.py|.*\[rabbitmq\]$"
    ),
}
"""The names of tests that need a backend, or that share what takes long to make: a fleet, a tree of all modules."""


LONGEST_FIRST = ("tests/system/", "tests/process/", "tests/contract/", "tests/sim/", "tests/unit/")
"""Folders whose tests take longest, in this order; a long test that begins last has a worker to itself in the end."""


SHORT = LONGEST_FIRST.index("tests/unit/")
"""From this rank on tests are so short that one message hands out several."""

AT_HAND = 2
"""The tests that a worker needs to go on: it begins one when it knows the next."""

MOST_AT_ONCE = 16
"""Short tests that a worker has at most."""


def rank(test: str) -> int:
    """How late a test comes that is in no group."""
    return next((place for place, folder in enumerate(LONGEST_FIRST) if test.startswith(folder)), len(LONGEST_FIRST))


def group(test: str) -> str | None:
    """The group that a test stays with, by its name; None if it goes anywhere."""
    return next((backend for backend, names in GROUPS.items() if names.match(test)), None)


class CrashWatch:
    """Fails a run in which a worker crashed, even if no test failed for that: it may have collected, or had run all."""

    def __init__(self) -> None:
        self._has_crashed = False

    @pytest.hookimpl(optionalhook=True)  # of xdist
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker has ended; `error` if not in the usual way."""
        self._has_crashed = self._has_crashed or bool(error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The run has ended."""
        if self._has_crashed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out groups whole, and all other tests one by one; short ones several at a time.

    xdist's own scheduler keeps finished tests beside those under way, which makes a long run slow. When a worker
    crashes, it hands its finished tests out again, as work of which nothing is left to do: the other workers wait for a
    test that never comes, and the run does not end. It also runs the test again that crashed the worker. Here what has
    finished is forgotten, the test that crashed its worker fails, and the rest of its work goes to other workers.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.pluginmanager.register(CrashWatch())

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid) or nodeid

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        test = self.collection[item_index]
        scope, work = self._split_scope(test), self.assigned_work[node]
        del work[scope][test]
        if not work[scope]:
            del work[scope]
        self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        work = {scope: tests for scope, tests in self.assigned_work.pop(node).items() if tests}
        if not work:
            return None
        scope = next(iter(work))
        crashed: str = next(iter(work[scope]))  # a worker runs its tests in the order in which it gets them
        del work[scope][crashed]
        for scope, tests in reversed(work.items()):
            if tests:
                self.workqueue[scope] = tests
                self.workqueue.move_to_end(scope, last=False)
        for other in self.assigned_work:
            if self.workqueue:  # what is left after it needs no worker to end
                self._reschedule(other)
        return crashed

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node not in self.registered_collections:  # it replaces one that crashed, and has other tests
            node.shutdown()

    def _assign_work_unit(self, node: Any) -> None:
        self._hand_out(node, 1)

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down or node not in self.registered_collections:
            return
        if self.workqueue and self._pending_of(self.assigned_work[node]) <= AT_HAND:
            self._hand_out(node, self._at_once())
        if not self.workqueue:
            node.shutdown()

    def _hand_out(self, node: Any, most: int) -> None:
        """Give a worker so much that it has `most` tests, or a whole group, in one message."""
        work, tests = self.assigned_work[node], list[str]()
        while self.workqueue and self._pending_of(work) < most:
            scope, unit = self.workqueue.popitem(last=False)
            work[scope] = unit
            tests += unit
        if tests:
            node.send_runtest_some([self._places[test] for test in tests])

    def _at_once(self) -> int:
        """How many tests a worker has at most: the fewer, the fewer are left for all."""
        test = next(iter(next(iter(self.workqueue.values()))))
        if rank(test) < SHORT:
            return AT_HAND
        return max(AT_HAND, min(MOST_AT_ONCE, len(self.workqueue) // (4 * len(self.assigned_work))))

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where in every worker's collection a test is."""
        return {test: place for place, test in enumerate(self.collection)}
