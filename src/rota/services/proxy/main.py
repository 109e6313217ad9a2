"""The proxy's process: `python -m rota.services.proxy.main`. The agent starts it, sends it what to serve, and gets its
reports.

The agent's messages are level-triggered: tables and sockets come whole, so that an agent can send a new proxy
everything again.
"""

import argparse
import signal
import socket
import time
from collections.abc import Callable

import setproctitle

from rota.kit import collector
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.child import GiveUp
from rota.runtime.system import kernel
from rota.services.core.figures import figures
from rota.services.proxy.front import Front
from rota.services.proxy.loop import Loop
from rota.services.proxy.pipe import (
    Ask,
    Clear,
    Close,
    Dismiss,
    Gone,
    HeldUp,
    Idle,
    Listen,
    Overdue,
    Serve,
    TakeSeat,
    Told,
    Unseated,
    Unserve,
    Withdraw,
)
from rota.services.proxy.seats import WorkerConnection

TICK = 1.0
"""Seconds between two checks of what no event announces."""

LINGER = 0.4
"""Seconds that clients have to learn that the service stops, and again to take their last answers."""


class Proxy:
    """All that one proxy serves."""

    def __init__(self, pipe: Pipe, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipe, self._clock = pipe, clock
        self._loop = Loop()
        self._fronts: dict[str, Front] = {}
        self._born = clock()
        self._is_closing = self._is_leaving = self._reported_idle = False
        self._tidied = clock()
        self._loop.add(pipe.sock.fileno(), self._hear)

    def run(self) -> None:
        """Serve until asked to end, or until the agent is gone."""
        look_again = self._clock()
        while not self._is_leaving:
            look_again = self._turn(look_again)
            if self._is_closing and not self._reported_idle and self._is_idle():
                self._reported_idle = True
                self._pipe.send(Idle())
        self._leave()

    def _turn(self, until: float) -> float:
        """One turn: wait at most until `until`, handle what came; returns when to look again."""
        fronts = self._fronts
        events = self._loop.wait(max(0.0, until - self._clock()))
        now = self._clock()
        for front in fronts.values():
            front.now = now
        self._loop.notify(events)
        look_again = now + TICK
        for front in fronts.values():
            if (when := front.send()) is not None and when < look_again:
                look_again = when
        if now - self._tidied >= TICK:
            self._tidied = now
            for front in fronts.values():
                front.tidy()
                self._report_held_up(front)
        return look_again

    def _is_idle(self) -> bool:
        return all(front.dispatch.is_idle for front in self._fronts.values())

    def _leave(self) -> None:
        """Answer what is left, answer new requests as stopping, and close the connections."""
        self._loop.remove(self._pipe.sock.fileno())
        for front in self._fronts.values():
            front.say_goodbye()
        ends = self._clock() + LINGER
        while any(front.is_awaited for front in self._fronts.values()) and self._clock() < ends:
            self._turn(ends)
        for front in self._fronts.values():
            front.shut()
        ends = self._clock() + LINGER
        fronts = [front for front in self._fronts.values() if front.part()]
        while fronts and self._clock() < ends:
            time.sleep(0.005)
            fronts = [front for front in fronts if front.part()]

    # What the agent says

    def _hear(self, event: int) -> None:
        if not self._pipe.read():
            self._is_leaving = True  # the agent is gone, and so shall we be
            return
        for message in self._pipe.ready():
            self._obey(message)

    def _obey(self, message: object) -> None:  # noqa: PLR0912  # a list of what can be said, one line or two each
        match message:
            case Serve(table=table):
                if front := self._fronts.get(table.service):
                    front.serve(table)
                else:
                    front = self._fronts[table.service] = Front(
                        self._loop, table, self._report_overdue, self._report_unseated
                    )
                    front.now = self._clock()
            case Listen(service=service, tcp=tcp, udp=udp):
                socks = [socket.socket(fileno=self._pipe.fds.popleft()) for _ in range(tcp + udp)]
                if front := self._fronts.get(service):
                    front.listen(socks[:tcp], socks[tcp:])
            case Withdraw(service=service):
                if front := self._fronts.get(service):
                    front.withdraw()
            case Unserve(service=service):
                if front := self._fronts.pop(service, None):
                    front.say_goodbye()
                    front.shut()
                    front.part()
                    front.close()
            case TakeSeat():
                self._take_seat(message, socket.socket(fileno=self._pipe.fds.popleft()))
            case Dismiss(worker=worker, patience=patience):
                if not any(front.dismiss(worker, patience) for front in self._fronts.values()):
                    self._report_unseated(worker)
            case Gone(worker=worker):
                for front in self._fronts.values():
                    front.bury(worker)
            case Close():
                self._is_closing = True
                for front in self._fronts.values():
                    front.stop()
            case GiveUp():
                self._is_leaving = True
            case Ask(number=number, service=service):
                self._pipe.send(self._figures(number, service))
            case Clear(number=number, service=service, groups=groups):
                found = self._fronts.get(service)
                self._pipe.send(Told(number, dropped=found.dispatch.clear(groups) if found else None))

    def _take_seat(self, seat: TakeSeat, sock: socket.socket) -> None:
        front = self._fronts.get(seat.service)
        if front is None:
            sock.close()
            return
        front.take_seat(
            WorkerConnection(front, sock, seat.worker, seat.group, seat.generation, seat.capacity, seat.grace)
        )

    def _figures(self, number: int, service: str) -> Told:
        front = self._fronts.get(service)
        if front is None:
            return Told(number)
        uptime = self._clock() - self._born
        cpu, now = time.process_time(), self._clock()
        return Told(number, figures(front.dispatch, len(front.clients), front.drops, uptime, cpu, now))

    def _report_overdue(self, worker: int, holds_others: bool) -> None:
        self._pipe.send(Overdue(worker, holds_others))

    def _report_held_up(self, front: Front) -> None:
        for ticket in front.dispatch.workers.held_up(front.now):
            assert ticket.seat is not None
            seconds, requests = round(front.now - ticket.given, 1), len(ticket.seat.held)
            self._pipe.send(HeldUp(ticket.seat.worker, ticket.cmd, seconds, requests))

    def _report_unseated(self, worker: int) -> None:
        self._pipe.send(Unseated(worker))


def main(argv: list[str] | None = None) -> None:
    """Be a proxy."""
    parser = argparse.ArgumentParser(prog="rota.services.proxy")
    for name in ("--control", "--lifeline", "--number"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--node", required=True)
    options = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the agent says when to end
    setproctitle.setproctitle(f"rota: proxy {options.number} of {options.node}")
    kernel.raise_descriptor_limit()
    kernel.die_with(options.lifeline)
    collector.look_rarely(collector.BUSY)
    Proxy(Pipe(socket.socket(fileno=options.control))).run()


if __name__ == "__main__":
    main()
