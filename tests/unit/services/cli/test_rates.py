"""Differences per second of a service's figures."""

from rota.kit.record import replace
from rota.services.cli.rates import per_second
from tests.kit.services import MemoryServices


async def test_what_is_counted_is_a_rate_and_what_is_measured_stays() -> None:
    services = MemoryServices({"logic": {1: 2, 2: 1}})
    services.work("logic", 1, 10)
    before = await services.stat("logic")
    services.work("logic", 1, 30, ms=20)
    services.enqueue("logic", 2, 7)
    services.failures["queue full"] = 4
    after = replace(await services.stat("logic"), uptime_s=14.5, cpu_s=1.25)
    rate = per_second(before, after, 2.0)
    assert (rate.client_req, rate.client_rsp) == (18, 15)  # (30 + 7) / 2 and 30 / 2
    assert rate.worker_req == {"1": 15, "2": 0}
    assert rate.tasks_time == {"10": 0, "50": 15}
    assert rate.failures == {"queue full": 2}
    assert rate.cpu_s == 0.5
    assert rate.groups["1"].count == rate.cmds["101"].count == 15
    assert rate.groups["1"].p99_ms == after.groups["1"].p99_ms
    assert (rate.pending_tasks, rate.workers, rate.clients) == ({"1": 0, "2": 7}, {"1": 2, "2": 1}, 1)


async def test_a_proxy_that_began_anew_counts_from_nothing() -> None:
    services = MemoryServices({"logic": {1: 2}})
    services.work("logic", 1, 10)
    before = await services.stat("logic")
    after = replace(before, client_rsp=4, worker_rsp={"1": 4}, uptime_s=0.5)
    assert per_second(before, after, 1.0).client_rsp == 4
    assert per_second(before, after, 1.0).worker_rsp == {"1": 4}
