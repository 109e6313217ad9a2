"""The workers that run attempts, executors and processes for a single one: what each gets, what it writes, and its end.

A Witness of the crew. Attempts that an executor has not begun are given to another when it leaves: orders are either
taken by an executor or taken back, never both (`jobs.node.seats`).
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from rota.jobs.node import attempts
from rota.jobs.node.attempt_logs import RunLogs
from rota.jobs.node.attempts import Running
from rota.jobs.node.endings import Endings
from rota.jobs.node.open_attempts import OpenAttempts
from rota.jobs.node.output import AttemptAnswer
from rota.jobs.node.posts import EXECUTOR
from rota.jobs.node.seating import Seating
from rota.jobs.node.seats import ExecutorSeat, Orders, Tap
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.posts import RUN
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Brief
from rota.runtime.worker.guard import AgentLifeline

log = logging.getLogger(__name__)


class RunWorkers:
    """What workers of runs are given, and the handling of what they report."""

    def __init__(
        self,
        crew: Crew,
        open_attempts: OpenAttempts,
        seating: Seating,
        endings: Endings,
        leash: AgentLifeline,
        logs: RunLogs,
    ) -> None:
        self._crew, self._open, self._seating = crew, open_attempts, seating
        self._endings, self._leash, self._logs = endings, leash, logs

    def outfit(self, brief: Brief) -> Sequence[int]:
        """What a worker of runs needs: where to write, the deadline, and for an executor its orders."""
        if brief.role not in (EXECUTOR, RUN):
            return ()
        orders = Orders() if brief.role == EXECUTOR else None
        try:
            pipe, *fds = self._leash.outfit(None if orders is None else orders.fileno())
        except OSError:
            if orders is not None:
                orders.close()
            raise
        seat: ExecutorSeat[Running] = ExecutorSeat(brief.worker, orders)
        seat.tap = Tap(pipe, brief.mark, partial(self._heard, seat))
        self._seating.seats[brief.worker] = seat
        return fds

    def was_at_work(self, worker: Worker) -> bool:
        """Was the worker running an attempt? Then its end is the attempt's doing, not a fall."""
        seat = self._seating.seats.get(worker.id)
        return seat is not None and bool(seat.held)

    def registered(self, worker: Worker) -> None:
        """A worker can work; if it is an executor, give it attempts."""
        if worker.brief.pool == EXECUTOR:
            self._seating.open(worker)

    def draining(self, worker: Worker) -> None:
        """An executor finishes what it has begun; the rest is given to others."""
        if worker.brief.role == EXECUTOR and (seat := self._seating.seats.get(worker.id)):
            self._seating.withdraw(seat)
            assert seat.orders is not None
            seat.orders.finish()
            self._seating.give_soon()

    def said(self, worker: Worker, message: Any) -> None:
        """Does nothing: workers of runs answer through their pipe."""

    def ended(self, worker: Worker, why: str) -> None:
        """A worker has ended, and with it the attempt that it had begun."""
        seat = self._seating.seats.pop(worker.id, None)
        if seat is None:
            return
        assert seat.tap is not None
        seat.tap.catch_up()  # read its last answers
        self._seating.withdraw(seat)
        seat.close()
        for running in seat.held:
            self._endings.fell(running, worker, why)
        seat.held.clear()
        self._seating.give_soon()

    def _heard(self, seat: ExecutorSeat[Running], piece: bytes | AttemptAnswer) -> None:
        """A worker wrote output, or the answer, of the first attempt that it holds."""
        running = seat.held[0] if seat.held else None
        if isinstance(piece, AttemptAnswer):
            if running is not None:
                self._answered(seat, running, piece)
        elif running is not None and running.listed is None:
            self._logs.take(running.key, piece)
        else:
            log.info("output outside of a run", extra={"text": piece[:1000].decode(errors="replace").rstrip()})

    def _answered(self, seat: ExecutorSeat[Running], running: Running, answer: AttemptAnswer) -> None:
        running.answer = answer
        if running.ending is not None or seat.orders is None:
            return  # it is over when its processes have ended
        seat.held.popleft()
        if seat.held:
            self._seating.begins(seat.held[0])
        if worker := self._crew.workers.get(seat.worker):
            worker.done += 1
        if running.listed is None:
            self._seating.paces.note(running.order.job, answer.seconds)
            self._open.end(running, attempts.answered(answer, self._logs.close(running.key)))
        self._seating.give_soon()
