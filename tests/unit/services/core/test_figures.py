"""The figures of a service: as one proxy counts them, and as those of several add up."""

import msgspec

from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.requests import Caller
from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.figures import ProxyFigures, figures, stat
from rota.services.core.frames import BOX, wire
from rota.services.core.parcels import ANSWERED, DONE
from rota.services.core.routing import ROUTER, ByWorker
from rota.services.core.table import CmdRoute, Table

FRAME = wire(BOX).frame(cmd=1)


def busy_proxy():
    """A proxy with one request done in 20 ms, one in work, one waiting, one refused, and an idle worker elsewhere."""
    dispatch = Dispatch(Table("logic", {1: 1, 2: 1}, {1: CmdRoute(1), 2: CmdRoute(2)}))
    seat = WorkerSeat(1, 1, 1)
    dispatch.seat_joined(seat, 0.0)
    dispatch.seat_joined(WorkerSeat(2, 2, 1), 0.0)
    client = Caller(b"")
    for _ in range(3):
        dispatch.arrive(client, 1, FRAME, 0.0)
    dispatch.arrive(client, 9, FRAME, 0.0)
    dispatch.returned(seat, 1, DONE | ANSWERED, b"answer", 0.02)
    return dispatch


def told(dispatch, clients=1, drops=None):
    return figures(dispatch, clients, drops or {}, uptime=5.0, cpu=0.5)


def total(*parts, workers=None):
    return stat("logic", parts, workers or {1: 1, 2: 1}, generation=3, listening=(), not_listening=None)


def test_a_proxy_counts_by_group():
    found = told(busy_proxy(), drops={"no frame": 2})
    assert (found.requests, found.answers, found.silent) == (4, 2, 0)
    assert (found.busy, found.idle) == ({1: 1, 2: 0}, {1: 0, 2: 1})
    assert (found.pending, found.in_flight) == ({1: 1, 2: 0}, {1: 1, 2: 0})
    assert (found.given, found.done, found.discarded) == ({1: 2, 2: 0}, {1: 1, 2: 0}, {1: 0, 2: 0})
    assert found.times == [0, 1, 0, 0, 0, 0, 0]
    assert found.failures == {"unknown cmd": 1}
    assert found.drops == {"no frame": 2}


def test_figures_survive_the_way_to_the_agent():
    found = told(busy_proxy())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=ProxyFigures) == found


def test_those_who_route_are_no_group():
    dispatch = Dispatch(Table("logic", {1: 1, ROUTER: 1}, {1: CmdRoute(1)}, ByWorker()))
    dispatch.seat_joined(WorkerSeat(1, ROUTER, 1), 0.0)
    assert told(dispatch).idle == {1: 0}


def test_proxies_add_up():
    one, two = told(busy_proxy(), clients=2), told(busy_proxy(), clients=3)
    found = total(one, two)
    assert (found.clients, found.client_req, found.client_rsp, found.proxies) == (5, 8, 4, 2)
    assert (found.busy_workers, found.idle_workers) == ({"1": 2, "2": 0}, {"1": 0, "2": 2})
    assert found.worker_req == {"1": 4, "2": 0}
    assert found.tasks_time == {"10": 0, "50": 2, "100": 0, "500": 0, "1000": 0, "5000": 0, "more": 0}
    assert found.failures == {"unknown cmd": 2}
    assert (found.uptime_s, found.cpu_s, found.generation) == (5.0, 1.0, 3)
    latency = found.cmds["1"]
    assert latency.count == found.groups["1"].count == 2
    assert 20.0 <= latency.p50_ms == latency.p99_ms <= 20.0 * 17 / 16


def test_a_declared_group_that_no_proxy_has_yet_counts_nothing():
    assert total(told(busy_proxy()), workers={1: 1, 2: 1, 3: 4}).pending_tasks == {"1": 1, "2": 0, "3": 0}


def test_without_a_proxy_everything_is_nought():
    found = total()
    assert (found.client_req, found.pending_tasks, found.tasks_time["more"]) == (0, {"1": 0, "2": 0}, 0)
