"""The deadline of exclusive work, kept inside the worker.

The agent says at each renewal of its lease until when this node's exclusive work may go on. If it is frozen, it says
nothing more, and the worker has to stop by itself: at `stop_at` in good order, and at `dead_by`, still before anybody
else may take the work, by force. The guard beside the worker uses it on the whole process group, whatever the worker's
code is stuck in; an alarm whose default is death stands behind the guard, in case somebody killed that.

The clock is the one that all processes of a machine share and that goes on while it sleeps.
"""

import signal

from rota.kit.time.clock import SYSTEM, Clock
from rota.runtime.pipes.brief import Deadline
from rota.runtime.worker.guard import WorkerGuard

LOOK = 0.2
"""Seconds between looks at the clock."""


class LeaseDeadline:
    """Until when this process may act."""

    def __init__(self, guard: WorkerGuard | None, clock: Clock = SYSTEM) -> None:
        self._guard, self._clock = guard, clock
        self._stop_at: float | None = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def extend(self, deadline: Deadline) -> None:
        """Act until then."""
        self._stop_at = deadline.stop_at
        if self._guard is not None:
            self._guard.set_deadline(deadline.dead_by)
        left = deadline.dead_by + LOOK - self._clock.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))

    @property
    def must_stop(self) -> bool:
        """Is the time for an orderly stop here?"""
        return self._stop_at is not None and self._clock.monotonic() >= self._stop_at
