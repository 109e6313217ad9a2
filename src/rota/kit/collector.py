"""The garbage collector of a process that runs for long.

Rota's own processes leave little behind that only the collector could find: cycles of tasks and exceptions, a few a
second. But each collection takes as long as there are objects to examine: a quarter of the time of a leader with a
large fleet in its view. The price: what is in a cycle lives longer.
"""

import gc

BUSY = (50_000, 20, 20)
"""For processes that do one small thing very often, and leave no cycles behind."""

BIG = (5_000, 5, 2)
"""For an agent, which may hold a whole fleet, and leaves cycles behind: errors that went through futures.

Cycles that lived for a while are found by a full collection: every two minutes in a small fleet with frequent failures.
Python itself postpones that until the number of objects has grown by a quarter, so it is rare in a large one.
"""


def look_rarely(thresholds: tuple[int, int, int]) -> None:
    """Exempt the objects that exist now for good, and collect the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)


class paused:  # noqa: N801  # it is used like a function, and for each step of each call, so it is no generator
    """Inside, no collection runs in any thread: for a short time in which many objects are made that are in no cycle.

    Otherwise every few thousand new objects start a collection: reading a megabyte of JSON takes a fifth of the time
    without.
    """

    __slots__ = ("_is_ours",)

    def __enter__(self) -> None:
        self._is_ours = gc.isenabled()  # if not, it is off for good, or paused by another, which switches it on again
        if self._is_ours:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            gc.enable()
