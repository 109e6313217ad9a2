"""The deadline of exclusive work, kept inside the worker.

The agent says at each renewal of its lease until when this node's exclusive work may go on. If it is frozen, it says
nothing more, and the worker has to stop by itself: at `stop_at` in good order, and at `dead_by`, still before anybody
else may take the work, by the kernel's hand (an alarm whose default is death), whatever the code is stuck in.

The clock is the one that all processes of a machine share and that goes on while it sleeps.
"""

import os
import signal

from rota.kit.clock import SYSTEM, Clock
from rota.node.pipes import Deadline

LOOK = 0.2
"""Seconds between looks at the clock."""


class Leash:
    """Until when this process may act."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._stop_at: float | None = None
        self._dead_by: float | None = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def extend(self, deadline: Deadline) -> None:
        """Act until then."""
        self._stop_at, self._dead_by = deadline.stop_at, deadline.dead_by
        left = deadline.dead_by - self._clock.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))

    @property
    def must_stop(self) -> bool:
        """Is the time for an orderly stop here?"""
        return self._stop_at is not None and self._clock.monotonic() >= self._stop_at

    @property
    def is_over(self) -> bool:
        """Must this process be gone? The alarm does not count the time that a machine sleeps; this does."""
        return self._dead_by is not None and self._clock.monotonic() >= self._dead_by

    def end(self) -> None:
        """Be gone, with all that this process started."""
        os.killpg(os.getpgrp(), signal.SIGKILL)
