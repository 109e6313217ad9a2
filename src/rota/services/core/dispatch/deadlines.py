"""The time of requests: who has had it, and until when a worker may still have a request that is late.

A request's time counts from its arrival, and its client hears at the end of it. A worker is only overdue when it has
had the request for all that time: otherwise a long queue would cost the workers that could shorten it.
"""

from collections import OrderedDict

from rota.services.core.dispatch.requests import PendingRequest
from rota.services.core.dispatch.seats import WorkerSeat

TELL_AGAIN = 1.0
"""Seconds until an overdue worker is reported again: the first report may have said that it holds others, and now it
holds only the late one."""


class Deadlines:
    """The deadlines of one service's requests."""

    def __init__(self) -> None:
        self.by_timeout: dict[float, OrderedDict[int, PendingRequest]] = {}
        """Requests that have a deadline: those of one timeout end in the order in which they came."""

        self.graces: dict[int, tuple[float, WorkerSeat]] = {}
        """Late requests, and until when their workers may still hold them."""

    def watch(self, ticket: PendingRequest) -> None:
        """Note when a request's time is over."""
        timeout = ticket.route.timeout
        assert timeout is not None
        line = self.by_timeout.get(timeout)
        if line is None:
            line = self.by_timeout[timeout] = OrderedDict()
        line[ticket.number] = ticket

    def unwatch(self, ticket: PendingRequest) -> None:
        """A request needs no time any more."""
        timeout = ticket.route.timeout
        if timeout is not None and (line := self.by_timeout.get(timeout)):
            line.pop(ticket.number, None)

    def drop_empty(self) -> None:
        """Forget timeouts that no request has: another table has others."""
        self.by_timeout = {timeout: line for timeout, line in self.by_timeout.items() if line}

    def passed(self, now: float) -> tuple[list[PendingRequest], float | None]:
        """The requests whose time is over, which are watched no more; and when that of the next one is."""
        late: list[PendingRequest] = []
        next_at: float | None = None
        for line in self.by_timeout.values():
            while line:
                ticket = next(iter(line.values()))
                assert ticket.deadline is not None
                if ticket.deadline > now:
                    next_at = ticket.deadline if next_at is None else min(next_at, ticket.deadline)
                    break
                del line[ticket.number]
                late.append(ticket)
        return late, next_at

    def grant(self, ticket: PendingRequest, seat: WorkerSeat) -> None:
        """Give a worker as much time for a request that is late as it would have had for one that did not wait."""
        assert ticket.deadline is not None
        had_its_time = ticket.given + ticket.deadline - ticket.arrived
        self.graces[ticket.number] = (max(ticket.deadline + seat.grace, had_its_time), seat)

    def overdue(self, now: float) -> list[tuple[int, WorkerSeat]]:
        """The requests that workers have had for too long; they are named again if that goes on."""
        found = [(number, seat) for number, (ends, seat) in self.graces.items() if ends <= now]
        for number, seat in found:
            self.graces[number] = (now + TELL_AGAIN, seat)
        return found

    def next_overdue(self) -> float | None:
        """When the next worker has had a request for too long."""
        return min((ends for ends, _ in self.graces.values()), default=None)
