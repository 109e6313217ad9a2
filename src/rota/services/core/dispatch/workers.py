"""Who gets what waits: it is handed to workers that have room, and what happened to them is noted.

A request goes only to a worker of its group's active generation, and not to one that may be stuck.
"""

from rota.services.core.codes import Ret
from rota.services.core.dispatch.answers import Answers
from rota.services.core.dispatch.deadlines import Deadlines
from rota.services.core.dispatch.requests import PendingRequest
from rota.services.core.dispatch.seats import WorkerGroup, WorkerSeat
from rota.services.core.parcels import FINISH, GIVEN, NO_LIMIT

SLOW = 10.0
"""Seconds that a worker must have held a request for the request to be listed as slow."""

SHOWN = 10
"""The number of slow requests listed, the oldest first."""


class Workers:
    """All workers of one service, and what happened to them."""

    def __init__(self, answers: Answers, deadlines: Deadlines) -> None:
        self._answers, self._deadlines = answers, deadlines
        self.groups: dict[int, WorkerGroup] = {}
        self.seats: dict[int, WorkerSeat] = {}
        self.touched: list[WorkerSeat] = []
        """Workers whose outboxes have something."""

        self.finished: list[WorkerSeat] = []
        """Workers that were asked to end and have finished all they held."""

        self.overdue: list[WorkerSeat] = []
        """Workers that did not end a request in time; the agent should end them."""

    def group(self, number: int) -> WorkerGroup:
        """The workers of a group, which may be none yet."""
        if number not in self.groups:
            self.groups[number] = WorkerGroup(number)
        return self.groups[number]

    def give(self, group: WorkerGroup, seat: WorkerSeat, ticket: PendingRequest, now: float) -> None:
        """Give a worker a request."""
        left = NO_LIMIT if ticket.deadline is None else max(0, int((ticket.deadline - now) * 1000))
        held = seat.held
        held[ticket.number] = ticket
        ticket.seat, ticket.given = seat, now
        group.given += 1
        caller, frame = ticket.caller, ticket.frame
        seat.outbox.append(
            GIVEN.pack(GIVEN.size + len(caller.address) + len(frame), ticket.number, left) + caller.address + frame
        )
        if not seat.is_touched:
            seat.is_touched = True
            self.touched.append(seat)
        if seat.is_free:
            # It is the first of the free ones; if it has room left, the others come before it.
            group.free.popleft()
            if len(held) < seat.capacity:
                group.free.append(seat)
            else:
                seat.is_free = False

    def rest(self, group: WorkerGroup, seat: WorkerSeat, now: float) -> None:
        """A worker has room, or should go: give it what waits, or let it be free, or end it."""
        if seat.is_leaving:
            if not group.is_known and seat.generation == group.active:  # nobody comes after it
                self._fill(group, seat, now)
            if not seat.held:
                self._finish(seat)
            return
        if seat.generation != group.active or seat.late:
            return
        if group.queue.pending:
            self._fill(group, seat, now)
        if len(seat.held) < seat.capacity and not seat.is_free:
            seat.is_free = True
            group.free.append(seat)

    def pump(self, group: WorkerGroup, now: float) -> None:
        """Give what waits to those who are free."""
        while group.free and (ticket := self._next(group, now)):
            self.give(group, group.free[0], ticket, now)

    def spare(self, seat: WorkerSeat, number: int) -> None:
        """Give a worker nothing more until it has returned this request: it may be stuck."""
        seat.late.add(number)
        self.groups[seat.group].take_from_free(seat)

    def name_overdue(self, now: float) -> None:
        """Note the workers that have had a request for too long."""
        for number, seat in self._deadlines.overdue(now):
            self.spare(seat, number)
            if seat not in self.overdue:
                self.overdue.append(seat)

    def touch(self, seat: WorkerSeat) -> None:
        """Something was put into a worker's outbox."""
        if not seat.is_touched:
            seat.is_touched = True
            self.touched.append(seat)

    def held_up(self, now: float) -> list[PendingRequest]:
        """The oldest request of each worker that should have left and still holds some; once more after twice the
        patience."""
        found = []
        for seat in self.seats.values():
            if seat.is_leaving and seat.held and now - seat.left >= seat.patience:
                seat.patience = 2 * (now - seat.left)
                found.append(next(iter(seat.held.values())))
        return found

    def slow(self, now: float) -> list[PendingRequest]:
        """The requests that workers have had for longest, of those that they have had for a while."""
        held = [next(iter(seat.held.values())) for seat in self.seats.values() if seat.held]
        return sorted((each for each in held if now - each.given >= SLOW), key=lambda each: each.given)[:SHOWN]

    # Inside

    def _next(self, group: WorkerGroup, now: float) -> PendingRequest | None:
        """The request whose turn it is, taken from the queue; what has waited too long is answered instead."""
        queue = group.queue
        while queue.pending:
            ticket = queue.take()
            if ticket.deadline is None or ticket.deadline > now:
                return ticket
            queue.discarded += 1
            self._deadlines.unwatch(ticket)
            self._answers.fail(ticket, Ret.DEADLINE)
        return None

    def _fill(self, group: WorkerGroup, seat: WorkerSeat, now: float) -> None:
        """Give a worker what waits, as far as it has room."""
        while len(seat.held) < seat.capacity and (ticket := self._next(group, now)):
            self.give(group, seat, ticket, now)

    def _finish(self, seat: WorkerSeat) -> None:
        """Tell a worker to end."""
        seat.outbox.append(FINISH)
        self.touch(seat)
        self.finished.append(seat)
