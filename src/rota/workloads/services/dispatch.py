"""Dispatch: which request goes to which worker, and what is answered when none can have it.

It knows no socket and reads no clock: whoever serves the sockets says what happened and when, and then sends what lies
in the outboxes of the callers and seats that were touched. The same calls give the same answers, so that the simulator
can prove that every request is answered once, whatever dies.

A request waits in its group's queue: first come, first served, and one after the other among callers, so that one who
sends a thousand does not keep the others waiting. It goes to a worker that has room, and only to one of the group's
active generation. Its ticket says who asked; it is in exactly one place (waiting, or held by a seat) until it is done.

Every request is answered once: by its handler, which may choose silence, or by us with a code that says why not.
"""

from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping

from rota.kit.histogram import Histogram
from rota.workloads.services.codes import Ret
from rota.workloads.services.frames import Wire, wire
from rota.workloads.services.parcels import ANSWERED, DONE, FINISH, GIVEN, NO_LIMIT
from rota.workloads.services.routing import ROUTER, ByField, ByRange, ByWorker
from rota.workloads.services.table import BENCHMARK, Route, Table

REASONS: Mapping[Ret, str] = {ret: ret.name.lower().replace("_", " ") for ret in Ret}
"""Each code in words, as it is counted."""

NUMBERS = 1 << 32


class Caller:
    """A client, as dispatch sees it: a place for its answers."""

    __slots__ = ("address", "is_open", "is_touched", "outbox")

    def __init__(self, address: bytes) -> None:
        self.address = address
        """As workers are told (`parcels.ADDRESS`)."""

        self.outbox: list[bytes] = []
        self.is_open = True
        self.is_touched = False


class Ticket:
    """One request, from its arrival until it is done."""

    __slots__ = (
        "arrived", "caller", "cmd", "deadline", "frame", "generation", "group", "is_answered", "number", "route", "seat"
    )  # fmt: skip

    def __init__(
        self, number: int, caller: Caller, cmd: int, frame: bytes, group: int, route: Route, now: float
    ) -> None:
        self.number, self.caller, self.cmd, self.frame = number, caller, cmd, frame
        self.group, self.route, self.arrived = group, route, now
        self.deadline = now + route.timeout if route.timeout is not None else None
        self.seat: Seat | None = None
        """Who has it; None while it waits."""

        self.is_answered = False
        self.generation = 0
        """Whose worker was lost with it, if it may run again."""


class Seat:
    """A worker, as dispatch sees it: what it holds, and what is to be sent to it."""

    __slots__ = (
        "capacity", "generation", "grace", "group", "held", "is_free", "is_leaving", "is_touched", "late", "outbox",
        "worker",
    )  # fmt: skip

    def __init__(self, worker: int, group: int, generation: int, capacity: int = 1, grace: float = 0.0) -> None:
        self.worker, self.group, self.generation = worker, group, generation
        self.capacity, self.grace = capacity, grace
        self.held: dict[int, Ticket] = {}
        self.late: set[int] = set()
        """Requests whose time was over before it returned them: until it does, it may be stuck, and gets no others."""

        self.outbox: list[bytes] = []
        self.is_free = self.is_leaving = self.is_touched = False


class Group:
    """The workers of one group, and what waits for them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_known = False
        """Is it in the table? One that is not works off what it has."""

        self.active = 0
        """The generation whose seats get requests."""

        self.seats: dict[int, Seat] = {}
        self.free: deque[Seat] = deque()
        self.lines: OrderedDict[Caller, deque[Ticket]] = OrderedDict()
        """Who waits, in the order of their turns, and with what."""

        self.again: deque[Ticket] = deque()
        """Requests that may run again, their worker having been lost; they come first."""

        self.pending = 0
        self.given = self.done = self.discarded = 0

    @property
    def in_flight(self) -> int:
        """Requests that its workers have."""
        return sum(len(seat.held) for seat in self.seats.values())


class Dispatch:
    """One service's requests and workers."""

    def __init__(self, table: Table) -> None:
        self.groups: dict[int, Group] = {}
        self.seats: dict[int, Seat] = {}
        self.is_stopping = False
        self.requests = self.answers = 0
        self.failures: Counter[Ret] = Counter()
        self.drops: Counter[str] = Counter()
        self.times = [0] * (len(BENCHMARK) + 1)
        self.latencies: dict[tuple[int, int], Histogram] = {}
        """(group, cmd) → how long its requests took."""

        self.touched_callers: list[Caller] = []
        self.touched_seats: list[Seat] = []
        self.overdue: list[Seat] = []
        """Workers that did not end a request in time; somebody should end them."""

        self._deadlines: dict[float, OrderedDict[int, Ticket]] = {}
        self._graces: OrderedDict[int, tuple[float, Seat]] = OrderedDict()
        self._last = 0
        self.table = table
        self._wire: Wire = wire(table.layout)
        self._choices: list[int] = []
        self.configure(table, 0.0)

    # What is served

    def configure(self, table: Table, now: float) -> None:
        """Serve by this table from now on."""
        self.table, self._wire = table, wire(table.layout)
        self._choices = sorted(group for group in table.groups if group != ROUTER)
        for number, generation in table.groups.items():
            group = self._group(number)
            group.is_known = True
            if group.active != generation:
                group.active = generation
                self._find_free(group)
        for group in list(self.groups.values()):
            group.is_known = group.number in table.groups
            self._pump(group, now)
            self._forget(group, now)

    def stop(self) -> None:
        """Take no new requests; those that are here are worked off."""
        self.is_stopping = True

    @property
    def is_idle(self) -> bool:
        """Is no request here?"""
        return not any(group.pending or group.in_flight for group in self.groups.values())

    def give_up(self) -> None:
        """Answer all that is here: there is no time left for it."""
        for group in self.groups.values():
            held = [ticket for seat in group.seats.values() for ticket in seat.held.values()]
            for ticket in [*self._take_all(group), *held]:
                self._fail(ticket, Ret.STOPPING)

    def clear(self, numbers: Iterable[int] | None) -> dict[int, int]:
        """Drop what waits in these groups, or in all; how many there were. Their clients are told."""
        wanted = [group for group in self.groups.values() if group.number != ROUTER]
        if numbers is not None:
            wanted = [self.groups[number] for number in numbers if number in self.groups]
        dropped = {}
        for group in wanted:
            tickets = self._take_all(group)
            for ticket in tickets:
                self._fail(ticket, Ret.QUEUE_FULL)
            group.discarded += len(tickets)
            dropped[group.number] = len(tickets)
        return dropped

    # Requests

    def arrive(self, caller: Caller, cmd: int, frame: bytes, now: float) -> None:
        """A request came."""
        self.requests += 1
        route = self.table.routes.get(cmd)
        number = self._last = (self._last + 1) % NUMBERS or 1
        if route is None:
            self._refuse(caller, frame, Ret.UNKNOWN_CMD)
            return
        if self.is_stopping:
            self._refuse(caller, frame, Ret.STOPPING)
            return
        chosen = route.group if self.table.rule is None else self._chosen(cmd, frame)
        group = self.groups.get(chosen) if chosen is not None else None
        if group is None or not group.is_known:
            self._refuse(caller, frame, Ret.NO_SUCH_GROUP)
            return
        ticket = Ticket(number, caller, cmd, frame, group.number, route, now)
        if self._enter(group, ticket, now) and ticket.deadline is not None:
            self._watch(ticket)

    def caller_gone(self, caller: Caller) -> None:
        """A client hung up: what it still waits for need not run."""
        caller.is_open = False
        caller.outbox.clear()
        for group in self.groups.values():
            for ticket in group.lines.pop(caller, ()):
                group.pending -= 1
                group.discarded += 1
                self.drops["client gone"] += 1
                self._unwatch(ticket)

    def expire(self, now: float) -> float | None:
        """Answer what has had its time; when to look again."""
        next_at: float | None = None
        for line in self._deadlines.values():
            while line:
                ticket = next(iter(line.values()))
                assert ticket.deadline is not None
                if ticket.deadline > now:
                    next_at = ticket.deadline if next_at is None else min(next_at, ticket.deadline)
                    break
                del line[ticket.number]
                self._is_late(ticket, now)
        while self._graces:
            number, (ends, seat) = next(iter(self._graces.items()))
            if ends > now:
                return ends if next_at is None else min(next_at, ends)
            del self._graces[number]
            self._is_overdue(seat)
        return next_at

    # Workers

    def seat_joined(self, seat: Seat, now: float) -> None:
        """A worker is there."""
        self.seats[seat.worker] = seat
        group = self._group(seat.group)
        group.seats[seat.worker] = seat
        self._rest(group, seat, now)
        self._pump(group, now)

    def seat_leaves(self, worker: int, now: float) -> bool:
        """A worker should get nothing more, and end when it has done what it holds; False if it is not here."""
        seat = self.seats.get(worker)
        if seat is None:
            return False
        if not seat.is_leaving:
            seat.is_leaving = True
            group = self.groups[seat.group]
            self._take_from_free(group, seat)
            self._rest(group, seat, now)
        return True

    def seat_lost(self, seat: Seat, now: float) -> None:
        """A worker is gone, with all that it held."""
        self.seats.pop(seat.worker, None)
        group = self.groups[seat.group]
        group.seats.pop(seat.worker, None)
        self._take_from_free(group, seat)
        for ticket in seat.held.values():
            self._graces.pop(ticket.number, None)
            ticket.seat = None
            if ticket.is_answered:
                continue
            if ticket.route.is_idempotent and not ticket.generation and ticket.caller.is_open and group.is_known:
                ticket.generation = seat.generation
                group.again.append(ticket)
                group.pending += 1
            else:
                self._unwatch(ticket)
                self._fail(ticket, Ret.WORKER_LOST)
        seat.held.clear()
        self._pump(group, now)
        self._forget(group, now)

    def returned(self, seat: Seat, number: int, flags: int, answer: bytes, now: float) -> None:
        """A worker said something about a request."""
        ticket = seat.held.get(number)
        if ticket is None:
            self.drops["stray answer"] += 1
            return
        group = self.groups[seat.group]
        if not flags & DONE:
            self._answer(ticket, answer)
            return
        del seat.held[number]
        ticket.seat = None
        group.done += 1
        if seat.late:
            seat.late.discard(number)
        if seat.group == ROUTER:
            self._routed(ticket, answer, now)
        else:
            if ticket.deadline is not None:
                self._unwatch(ticket)
                self._graces.pop(number, None)
            if flags & ANSWERED:
                self._answer(ticket, answer)
            self._count(ticket, now)
        self._rest(group, seat, now)

    # Inside: queues

    def _enter(self, group: Group, ticket: Ticket, now: float) -> bool:
        """Give a request to a worker, or let it wait; False if it was refused."""
        if group.free and not group.pending:
            self._give(group, group.free[0], ticket, now)
            return True
        line = group.lines.get(ticket.caller)
        limit = self.table.queue
        if group.pending >= limit or (line is not None and len(line) >= max(1, limit // 2)):
            group.discarded += 1
            self._fail(ticket, Ret.QUEUE_FULL)
            return False
        if line is None:
            line = group.lines[ticket.caller] = deque()
        line.append(ticket)
        group.pending += 1
        return True

    def _next(self, group: Group) -> Ticket | None:
        """The request whose turn it is, taken from the queue."""
        while group.again:
            ticket = group.again.popleft()
            group.pending -= 1
            if ticket.generation == group.active and ticket.caller.is_open:
                return ticket
            self._unwatch(ticket)
            self._fail(ticket, Ret.WORKER_LOST)  # never on another generation
        if not group.pending:
            return None
        caller, line = next(iter(group.lines.items()))
        ticket = line.popleft()
        group.pending -= 1
        if line:
            group.lines.move_to_end(caller)
        else:
            del group.lines[caller]
        return ticket

    def _take_all(self, group: Group) -> list[Ticket]:
        """Everything that waits in a group, taken out."""
        tickets = [*group.again, *(ticket for line in group.lines.values() for ticket in line)]
        group.again.clear()
        group.lines.clear()
        group.pending = 0
        for ticket in tickets:
            self._unwatch(ticket)
        return tickets

    def _take_out(self, group: Group, ticket: Ticket) -> None:
        """One request that waits, taken out."""
        if ticket in group.again:
            group.again.remove(ticket)
        else:
            line = group.lines[ticket.caller]
            line.remove(ticket)
            if not line:
                del group.lines[ticket.caller]
        group.pending -= 1

    def _chosen(self, cmd: int, frame: bytes) -> int | None:
        """The group that a rule names."""
        match self.table.rule:
            case ByWorker():
                return ROUTER
            case ByField(field=field):
                value = self._wire.read(frame)[field]
                number = value if isinstance(value, int) else int.from_bytes(value, "big")
                return self._choices[number % len(self._choices)] if self._choices else None
            case ByRange(ranges=ranges):
                return next((group for first, last, group in ranges if first <= cmd <= last), None)
        return None

    def _routed(self, ticket: Ticket, answer: bytes, now: float) -> None:
        """A router's worker said which group a request is for: four bytes, or nothing if the function failed."""
        self._graces.pop(ticket.number, None)
        if ticket.is_answered:
            return
        group = self.groups.get(int.from_bytes(answer, "big", signed=True)) if answer else None
        if group is not None and group.is_known:
            ticket.group = group.number
            if self._enter(group, ticket, now):
                return
        else:
            self._fail(ticket, Ret.NO_SUCH_GROUP if answer else Ret.HANDLER_ERROR)
        self._unwatch(ticket)

    # Inside: workers

    def _give(self, group: Group, seat: Seat, ticket: Ticket, now: float) -> None:
        left = NO_LIMIT if ticket.deadline is None else max(0, int((ticket.deadline - now) * 1000))
        held = seat.held
        held[ticket.number] = ticket
        ticket.seat = seat
        group.given += 1
        caller, frame = ticket.caller, ticket.frame
        seat.outbox.append(
            GIVEN.pack(GIVEN.size + len(caller.address) + len(frame), ticket.number, left) + caller.address + frame
        )
        if not seat.is_touched:
            seat.is_touched = True
            self.touched_seats.append(seat)
        if seat.is_free:
            # It is the first of the free ones; if it has room left, the others come before it.
            group.free.popleft()
            if len(held) < seat.capacity:
                group.free.append(seat)
            else:
                seat.is_free = False

    def _rest(self, group: Group, seat: Seat, now: float) -> None:
        """A worker has room, or should go: give it what waits, or let it be free, or end it."""
        if seat.is_leaving:
            while not group.is_known and len(seat.held) < seat.capacity and (ticket := self._next(group)):
                self._give(group, seat, ticket, now)
            if not seat.held:
                seat.outbox.append(FINISH)
                self._touch(seat)
            return
        if seat.generation != group.active or seat.late:
            return
        while group.pending and len(seat.held) < seat.capacity and (ticket := self._next(group)):
            self._give(group, seat, ticket, now)
        if len(seat.held) < seat.capacity and not seat.is_free:
            seat.is_free = True
            group.free.append(seat)

    def _pump(self, group: Group, now: float) -> None:
        """Give what waits to those who are free."""
        while group.free and (ticket := self._next(group)):
            self._give(group, group.free[0], ticket, now)

    def _find_free(self, group: Group) -> None:
        """After another generation became active: its workers are the free ones."""
        group.free.clear()
        for seat in group.seats.values():
            is_able = not (seat.is_leaving or seat.late) and len(seat.held) < seat.capacity
            seat.is_free = is_able and seat.generation == group.active
            if seat.is_free:
                group.free.append(seat)

    def _take_from_free(self, group: Group, seat: Seat) -> None:
        if seat.is_free:
            seat.is_free = False
            group.free.remove(seat)

    def _group(self, number: int) -> Group:
        if number not in self.groups:
            self.groups[number] = Group(number)
        return self.groups[number]

    def _forget(self, group: Group, now: float) -> None:
        """A group that the table does not have any more, and nobody works for: answer what is left, and let it go."""
        if group.is_known or group.seats:
            return
        for ticket in self._take_all(group):
            self._fail(ticket, Ret.NO_SUCH_GROUP)
        del self.groups[group.number]

    # Inside: time

    def _watch(self, ticket: Ticket) -> None:
        assert ticket.route.timeout is not None
        line = self._deadlines.setdefault(ticket.route.timeout, OrderedDict())
        line[ticket.number] = ticket

    def _unwatch(self, ticket: Ticket) -> None:
        if ticket.route.timeout is not None and (line := self._deadlines.get(ticket.route.timeout)):
            line.pop(ticket.number, None)

    def _is_late(self, ticket: Ticket, now: float) -> None:
        """A request's time is over, wherever it is."""
        self._fail(ticket, Ret.DEADLINE)
        seat = ticket.seat
        if seat is None:
            group = self.groups[ticket.group]
            self._take_out(group, ticket)
            group.discarded += 1
            return
        seat.late.add(ticket.number)
        self._take_from_free(self.groups[seat.group], seat)
        if seat.grace:
            assert ticket.deadline is not None
            self._graces[ticket.number] = (ticket.deadline + seat.grace, seat)
        else:
            self._is_overdue(seat)

    def _is_overdue(self, seat: Seat) -> None:
        if seat not in self.overdue:
            self.overdue.append(seat)

    # Inside: answers

    def _refuse(self, caller: Caller, frame: bytes, ret: Ret) -> None:
        """Answer a request that got no ticket."""
        self.failures[ret] += 1
        if self.table.answers_failures:
            self._send(caller, self._wire.reply(frame, ret))

    def _fail(self, ticket: Ticket, ret: Ret) -> None:
        """Answer with a code that says why no handler did."""
        if ticket.is_answered:
            return
        ticket.is_answered = True
        self._refuse(ticket.caller, ticket.frame, ret)

    def _answer(self, ticket: Ticket, answer: bytes) -> None:
        """What a handler answered; only once."""
        if ticket.is_answered:
            self.drops["late answer"] += 1
            return
        ticket.is_answered = True
        self._send(ticket.caller, answer)

    def _send(self, caller: Caller, answer: bytes) -> None:
        if not caller.is_open:
            self.drops["answer to a client that is gone"] += 1
            return
        self.answers += 1
        caller.outbox.append(answer)
        if not caller.is_touched:
            caller.is_touched = True
            self.touched_callers.append(caller)

    def _touch(self, seat: Seat) -> None:
        if not seat.is_touched:
            seat.is_touched = True
            self.touched_seats.append(seat)

    def _count(self, ticket: Ticket, now: float) -> None:
        took = now - ticket.arrived
        self.times[bisect_right(BENCHMARK, took * 1000)] += 1
        key = (ticket.group, ticket.cmd)
        histogram = self.latencies.get(key)
        if histogram is None:
            histogram = self.latencies[key] = Histogram()
        histogram.add(int(took * 1_000_000))
