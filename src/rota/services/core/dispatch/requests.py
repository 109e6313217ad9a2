"""Requests and who sent them, and the queue in which those of one group wait.

First come, first served, and one after the other among callers, so that one who sends a thousand does not keep the
others waiting. What may wait is bounded in requests and in bytes, for each group and, by half of that, for each caller.
"""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from rota.services.core.frames import FrameCodec
from rota.services.core.table import CmdRoute

if TYPE_CHECKING:
    from rota.services.core.dispatch.seats import WorkerSeat


class Caller:
    """A client, as dispatch sees it: a place for its answers."""

    __slots__ = ("address", "is_leaving", "is_open", "is_touched", "outbox", "unanswered", "waiting")

    def __init__(self, address: bytes) -> None:
        self.address = address
        """The client's address as it is sent to workers (`parcels.ADDRESS`)."""

        self.outbox: list[bytes] = []
        self.unanswered = 0
        """Its requests that may still be answered."""

        self.waiting = 0
        """Bytes of its requests that wait for a worker."""

        self.is_leaving = False
        """Does the client send no more requests? It is touched when its last request is settled."""

        self.is_open = True
        self.is_touched = False


class PendingRequest:
    """One request, from its arrival until it is done."""

    __slots__ = (
        "arrived", "caller", "cmd", "deadline", "frame", "given", "group", "has_run", "is_answered", "number", "route",
        "seat", "wire",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        caller: Caller,
        cmd: int,
        frame: bytes,
        wire: FrameCodec,
        group: int,
        route: CmdRoute,
        now: float,
    ) -> None:
        self.number, self.caller, self.cmd, self.frame, self.wire = number, caller, cmd, frame, wire
        self.group, self.route, self.arrived = group, route, now
        timeout = route.timeout
        self.deadline = now + timeout if timeout is not None else None
        self.seat: WorkerSeat | None = None
        """The worker that has it; None while it waits."""

        self.given = now
        """When its worker got it."""

        self.is_answered = False
        self.has_run = False
        """Was a worker lost while it ran this request? It may run a second time, not a third."""


class RequestQueue:
    """What waits for the workers of one group."""

    __slots__ = ("again", "discarded", "lines", "pending", "size")

    def __init__(self) -> None:
        self.lines: OrderedDict[Caller, deque[PendingRequest]] = OrderedDict()
        """Who waits, in the order of their turns, and with what."""

        self.again: deque[PendingRequest] = deque()
        """Requests of the active generation that may run again, their worker having been lost; they come first."""

        self.pending = self.size = 0
        """The number of waiting requests, and their size in bytes."""

        self.discarded = 0
        """Requests that no worker got."""

    def add(self, ticket: PendingRequest, most: int, bytes_at_most: int) -> bool:
        """Let a request wait, if there is room; the first of a caller needs room for itself in the group alone."""
        caller, size = ticket.caller, len(ticket.frame)
        line = self.lines.get(caller)
        has_room = self.pending < most and not (self.pending and self.size + size > bytes_at_most)
        if has_room and line is not None:
            has_room = len(line) < max(1, most // 2) and caller.waiting + size <= bytes_at_most // 2
        if not has_room:
            self.discarded += 1
            return False
        if line is None:
            line = self.lines[caller] = deque()
        line.append(ticket)
        self.pending += 1
        self.size += size
        caller.waiting += size
        return True

    def add_again(self, ticket: PendingRequest) -> None:
        """Let a request wait whose worker was lost: it has had room before."""
        self.again.append(ticket)
        self.pending += 1
        self.size += len(ticket.frame)
        ticket.caller.waiting += len(ticket.frame)

    def take(self) -> PendingRequest:
        """The request whose turn it is, taken out; one must be there."""
        if self.again:
            ticket = self.again.popleft()
        else:
            caller, line = self.lines.popitem(last=False)
            ticket = line.popleft()
            if line:  # its next turn comes after those of all others
                self.lines[caller] = line
        self.pending -= 1
        self.size -= len(ticket.frame)
        ticket.caller.waiting -= len(ticket.frame)
        return ticket

    def take_out(self, ticket: PendingRequest) -> None:
        """One request that waits, taken out."""
        if ticket in self.again:
            self.again.remove(ticket)
        else:
            line = self.lines[ticket.caller]
            line.remove(ticket)
            if not line:
                del self.lines[ticket.caller]
        self._left(ticket)

    def discard(self, ticket: PendingRequest) -> None:
        """One request that waits, taken out; no worker gets it."""
        self.take_out(ticket)
        self.discarded += 1

    def take_all(self) -> list[PendingRequest]:
        """Everything that waits, taken out; nobody will run it."""
        tickets = self.waiting()
        self.again.clear()
        self.lines.clear()
        self.discarded += len(tickets)
        for ticket in tickets:
            self._left(ticket)
        return tickets

    def waiting(self) -> list[PendingRequest]:
        """Everything that waits."""
        return [*self.again, *(ticket for line in self.lines.values() for ticket in line)]

    def _left(self, ticket: PendingRequest) -> None:
        self.pending -= 1
        self.size -= len(ticket.frame)
        ticket.caller.waiting -= len(ticket.frame)
