"""The deadline of exclusive work, kept inside the worker.

At each renewal of its lease the agent sends until when this node's exclusive work may go on. A frozen agent sends
nothing, and the worker has to stop by itself: orderly at `stop_at`, and by force at `dead_by`, still before another
node may take the work. The guard beside the worker kills the whole process group, whatever the worker's code is stuck
in; an alarm signal kills the worker if the guard was killed.

The clock is the one that all processes of a machine share and that goes on while it sleeps.
"""

import signal

from rota.kit.time.clock import SYSTEM, Clock
from rota.runtime.pipes.brief import Deadline
from rota.runtime.worker.guard import WorkerGuard

LOOK = 0.2
"""Seconds between two looks at the clock."""


class LeaseDeadline:
    """Until when this process may act."""

    def __init__(self, guard: WorkerGuard | None, clock: Clock = SYSTEM) -> None:
        self._guard, self._clock = guard, clock
        self._stop_at: float | None = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def extend(self, deadline: Deadline) -> None:
        """Set until when this process may act."""
        self._stop_at = deadline.stop_at
        if self._guard is not None:
            self._guard.set_deadline(deadline.dead_by)
        left = deadline.dead_by + LOOK - self._clock.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))

    @property
    def must_stop(self) -> bool:
        """Is it time for an orderly stop?"""
        return self._stop_at is not None and self._clock.monotonic() >= self._stop_at
