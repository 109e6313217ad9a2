"""A service's sockets around its dispatch: what clients may cost, and who gives way."""

import socket

import pytest

from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.frames import BOX, wire
from rota.services.core.parcels import ANSWERED, DONE
from rota.services.core.table import CmdRoute, Table
from rota.services.proxy import front as fronts
from rota.services.proxy.clients import TcpClient
from rota.services.proxy.front import SILENT, Front
from rota.services.proxy.loop import READ, Loop

FRAME = wire(BOX).frame(cmd=1, sn=1)


class Bench:
    """A front with clients over socket pairs."""

    def __init__(self, **changes):
        self.front = Front(Loop(), Table(service="logic", groups={1: 1}, routes={1: CmdRoute(1)}, **changes), print)
        self.sockets: list[socket.socket] = []

    def client(self):
        """A client, and its own end of the connection."""
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        ours.setblocking(False)
        client = TcpClient(self.front, ours, ("127.0.0.1", 1))
        self.front.welcome(client)
        return client, theirs

    def answer(self, answer):
        """The worker answers all that it holds."""
        for number in list(self.seat.held):
            self.front.dispatch.returned(self.seat, number, DONE | ANSWERED, answer, self.front.now)
        self.front.dispatch.workers.touched.clear()
        self.front.send()


@pytest.fixture
def bench():
    made = []

    def make(**changes):
        made.append(Bench(**changes))
        return made[-1]

    yield make
    for each in made:
        each.front.close()
        for sock in each.sockets:
            sock.close()


class Quiet(WorkerSeat):
    """A worker whose line nobody reads."""

    def flush(self):
        self.outbox.clear()


def seated(bench, **changes):
    it = bench(**changes)
    it.seat = Quiet(1, 1, 1, capacity=100)
    it.front.dispatch.seat_joined(it.seat, 0.0)
    return it


def test_the_longest_silent_client_gives_way_when_all_places_are_taken(bench):
    it = seated(bench)
    (first, its_end), (second, _) = it.client(), it.client()
    its_end.sendall(FRAME)
    it.front.now = SILENT
    first.ready(READ)
    assert it.front.make_room_for_client()
    assert (first.is_open, second.is_open) == (True, False), "the first has just asked"
    assert not it.front.make_room_for_client(), "nobody else has been silent for long"
    assert it.front.drops == {"silent, and made room for another": 1}


def test_a_silent_client_that_waits_for_an_answer_keeps_its_place(bench):
    it = seated(bench)
    client, end = it.client()
    end.sendall(FRAME)
    client.ready(READ)
    it.front.now = 10 * SILENT
    assert not it.front.make_room_for_client()
    it.answer(FRAME)
    assert it.front.make_room_for_client()


def test_a_client_that_still_reads_a_large_answer_keeps_its_place(bench):
    it = seated(bench)
    client, end = it.client()
    end.sendall(FRAME)
    client.ready(READ)
    it.answer(FRAME + bytes(5_000_000))
    it.front.now = 10 * SILENT
    assert client.unread
    assert not it.front.make_room_for_client()


def test_a_client_that_closes_its_sending_side_is_answered_before_the_connection_ends(bench):
    it = seated(bench)
    client, end = it.client()
    end.sendall(FRAME + FRAME[:5])
    end.shutdown(socket.SHUT_WR)
    client.ready(READ)
    client.ready(READ)
    assert client.is_open
    assert client.is_leaving
    it.answer(FRAME)
    assert not client.is_open
    assert end.recv(1000) == FRAME
    assert end.recv(1000) == b""
    assert it.front.drops == {"part of a frame": 1}
    assert it.front.buffered == 0


def test_a_client_without_open_requests_is_hung_up_on_when_it_closes(bench):
    it = seated(bench)
    client, end = it.client()
    end.close()
    client.ready(READ)
    assert not client.is_open
    assert not it.front.drops


def test_answers_that_all_clients_leave_unread_are_bounded(bench, monkeypatch):
    monkeypatch.setattr(fronts, "UNREAD", 3_000_000)
    it = seated(bench)
    pairs = [it.client() for _ in range(3)]
    for client, end in [*pairs, pairs[1]]:
        end.sendall(FRAME)
        client.ready(READ)
        it.answer(FRAME + bytes(1_000_000))
    assert [client.is_open for client, _ in pairs] == [True, False, True], "the one with most unread goes"
    assert it.front.drops == {"no room for answers that are not read": 1}
    assert it.front.unread == pairs[0][0].unread + pairs[2][0].unread > 0
    for client, _ in pairs:
        it.front.hang_up(client)
    assert it.front.unread == 0


def test_the_datagrams_of_one_sender_leave_room_for_others(bench):
    """Each datagram is a request by itself, but what waits is counted for all of one sender together."""
    some = bench(queue_bytes=10 * len(FRAME))
    door, one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    some.sockets += [door, one, other]
    door.bind(("127.0.0.1", 0))
    some.front.listen([], [door])
    (listening,) = some.front._doors
    where = door.getsockname()
    for _ in range(8):
        one.sendto(FRAME, where)
        listening.ready(READ)
    waits = some.front.dispatch.groups[1]
    assert waits.queue.pending == 5, "half of what may wait"
    other.sendto(FRAME, where)
    listening.ready(READ)
    assert waits.queue.pending == 6
    some.front.dispatch.clear(None)
    assert all(caller.waiting == 0 for caller in some.front.dispatch.answers.touched)
    some.front.send()
    some.front.dispatch.answers.touched.clear()
    one.sendto(FRAME, where)
    listening.ready(READ)
    assert waits.queue.pending == 1, "what it had waiting before counts no more"
