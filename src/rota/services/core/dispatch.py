"""Dispatch: which request goes to which worker, and what is answered when none can have it.

It knows no socket and reads no clock. The code that serves the sockets reports what happened and when, and then sends
the contents of the outboxes of the callers and seats that were touched. The same calls give the same answers, so that
the simulator can prove that every request is answered once, whatever dies.

A request waits in its group's queue: first come, first served, and callers take turns, so that a caller that sends a
thousand does not delay the others. It goes to a worker that has room, and only to one of the group's active generation.
Its ticket says who asked; it is in exactly one place (waiting, or held by a seat) until it is done.

A request's timeout counts from its arrival; when it ends, the client gets an answer. A worker is overdue only when it
has held the request for the whole timeout: otherwise a long queue would end the workers that could shorten it.

Every request is answered once: by its handler, which may choose silence, or by us with a code that says why not. A
request that arrived whole runs whether or not its client is still there: many messages want no answer, and their
senders close the connection when the last one is written.

What may wait is bounded in requests and in bytes, for each group and, by half of that, for each caller.
"""

from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping

from rota.kit.histogram import Histogram
from rota.services.core.codes import Ret
from rota.services.core.frames import FrameCodec, wire
from rota.services.core.parcels import ANSWERED, DONE, FINISH, GIVEN, NO_LIMIT
from rota.services.core.routing import ROUTER, ByField, ByRange, ByWorker
from rota.services.core.table import BENCHMARK, CmdRoute, Table

REASONS: Mapping[Ret, str] = {ret: ret.name.lower().replace("_", " ") for ret in Ret}
"""Each code in words, as it is counted."""

SLOW = 10.0
"""Seconds that a worker must have held a request for the request to be listed as slow."""

SHOWN = 10
"""The number of slow requests listed, the oldest first."""

TELL_AGAIN = 1.0
"""Seconds until an overdue worker is reported again: the first report may have said that it holds others, and now it
holds only the late one."""


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
        self.deadline = now + route.timeout if route.timeout is not None else None
        self.seat: WorkerSeat | None = None
        """The worker that has it; None while it waits."""

        self.given = now
        """When its worker got it."""

        self.is_answered = False
        self.has_run = False
        """Was a worker lost while it ran this request? It may run a second time, not a third."""


class WorkerSeat:
    """A worker, as dispatch sees it: what it holds, and what is to be sent to it."""

    __slots__ = (
        "capacity", "generation", "grace", "group", "held", "is_free", "is_leaving", "is_touched", "late", "left",
        "outbox", "patience", "worker",
    )  # fmt: skip

    def __init__(self, worker: int, group: int, generation: int, capacity: int = 1, grace: float = 0.0) -> None:
        self.worker, self.group, self.generation = worker, group, generation
        self.capacity, self.grace = capacity, grace
        self.held: dict[int, PendingRequest] = {}
        self.late: set[int] = set()
        """Requests that it has held for too long. Until it returns them it may be stuck, and gets no others."""

        self.outbox: list[bytes] = []
        self.is_free = self.is_leaving = self.is_touched = False
        self.left = 0.0
        """When it was asked to leave; None if it was not."""

        self.patience = float("inf")
        """Seconds after which it is reported that the worker has not left."""


class WorkerGroup:
    """The workers of one group, and what waits for them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_known = False
        """The callers with waiting requests, in the order of their turns, and those requests."""

        self.active = 0
        """The generation whose seats get requests."""

        self.seats: dict[int, WorkerSeat] = {}
        self.free: deque[WorkerSeat] = deque()
        self.lines: OrderedDict[Caller, deque[PendingRequest]] = OrderedDict()
        """Who waits, in the order of their turns, and with what."""

        self.again: deque[PendingRequest] = deque()
        """Requests of the active generation that may run again, their worker having been lost; they come first."""

        self.pending = self.size = 0
        """The number of waiting requests, and their size in bytes."""

        self.given = self.done = self.discarded = 0

    @property
    def in_flight(self) -> int:
        """Requests that its workers have."""
        return sum(len(seat.held) for seat in self.seats.values())


class Dispatch:
    """One service's requests and workers."""

    def __init__(self, table: Table) -> None:
        self.groups: dict[int, WorkerGroup] = {}
        self.seats: dict[int, WorkerSeat] = {}
        self.is_stopping = False
        self.requests = self.answers = self.silent = 0
        self.failures: Counter[Ret] = Counter()
        self.drops: Counter[str] = Counter()
        self.times = [0] * (len(BENCHMARK) + 1)
        self.latencies: dict[tuple[int, int], Histogram] = {}
        """(group, cmd) → how long its requests took."""

        self.touched_callers: list[Caller] = []
        self.touched_seats: list[WorkerSeat] = []
        self.overdue: list[WorkerSeat] = []
        """Workers that did not end a request in time; the agent should end them."""

        self.finished: list[WorkerSeat] = []
        """Workers that were asked to end and have finished all they held."""

        self._deadlines: dict[float, OrderedDict[int, PendingRequest]] = {}
        self._graces: dict[int, tuple[float, WorkerSeat]] = {}
        """Late requests, and until when their workers may still hold them."""

        self._last = 0
        self.table = table
        self._wire: FrameCodec = wire(table.layout)
        self._choices: list[int] = []
        self.configure(table, 0.0)

    # What is served

    def configure(self, table: Table, now: float) -> None:
        """Serve by this table from now on."""
        self.table, self._wire = table, wire(table.layout)
        self._choices = sorted(group for group in table.groups if group != ROUTER)
        self._deadlines = {timeout: line for timeout, line in self._deadlines.items() if line}
        for number, generation in table.groups.items():
            group = self._group(number)
            if group.active != generation:
                self._flip(group, generation)
        for group in list(self.groups.values()):
            group.is_known = group.number in table.groups
            if group.is_known:
                self._drop_other_frames(group)
            self._pump(group, now)
        for group in list(self.groups.values()):
            if not group.is_known:
                self._move_on(group, now)
                self._forget(group)

    def stop(self) -> None:
        """Take no new requests; those that are here are worked off."""
        self.is_stopping = True

    @property
    def is_idle(self) -> bool:
        """Is no request here?"""
        return not any(group.pending or group.in_flight for group in self.groups.values())

    def give_up(self) -> None:
        """Answer all requests with an error: no time is left to run them."""
        for group in self.groups.values():
            held = [ticket for seat in group.seats.values() for ticket in seat.held.values()]
            for ticket in held:
                self._unwatch(ticket)
            for ticket in [*self._take_all(group), *held]:
                self._fail(ticket, Ret.STOPPING)

    def clear(self, numbers: Iterable[int] | None) -> dict[int, int]:
        """Drop the requests that wait in these groups, or in all; returns how many. Their clients get an error.

        What waits for a routing function has no group yet, and stays.
        """
        wanted = self.groups.keys() if numbers is None else self.groups.keys() & set(numbers)
        dropped = {}
        for number in sorted(wanted - {ROUTER}):
            tickets = self._take_all(self.groups[number])
            for ticket in tickets:
                self._fail(ticket, Ret.QUEUE_FULL)
            dropped[number] = len(tickets)
        return dropped

    # Requests

    def arrive(self, caller: Caller, cmd: int, frame: bytes, now: float) -> None:
        """A request came."""
        self.requests += 1
        route = self.table.routes.get(cmd)
        if route is None:
            self._refuse(caller, frame, self._wire, Ret.UNKNOWN_CMD)
            return
        if self.is_stopping:
            self._refuse(caller, frame, self._wire, Ret.STOPPING)
            return
        group = self.groups.get(route.group) if self.table.rule is None else self._chosen(cmd, frame)
        if group is None or not group.is_known:
            self._refuse(caller, frame, self._wire, Ret.NO_SUCH_GROUP)
            return
        self._last += 1
        caller.unanswered += 1
        ticket = PendingRequest(self._last, caller, cmd, frame, self._wire, group.number, route, now)
        if self._enter(group, ticket, now) and ticket.deadline is not None:
            self._watch(ticket)

    def caller_gone(self, caller: Caller) -> None:
        """A client hung up: what it asked for still runs, and the answers are dropped."""
        caller.is_open = False
        caller.outbox.clear()

    def expire(self, now: float) -> float | None:
        """Answer the requests whose timeout has passed; returns when to call this again."""
        next_at: float | None = None
        for line in self._deadlines.values():
            while line:
                ticket = next(iter(line.values()))
                assert ticket.deadline is not None
                if ticket.deadline > now:
                    next_at = ticket.deadline if next_at is None else min(next_at, ticket.deadline)
                    break
                del line[ticket.number]
                self._is_late(ticket)
        if self._graces:
            ends = self._end_graces(now)
            if next_at is None or (ends is not None and ends < next_at):
                return ends
        return next_at

    # Workers

    def seat_joined(self, seat: WorkerSeat, now: float) -> None:
        """A worker is ready."""
        self.seats[seat.worker] = seat
        group = self._group(seat.group)
        group.seats[seat.worker] = seat
        self._rest(group, seat, now)
        self._pump(group, now)

    def seat_leaves(self, worker: int, now: float, patience: float = float("inf")) -> bool:
        """A worker should get nothing more, and end when it has done what it holds; False if it is not here.

        `held_up` names it when that takes longer than `patience`.
        """
        seat = self.seats.get(worker)
        if seat is None:
            return False
        if not seat.is_leaving:
            seat.is_leaving, seat.left, seat.patience = True, now, patience
            group = self.groups[seat.group]
            self._take_from_free(group, seat)
            self._rest(group, seat, now)
        return True

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

    def seat_lost(self, seat: WorkerSeat, now: float) -> None:
        """A worker is gone, with all that it held."""
        if self.seats.pop(seat.worker, None) is None:
            return
        group = self.groups[seat.group]
        del group.seats[seat.worker]
        self._take_from_free(group, seat)
        for ticket in seat.held.values():
            self._graces.pop(ticket.number, None)
            ticket.seat = None
            if self._may_run_again(ticket, seat, group):
                ticket.has_run = True
                group.again.append(ticket)
                self._waits(group, ticket)
            else:
                self._unwatch(ticket)
                self._fail(ticket, Ret.WORKER_LOST)
        seat.held.clear()
        self._pump(group, now)
        if not group.is_known:
            self._forget(group)

    def returned(self, seat: WorkerSeat, number: int, flags: int, answer: bytes, now: float) -> None:
        """A worker answered a request, or reported its end."""
        ticket = seat.held.get(number)
        if ticket is None:
            self.drops["stray answer"] += 1
            return
        group = self.groups[seat.group]
        if not flags & DONE:
            if flags & ANSWERED and seat.group != ROUTER:
                self._answer(ticket, answer)
            return
        del seat.held[number]
        ticket.seat = None
        group.done += 1
        if seat.late:
            seat.late.discard(number)
        if seat.group == ROUTER:
            self._routed(group, seat, ticket, answer, now)
        else:
            if ticket.deadline is not None:
                self._unwatch(ticket)
                self._graces.pop(number, None)
            if flags & ANSWERED:
                self._answer(ticket, answer)
            elif not ticket.is_answered:
                self.silent += 1
                self._settle(ticket)
            self._count(ticket, now)
        self._rest(group, seat, now)

    # Inside: queues

    def _enter(self, group: WorkerGroup, ticket: PendingRequest, now: float) -> bool:
        """Give a request to a worker, or let it wait; False if it was refused."""
        if group.free and not group.pending:
            self._give(group, group.free[0], ticket, now)
            return True
        line = group.lines.get(ticket.caller)
        if not self._has_room(group, line, ticket):
            group.discarded += 1
            self._fail(ticket, Ret.QUEUE_FULL)
            return False
        if line is None:
            line = group.lines[ticket.caller] = deque()
        line.append(ticket)
        self._waits(group, ticket)
        return True

    def _has_room(self, group: WorkerGroup, line: deque[PendingRequest] | None, ticket: PendingRequest) -> bool:
        """May one more request wait? The first of a caller needs room for itself in the group alone."""
        most, bytes_at_most, size = self.table.queue, self.table.queue_bytes, len(ticket.frame)
        if group.pending >= most or (group.pending and group.size + size > bytes_at_most):
            return False
        return line is None or (len(line) < max(1, most // 2) and ticket.caller.waiting + size <= bytes_at_most // 2)

    def _waits(self, group: WorkerGroup, ticket: PendingRequest) -> None:
        """A request has joined those that wait."""
        group.pending += 1
        group.size += len(ticket.frame)
        ticket.caller.waiting += len(ticket.frame)

    def _waits_no_more(self, group: WorkerGroup, ticket: PendingRequest) -> None:
        """A request was taken out of those that wait."""
        group.pending -= 1
        group.size -= len(ticket.frame)
        ticket.caller.waiting -= len(ticket.frame)

    def _next(self, group: WorkerGroup, now: float) -> PendingRequest | None:
        """The request whose turn it is, taken from the queue; what has waited too long is answered instead."""
        lines, again = group.lines, group.again
        while group.pending:
            if again:
                ticket = again.popleft()
            else:
                caller, line = lines.popitem(last=False)
                ticket = line.popleft()
                if line:  # its next turn comes after those of all others
                    lines[caller] = line
            self._waits_no_more(group, ticket)
            if ticket.deadline is None or ticket.deadline > now:
                return ticket
            group.discarded += 1
            self._unwatch(ticket)
            self._fail(ticket, Ret.DEADLINE)
        return None

    def _waiting(self, group: WorkerGroup) -> list[PendingRequest]:
        return [*group.again, *(ticket for line in group.lines.values() for ticket in line)]

    def _take_all(self, group: WorkerGroup) -> list[PendingRequest]:
        """Everything that waits in a group, taken out, because no worker will run it."""
        tickets = self._waiting(group)
        group.again.clear()
        group.lines.clear()
        group.discarded += len(tickets)
        for ticket in tickets:
            self._waits_no_more(group, ticket)
            self._unwatch(ticket)
        return tickets

    def _take_out(self, group: WorkerGroup, ticket: PendingRequest) -> None:
        """One request that waits, taken out."""
        if ticket in group.again:
            group.again.remove(ticket)
        else:
            line = group.lines[ticket.caller]
            line.remove(ticket)
            if not line:
                del group.lines[ticket.caller]
        self._waits_no_more(group, ticket)

    def _drop_other_frames(self, group: WorkerGroup) -> None:
        """What waits in frames of another layout cannot be read by those who work now."""
        for ticket in self._waiting(group):
            if ticket.wire is self._wire:
                continue
            self._take_out(group, ticket)
            group.discarded += 1
            self._unwatch(ticket)
            self._fail(ticket, Ret.STOPPING)

    def _move_on(self, group: WorkerGroup, now: float) -> None:
        """What waits for a group that the table does not have any more goes where the table sends it now, if it does.

        What has run once stays: it must not run in another generation.
        """
        for ticket in self._waiting(group):
            if not ticket.has_run and (new := self._place(ticket)) is not None:
                self._take_out(group, ticket)
                self._enter_from(ticket, new, now)

    # Inside: rules

    def _place(self, ticket: PendingRequest) -> WorkerGroup | None:
        """The group that the table names for a request now, if its workers can read it."""
        route = self.table.routes.get(ticket.cmd)
        if route is None or ticket.wire is not self._wire:
            return None
        group = self.groups.get(route.group) if self.table.rule is None else self._chosen(ticket.cmd, ticket.frame)
        return group if group is not None and group.is_known else None

    def _chosen(self, cmd: int, frame: bytes) -> WorkerGroup | None:
        """The group that the table's rule names."""
        number: int | None = None
        match self.table.rule:
            case ByWorker():
                number = ROUTER
            case ByField(field=field) if self._choices:
                value = self._wire.read(frame)[field]
                place = value if isinstance(value, int) else int.from_bytes(value, "big")
                number = self._choices[place % len(self._choices)]
            case ByRange(ranges=ranges):
                number = next((group for first, last, group in ranges if first <= cmd <= last), None)
        return None if number is None else self.groups.get(number)

    def _routed(self, router: WorkerGroup, seat: WorkerSeat, ticket: PendingRequest, answer: bytes, now: float) -> None:
        """A router's worker said which group a request is for: four bytes, or nothing if the function failed."""
        self._graces.pop(ticket.number, None)
        if ticket.is_answered:
            return
        group = self.groups.get(int.from_bytes(answer, "big", signed=True)) if answer else None
        if group is None or not group.is_known or ticket.wire is not self._wire:
            is_outdated = not router.is_known or seat.generation != router.active
            group = self._place(ticket) if answer and is_outdated else None
        if group is not None:
            self._enter_from(ticket, group, now)
        else:
            self._unwatch(ticket)
            self._fail(ticket, Ret.NO_SUCH_GROUP if answer else Ret.HANDLER_ERROR)

    def _enter_from(self, ticket: PendingRequest, group: WorkerGroup, now: float) -> None:
        """Let a request that was somewhere else into a group."""
        ticket.group = group.number
        if not self._enter(group, ticket, now):
            self._unwatch(ticket)

    # Inside: workers

    def _give(self, group: WorkerGroup, seat: WorkerSeat, ticket: PendingRequest, now: float) -> None:
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
            self.touched_seats.append(seat)
        if seat.is_free:
            # It is the first of the free ones; if it has room left, the others come before it.
            group.free.popleft()
            if len(held) < seat.capacity:
                group.free.append(seat)
            else:
                seat.is_free = False

    def _rest(self, group: WorkerGroup, seat: WorkerSeat, now: float) -> None:
        """A worker has room, or should go: give it what waits, or let it be free, or end it."""
        if seat.is_leaving:
            if not group.is_known and seat.generation == group.active:  # no successor is expected
                self._fill(group, seat, now)
            if not seat.held:
                seat.outbox.append(FINISH)
                self._touch(seat)
                self.finished.append(seat)
            return
        if seat.generation != group.active or seat.late:
            return
        if group.pending:
            self._fill(group, seat, now)
        if len(seat.held) < seat.capacity and not seat.is_free:
            seat.is_free = True
            group.free.append(seat)

    def _fill(self, group: WorkerGroup, seat: WorkerSeat, now: float) -> None:
        """Give a worker what waits, as far as it has room."""
        while len(seat.held) < seat.capacity and (ticket := self._next(group, now)):
            self._give(group, seat, ticket, now)

    def _pump(self, group: WorkerGroup, now: float) -> None:
        """Give what waits to those who are free."""
        while group.free and (ticket := self._next(group, now)):
            self._give(group, group.free[0], ticket, now)

    def _flip(self, group: WorkerGroup, generation: int) -> None:
        """Another generation is active: its workers are the free ones. What has run once never runs in two of them."""
        group.active = generation
        for ticket in list(group.again):
            self._take_out(group, ticket)
            self._unwatch(ticket)
            self._fail(ticket, Ret.WORKER_LOST)
        group.free.clear()
        for seat in group.seats.values():
            is_able = not (seat.is_leaving or seat.late) and len(seat.held) < seat.capacity
            seat.is_free = is_able and seat.generation == group.active
            if seat.is_free:
                group.free.append(seat)

    def _take_from_free(self, group: WorkerGroup, seat: WorkerSeat) -> None:
        if seat.is_free:
            seat.is_free = False
            group.free.remove(seat)

    def _group(self, number: int) -> WorkerGroup:
        if number not in self.groups:
            self.groups[number] = WorkerGroup(number)
        return self.groups[number]

    def _may_run_again(self, ticket: PendingRequest, seat: WorkerSeat, group: WorkerGroup) -> bool:
        """May a request whose worker was lost have another one? Once, and only one of the same generation."""
        return (
            ticket.route.is_idempotent
            and not (ticket.has_run or ticket.is_answered)
            and group.is_known
            and seat.generation == group.active
        )

    def _forget(self, group: WorkerGroup) -> None:
        """Drop a group that the table does not have any more, once it has no workers: answer what is left."""
        if group.seats:
            return
        for ticket in self._take_all(group):
            self._fail(ticket, Ret.WORKER_LOST if ticket.has_run else Ret.NO_SUCH_GROUP)
        del self.groups[group.number]
        self.latencies = {key: found for key, found in self.latencies.items() if key[0] != group.number}

    # Inside: time

    def _watch(self, ticket: PendingRequest) -> None:
        assert ticket.route.timeout is not None
        line = self._deadlines.setdefault(ticket.route.timeout, OrderedDict())
        line[ticket.number] = ticket

    def _unwatch(self, ticket: PendingRequest) -> None:
        if ticket.route.timeout is not None and (line := self._deadlines.get(ticket.route.timeout)):
            line.pop(ticket.number, None)

    def _is_late(self, ticket: PendingRequest) -> None:
        """A request's time is over, wherever it is."""
        self._fail(ticket, Ret.DEADLINE)
        seat = ticket.seat
        if seat is None:
            group = self.groups[ticket.group]
            self._take_out(group, ticket)
            group.discarded += 1
            return
        assert ticket.deadline is not None
        had_its_time = ticket.given + ticket.deadline - ticket.arrived
        self._graces[ticket.number] = (max(ticket.deadline + seat.grace, had_its_time), seat)
        if ticket.given - ticket.arrived <= ticket.deadline - ticket.given:  # most of its time was this worker's
            self._spare(seat, ticket.number)

    def _end_graces(self, now: float) -> float | None:
        """Note the workers that have had a request for too long; when to look again."""
        for number in [number for number, (ends, _) in self._graces.items() if ends <= now]:
            _, seat = self._graces[number]
            self._graces[number] = (now + TELL_AGAIN, seat)
            self._spare(seat, number)
            if seat not in self.overdue:
                self.overdue.append(seat)
        return min((ends for ends, _ in self._graces.values()), default=None)

    def _spare(self, seat: WorkerSeat, number: int) -> None:
        """Give a worker nothing more until it has returned this request: it may be stuck."""
        seat.late.add(number)
        self._take_from_free(self.groups[seat.group], seat)

    # Inside: answers

    def _refuse(self, caller: Caller, frame: bytes, wire: FrameCodec, ret: Ret) -> None:
        """Answer that no handler did, and why."""
        self.failures[ret] += 1
        if self.table.answers_failures:
            self._send(caller, wire.reply(frame, ret))
        else:
            self.silent += 1

    def _fail(self, ticket: PendingRequest, ret: Ret) -> None:
        """Answer with a code that says why no handler did."""
        if ticket.is_answered:
            return
        ticket.is_answered = True
        self._refuse(ticket.caller, ticket.frame, ticket.wire, ret)
        self._settle(ticket)

    def _answer(self, ticket: PendingRequest, answer: bytes) -> None:
        """What a handler answered; only once."""
        if ticket.is_answered:
            self.drops["late answer"] += 1
            return
        ticket.is_answered = True
        self._send(ticket.caller, answer)
        self._settle(ticket)

    def _settle(self, ticket: PendingRequest) -> None:
        """A request is answered, or never will be; a caller that is leaving is touched after its last one."""
        caller = ticket.caller
        caller.unanswered -= 1
        if caller.is_leaving and not caller.unanswered and not caller.is_touched:
            caller.is_touched = True
            self.touched_callers.append(caller)

    def _send(self, caller: Caller, answer: bytes) -> None:
        if not caller.is_open:
            self.drops["answer to a client that is gone"] += 1
            return
        self.answers += 1
        caller.outbox.append(answer)
        if not caller.is_touched:
            caller.is_touched = True
            self.touched_callers.append(caller)

    def _touch(self, seat: WorkerSeat) -> None:
        if not seat.is_touched:
            seat.is_touched = True
            self.touched_seats.append(seat)

    def _count(self, ticket: PendingRequest, now: float) -> None:
        took = now - ticket.arrived
        self.times[bisect_right(BENCHMARK, took * 1000)] += 1
        key = (ticket.group, ticket.cmd)
        histogram = self.latencies.get(key)
        if histogram is None:
            histogram = self.latencies[key] = Histogram()
        histogram.add(int(took * 1_000_000))
