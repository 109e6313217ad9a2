"""The garbage collector of a process that runs for long.

Rota's own processes leave little behind that only the collector could find: cycles of tasks and exceptions, a few a
second. But each look of it takes as long as there is to look at: a quarter of the time of a leader with a large fleet
in its view. The price: what is in a cycle lives longer.
"""

import gc

BUSY = (50_000, 20, 20)
"""For processes that do one small thing very often, and leave nothing behind by it."""

BIG = (5_000, 5, 2)
"""For an agent, which may hold a whole fleet, and leaves cycles behind: errors that went through futures.

Those that lived for a while are found when all is looked at: every two minutes in a small fleet where things break all
the time. Python itself puts that off while what is there has not grown by a quarter, and so it is rare in a large one.
"""


def look_rarely(thresholds: tuple[int, int, int]) -> None:
    """Leave what is there now alone for good, and look at the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)


class paused:  # noqa: N801  # it is used like a function, and for each step of each call, so it is no generator
    """Inside, nothing is looked at, in no thread: for a moment in which very much is made that is in no cycle.

    Each few thousand of things that are made have the collector look: a megabyte of JSON that is read takes a fifth of
    the time without.
    """

    __slots__ = ("_is_ours",)

    def __enter__(self) -> None:
        self._is_ours = gc.isenabled()  # if not, it is off for good, or paused by another, which switches it on again
        if self._is_ours:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            gc.enable()
