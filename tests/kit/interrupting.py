"""Signals at any moment: runs a call again and again, and calls a handler before one of its lines, each time another.

A handler runs in the main thread between two steps of whatever that is doing. Tracing lets a test choose the step.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def at_every_line(make: Callable[[], T], call: Callable[[T], object], handler: Callable[[T], object]) -> Iterator[T]:
    """What `make` made, after `call` was interrupted by `handler` before its first line, its second, … and after all.

    AssertionError if a call that was interrupted does not return within ten seconds.
    """
    number, was_reached = 0, True
    while was_reached:
        made, lines = make(), Countdown(number)
        running = threading.Thread(target=lines.run, args=(call, handler, made), daemon=True)
        running.start()
        was_reached = lines.was_reached(running)
        if not was_reached:
            handler(made)  # the call has no such line; it may wait for this
        running.join(10)
        assert not running.is_alive(), f"interrupted before line {number}, it waits for itself"
        yield made
        number += 1


class Countdown:
    """Traces one call until a line of it is reached."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.is_over = False
        self._handle: Callable[[], object] = lambda: None

    def run(self, call: Callable[[T], object], handler: Callable[[T], object], made: T) -> None:
        """Call it, with all of its lines traced."""
        self._handle = lambda: handler(made)
        sys.settrace(self._trace)
        try:
            call(made)
        finally:
            sys.settrace(None)

    def was_reached(self, running: threading.Thread) -> bool:
        """Has the call come to the line? It has not if it ends before, or stands still."""
        for _ in range(100):
            running.join(0.01)
            if self.is_over or not running.is_alive():
                break
        return self.is_over

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and not self.is_over:
            self._left -= 1
            if self._left < 0:
                self.is_over = True
                self._handle()
        return self._trace
