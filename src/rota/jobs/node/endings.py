"""How an attempt is stopped, with all of its processes, and when it is over.

To stop an attempt is to send TERM to all its processes, and KILL to those that are there after the grace. It is over
when none of them is left.
"""

import signal

from rota.jobs.core.records import Outcome, RunState
from rota.jobs.node import attempts
from rota.jobs.node.attempt_logs import RunLogs
from rota.jobs.node.attempts import Ending, Running
from rota.jobs.node.open_attempts import OpenAttempts
from rota.jobs.node.posts import EXECUTOR
from rota.jobs.node.seating import Seating
from rota.jobs.node.seats import ExecutorSeat
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model.config import RuntimeConfig
from rota.model.ids import Instant
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.worker import Worker
from rota.runtime.system import kernel


class Endings:
    """The attempts that are being stopped, or whose worker is gone."""

    def __init__(
        self,
        crew: Crew,
        config: RuntimeConfig,
        open_attempts: OpenAttempts,
        seating: Seating,
        logs: RunLogs,
        clock: Clock,
    ) -> None:
        self.dying: list[Running] = []
        """Attempts whose worker is gone, and of which other processes may be left."""

        self.stop_at: Instant | None = None
        """When running attempts are stopped; None: there is no such limit."""

        self._crew, self._grace, self._clock = crew, config.grace.total_seconds(), clock
        self._open, self._seating, self._logs = open_attempts, seating, logs

    def stop(self, running: Running, state: RunState, why: str, grace: float | None = None) -> bool:
        """Begin to end an attempt; False if it turns out to be over."""
        if running.ending is not None or running.outcome is not None:
            return True
        seat = running.seat
        if seat is not None and seat.orders is not None:
            # First withdraw what waits behind it, then read what was answered: if it is not over now, the executor runs
            # it and nothing else, and no other attempt is hit.
            self._seating.withdraw(seat)
            assert seat.tap is not None
            seat.tap.catch_up()
            if not seat.held or seat.held[0] is not running:
                self._seating.reopen(seat)
                if running.seat is not None:
                    return False
            seat = running.seat
        if seat is None:
            self._seating.drop(running)
            self._open.end(running, Outcome(state=state, error=why))
            return True
        self._signal(running, seat, state, why, self._grace if grace is None else grace)
        return True

    def fell(self, running: Running, worker: Worker, why: str) -> None:
        """The worker that ran it has ended."""
        if running.listed is not None:
            self._open.end(running, Outcome(state=RunState.LOST, error=f"worker lost: {why}"))
            return
        log_bytes = self._logs.close(running.key)
        outcome = attempts.fallen(running, worker, why, log_bytes, self._clock.monotonic())
        if running.ending is not None:
            running.outcome = outcome
            self.dying.append(running)
            self._finish_if_dead(running, self._clock.monotonic())
        else:
            self._open.end(running, outcome)

    def look(self, now: Instant) -> None:
        """Stop attempts that have exceeded their time; kill those that were asked to stop and did not."""
        for running in list(self._open.running.values()):
            self._look_at(running, now)
        for running in list(self.dying):
            self._finish_if_dead(running, now)

    def _signal(self, running: Running, seat: ExecutorSeat[Running], state: RunState, why: str, grace: float) -> None:
        running.ending = Ending(state, why, Instant(self._clock.monotonic() + grace), [])
        worker = self._crew.workers.get(seat.worker)
        if worker is None:
            return
        if worker.brief.role == EXECUTOR:
            self._crew.dismiss(worker.id)
            self._crew.wake()
        if grace <= 0:
            self._kill(running, worker)
        else:
            _ask(running.ending, worker)

    def _kill(self, running: Running, worker: Worker) -> None:
        assert running.ending is not None
        if worker.pid is not None:
            running.ending.kin = kernel.kin_of(worker.pid) or running.ending.kin
            kernel.signal_kin(worker.pid, running.ending.kin, signal.SIGKILL)
        worker.kill(running.ending.why)

    def _look_at(self, running: Running, now: Instant) -> None:
        ending, limit = running.ending, running.order.timeout
        if ending is not None:
            worker = self._crew.workers.get(running.seat.worker) if running.seat is not None else None
            if worker is None:
                return
            _ask(ending, worker)
            if now >= ending.kill_at:
                self._kill(running, worker)
        elif limit is not None and running.since is not None and now - running.since >= limit.total_seconds():
            self.stop(running, RunState.TIMED_OUT, f"it took longer than {durations.render(limit)}")
        elif self.stop_at is not None and now >= self.stop_at:
            self.stop(running, RunState.INTERRUPTED, "its node stops")

    def _finish_if_dead(self, running: Running, now: Instant) -> None:
        """A stopped attempt is over when none of its processes is left."""
        assert running.ending is not None
        assert running.outcome is not None
        running.ending.kin = kernel.still_there(running.ending.kin)
        if not running.ending.kin:
            self.dying.remove(running)
            self._open.end(running, running.outcome)
        elif now >= running.ending.kill_at:
            kernel.end(each.pid for each in running.ending.kin)


def _ask(ending: Ending, worker: Worker) -> None:
    """Send TERM once, as soon as the worker's process id is known, and note the processes that belong to it."""
    if worker.pid is None:
        return
    ending.kin = kernel.kin_of(worker.pid) or ending.kin
    if not ending.is_asked:
        ending.is_asked = True
        kernel.signal_kin(worker.pid, ending.kin, signal.SIGTERM)
