"""A front: the sockets of one service around its dispatch.

Sockets report to the dispatch what came. At the end of each turn of the loop, `send` sends the outboxes of clients and
workers: several answers to one client, or several requests to one worker, go out in one call.
"""

import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import cast

import msgspec

from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.frames import wire
from rota.services.core.table import Table
from rota.services.proxy.clients import TcpClient, UdpClient
from rota.services.proxy.doors import TcpDoor, UdpDoor
from rota.services.proxy.loop import READ, Loop
from rota.services.proxy.seats import WorkerConnection

BUFFERED = 64 * 1024 * 1024
"""Bytes of incomplete frames that all clients of a service together may have sent."""

UNREAD = 256 * 1024 * 1024
"""Bytes of answers that all clients of a service together may leave unread."""

SILENT = 60.0
"""Seconds of silence after which a client's connection is closed for a new one, once `max_clients` are connected."""


class Front:
    """One service, as one proxy serves it."""

    def __init__(
        self,
        loop: Loop,
        table: Table,
        overdue: Callable[[int, bool], None],
        finished: Callable[[int], None] = lambda worker: None,
    ) -> None:
        self.loop, self.table, self.wire = loop, table, wire(table.layout)
        self.dispatch = Dispatch(table)
        self.now = 0.0
        """When the loop's turn began."""

        self.clients: OrderedDict[TcpClient, float] = OrderedDict()
        """Connections and when each was last heard of, the longest silent first."""

        self.unaware: set[TcpClient] = set()
        """Clients that have sent no request since the service began to stop, and so have not learned of it."""

        self.lines: dict[int, WorkerConnection] = {}
        self.drops: Counter[str] = Counter()
        self.buffered = self.unread = 0
        self.paused: list[TcpDoor] = []
        self._doors: list[TcpDoor | UdpDoor] = []
        self._is_withdrawn = False
        self._overdue, self._finished = overdue, finished

    def serve(self, table: Table) -> None:
        """Serve by this table from now on."""
        if self._is_withdrawn:
            self._is_withdrawn = self.dispatch.is_stopping = False
            self.unaware.clear()
        self.table, self.wire = table, wire(table.layout)
        self.dispatch.configure(table, self.now)

    def withdraw(self) -> None:
        """Serve no longer: take no new clients and no new requests; the workers that are here work off the rest."""
        self._is_withdrawn = True
        self.dispatch.stop()
        self.close_doors()
        self.unaware = self._who_may_ask()
        self.dispatch.configure(msgspec.structs.replace(self.table, groups={}), self.now)

    def listen(self, tcp: list[socket.socket], udp: list[socket.socket]) -> None:
        """Take clients from these sockets, and from no others. Connections stay."""
        self.close_doors()
        self._doors = [*(TcpDoor(self, sock) for sock in tcp), *(UdpDoor(self, sock) for sock in udp)]

    def close_doors(self, *, only_tcp: bool = False) -> None:
        """Take no new clients."""
        for door in [door for door in self._doors if isinstance(door, TcpDoor) or not only_tcp]:
            door.close()
            self._doors.remove(door)

    # Clients

    def welcome(self, client: TcpClient) -> None:
        """A connection was accepted."""
        self.clients[client] = self.now
        self.loop.add(client.fd, client.ready)

    def heard(self, client: TcpClient) -> None:
        """A client sent a request."""
        if self.unaware:
            self.unaware.discard(client)
        self.clients[client] = self.now
        self.clients.move_to_end(client)

    def hang_up(self, client: TcpClient, why: str = "") -> None:
        """Close a connection; `why` if this side decided that."""
        if not client.is_open:
            return
        if why:
            self.drops[why] += 1
        self.loop.remove(client.fd)
        self.clients.pop(client, None)
        self.unaware.discard(client)
        self.dispatch.caller_gone(client)
        client.let_go()
        client.sock.close()

    def make_room(self) -> None:
        """When incomplete frames take too much memory, close the connection with the longest incomplete frame."""
        while self.buffered > BUFFERED:
            most = max(self.clients, key=lambda client: client.begun)
            self.hang_up(most, "no room for frames that are not whole")

    def make_room_for_answers(self) -> None:
        """When unread answers take too much memory, close the connection with most of them."""
        while self.unread > UNREAD:
            most = max(self.clients, key=lambda client: client.unread)
            self.hang_up(most, "no room for answers that are not read")

    def make_room_for_client(self) -> bool:
        """Close the connection that has been silent longest and awaits no answer; False if none has been silent for
        `SILENT`."""
        for client, heard in self.clients.items():
            if self.now - heard < SILENT:
                return False
            if not (client.unanswered or client.unread):
                self.hang_up(client, "silent, and made room for another")
                return True
        return False

    # Workers

    def take_seat(self, line: WorkerConnection) -> None:
        """A worker is being started; its line is here."""
        self.lines[line.worker] = line
        self.loop.add(line.fd, line.ready)

    def dismiss(self, worker: int, patience: float) -> bool:
        """Give a worker nothing more; False if it is not here. One that still has work after `patience` seconds is
        reported."""
        line = self.lines.get(worker)
        if line is None:
            return False
        if not line.is_seated:  # it is asked to end when it reports that it is ready
            line.is_leaving = True
            return True
        return self.dispatch.seat_leaves(worker, self.now, patience)

    def bury(self, worker: int) -> None:
        """The agent saw a worker's end. Its line may still be open, in a process that the worker left behind."""
        if line := self.lines.get(worker):
            line.take_all()
            self.lost(line)

    def lost(self, line: WorkerConnection) -> None:
        """A worker is gone."""
        if self.lines.pop(line.worker, None) is None:
            return
        self.loop.remove(line.fd)
        line.sock.close()
        if line.is_seated:
            self.dispatch.seat_lost(line, self.now)

    # Turns

    def send(self) -> float | None:
        """Send the outboxes at the end of a turn; returns when to call this again."""
        workers, answers = self.dispatch.workers, self.dispatch.answers
        look_again = self.dispatch.expire(self.now)
        if workers.overdue:
            for seat in workers.overdue:
                self._overdue(seat.worker, any(not ticket.is_answered for ticket in seat.held.values()))
            workers.overdue.clear()
        if workers.finished:
            for seat in workers.finished:
                self._finished(seat.worker)
            workers.finished.clear()
        while workers.touched:
            seats, workers.touched = workers.touched, []
            for line in cast("list[WorkerConnection]", seats):
                line.is_touched = False
                line.flush()
        while answers.touched:
            callers, answers.touched = answers.touched, []
            for client in cast("list[TcpClient | UdpClient]", callers):
                client.is_touched = False
                client.flush()
        return look_again

    def tidy(self) -> None:
        """Once a second: close connections that were silent for too long, and reopen doors that had no room."""
        for door in self.paused:
            door.open()
        self.paused.clear()
        limit = self.table.client_timeout
        while limit is not None and self.clients:
            client, heard = next(iter(self.clients.items()))
            if self.now - heard < limit:
                return
            if client.unanswered:  # the proxy is slow, not the client
                self.heard(client)
            else:
                self.hang_up(client, "silent for too long")

    def stop(self) -> None:
        """Take no new connections; answer new requests that we are stopping."""
        self.dispatch.stop()
        self.close_doors(only_tcp=True)
        self.unaware = self._who_may_ask()

    def _who_may_ask(self) -> set[TcpClient]:
        return {client for client in self.clients if not client.is_leaving}

    def say_goodbye(self) -> None:
        """Answer what is here and what has come; from now on, every new request is answered as stopping."""
        if not self.dispatch.is_stopping:
            self.stop()
        for line in list(self.lines.values()):
            line.take_all()
        self.dispatch.give_up()
        for client in list(self.clients):
            client.ready(READ)
        self.send()

    @property
    def is_awaited(self) -> bool:
        """May a client send a request that has not learned of the stop? For clients of UDP that is never known."""
        return bool(self.unaware) or any(isinstance(door, UdpDoor) for door in self._doors)

    def shut(self) -> None:
        """Take no more datagrams, after those that have come; these are answered too."""
        self.close_doors()
        self.send()

    def part(self) -> bool:
        """Close the connections of clients that have taken their answers; False when all are closed."""
        for client in list(self.clients):
            client.part()
        return bool(self.clients)

    def close(self) -> None:
        """Close all connections."""
        self.close_doors()
        for client in list(self.clients):
            self.hang_up(client)
        for line in list(self.lines.values()):
            self.lost(line)
