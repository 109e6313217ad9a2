"""Dispatch: which request goes to which worker, and what is answered when none can have it.

It knows no socket and reads no clock. The code that serves the sockets reports what happened and when, and then sends
the contents of the outboxes of the callers and seats that were touched. The same calls give the same answers, so that
the simulator can prove that every request is answered once, whatever dies.

A request waits in its group's queue (`requests`). It goes to a worker that has room (`workers`). Its ticket says who
asked; it is in exactly one place (waiting, or held by a seat) until it is done. At the end of its time its client is
answered, wherever it is (`deadlines`).

Every request is answered once (`answers`). A request that arrived whole runs whether or not its client is still there:
many messages want no answer, and their senders close the connection when the last one is written.
"""

from collections.abc import Iterable

from rota.services.core.codes import Ret
from rota.services.core.dispatch.answers import Answers
from rota.services.core.dispatch.choice import GroupChoice
from rota.services.core.dispatch.deadlines import Deadlines
from rota.services.core.dispatch.requests import Caller, PendingRequest
from rota.services.core.dispatch.seats import WorkerGroup, WorkerSeat
from rota.services.core.dispatch.workers import Workers
from rota.services.core.frames import wire
from rota.services.core.parcels import ANSWERED, DONE
from rota.services.core.routing import ROUTER
from rota.services.core.table import Table


class Dispatch:
    """One service's requests and workers."""

    def __init__(self, table: Table, answers: Answers | None = None) -> None:
        self.answers = answers or Answers()
        self.deadlines = Deadlines()
        self.workers = Workers(self.answers, self.deadlines)
        self.groups = self.workers.groups
        self.is_stopping = False
        self.requests = 0
        self._last = 0
        self.configure(table, 0.0)

    # What is served

    def configure(self, table: Table, now: float) -> None:
        """Serve by this table from now on."""
        self.table, self._wire = table, wire(table.layout)
        self._choice = GroupChoice(table, self._wire)
        self.answers.are_failures_told = table.answers_failures
        self.deadlines.drop_empty()
        for number, generation in table.groups.items():
            group = self.workers.group(number)
            if group.active != generation:
                self._flip(group, generation)
        for group in list(self.groups.values()):
            group.is_known = group.number in table.groups
            if group.is_known:
                self._drop_other_frames(group)
            self.workers.pump(group, now)
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
        return not any(group.queue.pending or group.in_flight for group in self.groups.values())

    def give_up(self) -> None:
        """Answer all requests with an error: no time is left to run them."""
        for group in self.groups.values():
            held = [ticket for seat in group.seats.values() for ticket in seat.held.values()]
            for ticket in [*group.queue.take_all(), *held]:
                self._fail(ticket, Ret.STOPPING)

    def clear(self, numbers: Iterable[int] | None) -> dict[int, int]:
        """Drop the requests that wait in these groups, or in all; returns how many. Their clients get an error.

        What waits for a routing function has no group yet, and stays.
        """
        wanted = self.groups.keys() if numbers is None else self.groups.keys() & set(numbers)
        dropped = {}
        for number in sorted(wanted - {ROUTER}):
            tickets = self.groups[number].queue.take_all()
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
            self.answers.refuse(caller, frame, self._wire, Ret.UNKNOWN_CMD)
            return
        if self.is_stopping:
            self.answers.refuse(caller, frame, self._wire, Ret.STOPPING)
            return
        number = route.group if self.table.rule is None else self._choice.number(cmd, route, frame)
        group = None if number is None else self.groups.get(number)
        if group is None or not group.is_known:
            self.answers.refuse(caller, frame, self._wire, Ret.NO_SUCH_GROUP)
            return
        self._last += 1
        caller.unanswered += 1
        ticket = PendingRequest(self._last, caller, cmd, frame, self._wire, group.number, route, now)
        if self._enter(group, ticket, now) and ticket.deadline is not None:
            self.deadlines.watch(ticket)

    def caller_gone(self, caller: Caller) -> None:
        """A client hung up: what it asked for still runs, and the answers are dropped."""
        caller.is_open = False
        caller.outbox.clear()

    def expire(self, now: float) -> float | None:
        """Answer the requests whose timeout has passed; returns when to call this again."""
        late, next_at = self.deadlines.passed(now)
        for ticket in late:
            self._is_late(ticket)
        if self.deadlines.graces:
            self.workers.name_overdue(now)
            ends = self.deadlines.next_overdue()
            if next_at is None or (ends is not None and ends < next_at):
                return ends
        return next_at

    # Workers

    def seat_joined(self, seat: WorkerSeat, now: float) -> None:
        """A worker is ready."""
        self.workers.seats[seat.worker] = seat
        group = self.workers.group(seat.group)
        group.seats[seat.worker] = seat
        self.workers.rest(group, seat, now)
        self.workers.pump(group, now)

    def seat_leaves(self, worker: int, now: float, patience: float = float("inf")) -> bool:
        """A worker should get nothing more, and end when it has done what it holds; False if it is not here.

        `Workers.held_up` names it when that takes longer than `patience`.
        """
        seat = self.workers.seats.get(worker)
        if seat is None:
            return False
        if not seat.is_leaving:
            seat.is_leaving, seat.left, seat.patience = True, now, patience
            group = self.groups[seat.group]
            group.take_from_free(seat)
            self.workers.rest(group, seat, now)
        return True

    def seat_lost(self, seat: WorkerSeat, now: float) -> None:
        """A worker is gone, with all that it held."""
        if self.workers.seats.pop(seat.worker, None) is None:
            return
        group = self.groups[seat.group]
        del group.seats[seat.worker]
        group.take_from_free(seat)
        for ticket in seat.held.values():
            self.deadlines.graces.pop(ticket.number, None)
            ticket.seat = None
            if self._may_run_again(ticket, seat, group):
                ticket.has_run = True
                group.queue.add_again(ticket)
            else:
                self._fail(ticket, Ret.WORKER_LOST)
        seat.held.clear()
        self.workers.pump(group, now)
        if not group.is_known:
            self._forget(group)

    def returned(self, seat: WorkerSeat, number: int, flags: int, answer: bytes, now: float) -> None:
        """A worker answered a request, or reported its end."""
        ticket = seat.held.get(number)
        if ticket is None:
            self.answers.drops["stray answer"] += 1
            return
        group = self.groups[seat.group]
        if not flags & DONE:
            if flags & ANSWERED and seat.group != ROUTER:
                self.answers.pass_on(ticket, answer)
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
                self.deadlines.unwatch(ticket)
                self.deadlines.graces.pop(number, None)
            answers = self.answers
            if flags & ANSWERED:
                answers.pass_on(ticket, answer)
            else:
                answers.stay_silent(ticket)
            answers.count(ticket, now)
        self.workers.rest(group, seat, now)

    # Inside: where requests go

    def _enter(self, group: WorkerGroup, ticket: PendingRequest, now: float) -> bool:
        """Give a request to a worker, or let it wait; False if it was refused."""
        if group.free and not group.queue.pending:
            self.workers.give(group, group.free[0], ticket, now)
            return True
        if group.queue.add(ticket, self.table.queue, self.table.queue_bytes):
            return True
        self.answers.fail(ticket, Ret.QUEUE_FULL)
        return False

    def _place(self, ticket: PendingRequest) -> WorkerGroup | None:
        """The group that the table names for a request now, if its workers can read it."""
        route = self.table.routes.get(ticket.cmd)
        if route is None or ticket.wire is not self._wire:
            return None
        number = self._choice.number(ticket.cmd, route, ticket.frame)
        group = None if number is None else self.groups.get(number)
        return group if group is not None and group.is_known else None

    def _routed(self, router: WorkerGroup, seat: WorkerSeat, ticket: PendingRequest, answer: bytes, now: float) -> None:
        """A router's worker said which group a request is for: four bytes, or nothing if the function failed."""
        self.deadlines.graces.pop(ticket.number, None)
        if ticket.is_answered:
            return
        group = self.groups.get(int.from_bytes(answer, "big", signed=True)) if answer else None
        if group is None or not group.is_known or ticket.wire is not self._wire:
            is_outdated = not router.is_known or seat.generation != router.active
            group = self._place(ticket) if answer and is_outdated else None
        if group is not None:
            self._enter_from(ticket, group, now)
        else:
            self._fail(ticket, Ret.NO_SUCH_GROUP if answer else Ret.HANDLER_ERROR)

    def _enter_from(self, ticket: PendingRequest, group: WorkerGroup, now: float) -> None:
        """Let a request that was somewhere else into a group."""
        ticket.group = group.number
        if not self._enter(group, ticket, now):
            self.deadlines.unwatch(ticket)

    def _drop_other_frames(self, group: WorkerGroup) -> None:
        """What waits in frames of another layout cannot be read by those who work now."""
        for ticket in group.queue.waiting():
            if ticket.wire is not self._wire:
                group.queue.discard(ticket)
                self._fail(ticket, Ret.STOPPING)

    def _move_on(self, group: WorkerGroup, now: float) -> None:
        """What waits for a group that the table does not have any more goes where the table sends it now, if it does.

        What has run once stays: it must not run in another generation.
        """
        for ticket in group.queue.waiting():
            if not ticket.has_run and (new := self._place(ticket)) is not None:
                group.queue.take_out(ticket)
                self._enter_from(ticket, new, now)

    # Inside: groups

    def _flip(self, group: WorkerGroup, generation: int) -> None:
        """Another generation is active. What has run once never runs in two of them."""
        for ticket in list(group.queue.again):
            group.queue.take_out(ticket)
            self._fail(ticket, Ret.WORKER_LOST)
        group.activate(generation)

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
        for ticket in group.queue.take_all():
            self._fail(ticket, Ret.WORKER_LOST if ticket.has_run else Ret.NO_SUCH_GROUP)
        del self.groups[group.number]
        self.answers.forget(group.number)

    # Inside: time

    def _is_late(self, ticket: PendingRequest) -> None:
        """A request's time is over, wherever it is."""
        self.answers.fail(ticket, Ret.DEADLINE)
        seat = ticket.seat
        if seat is None:
            self.groups[ticket.group].queue.discard(ticket)
            return
        self.deadlines.grant(ticket, seat)
        assert ticket.deadline is not None
        if ticket.given - ticket.arrived <= ticket.deadline - ticket.given:  # most of its time was this worker's
            self.workers.spare(seat, ticket.number)

    def _fail(self, ticket: PendingRequest, ret: Ret) -> None:
        """Answer with a code that says why no handler did; nothing more of the request is waited for."""
        self.deadlines.unwatch(ticket)
        self.answers.fail(ticket, ret)
