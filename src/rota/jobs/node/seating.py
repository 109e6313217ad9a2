"""Seating: which executor holds which attempts, which of them wait for one, and how many executors there should be.

An executor may hold several attempts of short jobs (`jobs.node.pace`). Attempts that wait behind one that takes longer
than expected are taken back and given to another executor; so are those that a leaving executor has not begun.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence

from rota.jobs.node.attempts import Running
from rota.jobs.node.pace import Paces
from rota.jobs.node.seats import ExecutorSeat
from rota.kit.time.clock import Clock
from rota.model.ids import Instant
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.worker import Worker

STUCK = 0.05
"""Seconds after which an executor's attempt is too long for others to wait behind it."""

IDLE = 60.0
"""Seconds after which executors that were not needed leave."""


class Seating:
    """The executors of a node, and the attempts that wait for one."""

    def __init__(self, crew: Crew, executors: int, clock: Clock, resized: Callable[[], None]) -> None:
        self._crew, self._executors, self._clock, self._resized = crew, executors, clock, resized
        self.paces = Paces()
        self.seats: dict[int, ExecutorSeat[Running]] = {}
        """Worker number → its seat, for every worker of runs, including those with a process for one attempt."""
        self.size = 1
        """How many executors there should be."""
        self._open: list[ExecutorSeat[Running]] = []
        self._waiting: deque[Running] = deque()
        self._load = 0.0
        self._needed = clock.monotonic()
        self._gives_soon = False

    def join(self, running: Running) -> None:
        """Have an attempt wait for an executor."""
        self._load += running.weight
        self._waiting.append(running)

    def leave(self, running: Running) -> None:
        """An attempt is over."""
        self._load -= running.weight

    def drop(self, running: Running) -> None:
        """An attempt waits no more."""
        self._waiting.remove(running)

    def rest(self) -> None:
        """Nothing is left: reset the sums, and their rounding errors."""
        self._load = 0.0

    def begins(self, running: Running) -> None:
        """An attempt became the first of its seat."""
        running.since, running.started = self._clock.monotonic(), self._clock.wall()

    # Giving

    def give(self) -> None:
        """Give waiting attempts to executors, and ask for more executors if there are too few."""
        self._gives_soon = False
        while self._waiting:
            running = self._waiting[0]
            seat = self._seat_for(running.order.job)
            if seat is None or not seat.give(running, running.wire):
                break
            self._waiting.popleft()
            running.seat = seat
            if seat.held[0] is running:
                self.begins(running)
        if self._waiting:
            self._grow()

    def give_soon(self) -> None:
        """Give attempts once for all answers that come at the same time."""
        if not self._gives_soon:
            self._gives_soon = True
            asyncio.get_running_loop().call_soon(self.give)

    def _seat_for(self, job: str) -> ExecutorSeat[Running] | None:
        """The executor that holds least, if it can hold another attempt of this job."""
        best, least = None, self.paces.depth(job)
        for seat in self._open:
            count = len(seat.held)
            if count == 0:
                return seat
            if count < least and count < min(self.paces.depth(each.order.job) for each in seat.held):
                best, least = seat, count
        return best

    # Taking back

    def free_the_stuck(self, now: Instant) -> None:
        """Take back what waits behind a long attempt."""
        for seat in list(self._open):
            if len(seat.held) > 1 and (since := seat.held[0].since) is not None and now - since > STUCK:
                self.paces.note(seat.held[0].order.job, now - since)
                self._requeue(seat.take_back())

    def withdraw(self, seat: ExecutorSeat[Running]) -> None:
        """Give an executor nothing more, and take back what it has not begun."""
        if seat in self._open:
            self._open.remove(seat)
        self._requeue(seat.take_back())

    def _requeue(self, taken: Sequence[Running]) -> None:
        for running in reversed(taken):
            running.seat = running.since = running.started = None
            self._waiting.appendleft(running)

    # Executors come and go

    def open(self, worker: Worker) -> None:
        """A new executor is ready."""
        if seat := self.seats.get(worker.id):
            self._open.append(seat)
            self.give()

    def reopen(self, seat: ExecutorSeat[Running]) -> None:
        """The executor was withdrawn for no fault of its own: it may be given work again."""
        worker = self._crew.workers.get(seat.worker)
        if worker is not None and worker.can_work:
            self._open.append(seat)
            self.give_soon()

    def tick(self) -> None:
        """Let executors leave that were not needed for a while."""
        now, needed = self._clock.monotonic(), max(1, self._needs())
        if needed >= self.size:
            self._needed = now
        elif now - self._needed > IDLE and (size := max(needed, self._highest_busy_slot() + 1)) < self.size:
            self.size = size
            self._resized()

    def _needs(self) -> int:
        return math.ceil(self._load - 1e-6)

    def _grow(self) -> None:
        needed = min(self._executors, self._needs())
        if needed > self.size:
            self.size, self._needed = needed, self._clock.monotonic()
            self._resized()

    def _highest_busy_slot(self) -> int:
        """The highest slot in use: a pool shrinks from its end, and only by idle executors."""
        busy = [self._crew.workers.get(seat.worker) for seat in self._open if seat.held]
        return max((worker.brief.slot for worker in busy if worker), default=0)
