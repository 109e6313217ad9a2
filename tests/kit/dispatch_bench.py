"""A dispatch with clients and workers, moved by hand."""

import msgspec

from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.requests import Caller
from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.frames import BOX, wire
from rota.services.core.parcels import ADDRESS, ANSWERED, DONE
from rota.services.core.table import CmdRoute, Table

WIRE = wire(BOX)


DEFAULTS = {1: CmdRoute(1), 2: CmdRoute(2)}


def table(**changes):
    return msgspec.structs.replace(Table(service="logic", groups={1: 1, 2: 1}, routes=DEFAULTS), **changes)


class Client(Caller):
    """A caller that remembers its answers."""

    def __init__(self, name="client"):
        super().__init__(ADDRESS.pack(4, 1, b""))
        self.name = name

    def answers(self):
        """(sn, ret) of each answer so far."""
        return [(header["sn"], header["ret"]) for header in map(WIRE.read, self.outbox)]


class Bench:
    """A dispatch with clients and workers, and hands to move them."""

    def __init__(self, **changes):
        self.dispatch = Dispatch(table(**changes))
        self.now = 0.0
        self.numbers = iter(range(1, 1000))

    def ask(self, client, *sns, cmd=1, **fields):
        for sn in sns:
            self.dispatch.arrive(client, cmd, WIRE.frame(cmd=cmd, sn=sn, **fields), self.now)

    def worker(self, group=1, generation=1, capacity=1, grace=0.0):
        seat = WorkerSeat(next(self.numbers), group, generation, capacity, grace)
        self.dispatch.seat_joined(seat, self.now)
        return seat

    def holds(self, seat):
        """The sn of what a worker has."""
        return [WIRE.cmd_and_sn(ticket.frame)[1] for ticket in seat.held.values()]

    def done(self, seat, sn=None, flags=DONE | ANSWERED, answer=None):
        """A worker ends a request: the one with this sn, or the only one."""
        [number] = [number for number, ticket in seat.held.items() if sn in (None, WIRE.cmd_and_sn(ticket.frame)[1])]
        frame = seat.held[number].frame
        self.dispatch.returned(seat, number, flags, WIRE.reply(frame, 0) if answer is None else answer, self.now)

    def pass_time(self, seconds):
        self.now += seconds
        return self.dispatch.expire(self.now)

    def serve(self, **changes):
        self.dispatch.configure(table(**changes), self.now)

    @property
    def is_balanced(self):
        """Is every request that came accounted for?"""
        it = self.dispatch
        here = {
            ticket
            for group in it.groups.values()
            for ticket in (
                *group.queue.again,
                *(ticket for line in group.queue.lines.values() for ticket in line),
                *(ticket for seat in group.seats.values() for ticket in seat.held.values()),
            )
            if not ticket.is_answered
        }
        gone = it.answers.drops["answer to a client that is gone"]
        return it.requests == it.answers.sent + it.answers.silent + gone + len(here)
