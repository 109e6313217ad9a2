"""Which tests share a worker of xdist, and which come first.

Together are those that need a server that is slow to start, a browser with its fleet, or everything parsed.

Tests go to whichever worker is free, so every worker would start a Kafka, a RabbitMQ and a Chromium of its own. Those
of one group stay together, and the largest groups go first: none of them is left over for the end. After them come the
folders with the longest tests, for the same reason. The group follows from the test's name, for that is all the process
knows that hands tests out. (xdist has a mark for it, which it writes into the name; since pytest 9.2 it can no longer
do so, and without a word spreads such tests like all the others.)
"""

import re

from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "parsed": re.compile(r"tests/architecture/test_imports\.py"),
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


def rank(test: str) -> int:
    """How late a test comes that is in no group."""
    return next((place for place, folder in enumerate(LONGEST_FIRST) if test.startswith(folder)), len(LONGEST_FIRST))


def group(test: str) -> str | None:
    """The group that a test stays with, by its name; None if it goes anywhere."""
    return next((backend for backend, names in GROUPS.items() if names.match(test)), None)


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out groups whole, and all other tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid) or nodeid
