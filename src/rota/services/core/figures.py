"""The figures of a service: as one proxy counts them, and as they add up. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from rota.kit.histogram import Histogram
from rota.services.core.dispatch.answers import REASONS
from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.workers import SHOWN
from rota.services.core.records import Latency, ServiceStat, SlowRequest
from rota.services.core.routing import ROUTER
from rota.services.core.table import BENCHMARK


class ProxyFigures(msgspec.Struct, frozen=True):
    """What one proxy counted of one service since it started. Maps are by group."""

    clients: int
    requests: int
    answers: int
    silent: int
    busy: dict[int, int]
    idle: dict[int, int]
    pending: dict[int, int]
    in_flight: dict[int, int]
    given: dict[int, int]
    done: dict[int, int]
    discarded: dict[int, int]
    times: list[int]
    failures: dict[str, int]
    drops: dict[str, int]
    latencies: list[tuple[int, int, dict[int, int]]]
    """Group, cmd, and the counts of its histogram."""

    uptime: float = 0.0
    cpu: float = 0.0
    """Seconds, of the whole process."""

    slow: list[tuple[int, int, int, float, int, bool]] = []
    """Worker, group, cmd and age of requests, the worker's generation, and whether it should have ended."""


def figures(
    dispatch: Dispatch, clients: int, drops: Mapping[str, int], uptime: float, cpu: float, now: float = 0.0
) -> ProxyFigures:
    """The current figures; `drops` are those of the sockets."""
    groups = {number: group for number, group in dispatch.groups.items() if number != ROUTER}
    free = {number: sum(not seat.held for seat in group.seats.values()) for number, group in groups.items()}
    return ProxyFigures(
        clients=clients,
        requests=dispatch.requests,
        answers=dispatch.answers.sent,
        silent=dispatch.answers.silent,
        busy={number: len(group.seats) - free[number] for number, group in groups.items()},
        idle=free,
        pending={number: group.queue.pending for number, group in groups.items()},
        in_flight={number: group.in_flight for number, group in groups.items()},
        given={number: group.given for number, group in groups.items()},
        done={number: group.done for number, group in groups.items()},
        discarded={number: group.queue.discarded for number, group in groups.items()},
        times=list(dispatch.answers.times),
        failures={REASONS[ret]: count for ret, count in dispatch.answers.failures.items()},
        drops=dict(Counter(dispatch.answers.drops) + Counter(drops)),
        latencies=[(group, cmd, histogram.counts) for (group, cmd), histogram in dispatch.answers.latencies.items()],
        uptime=uptime,
        cpu=cpu,
        slow=[
            (each.seat.worker, each.group, each.cmd, now - each.given, each.seat.generation, each.seat.is_leaving)
            for each in dispatch.workers.slow(now)
            if each.seat is not None
        ],
    )


def stat(
    service: str,
    parts: Iterable[ProxyFigures],
    workers: Mapping[int, int],
    *,
    generation: int,
    listening: tuple[str, ...],
    not_listening: str | None,
    pids: Mapping[int, int] | None = None,
) -> ServiceStat:
    """All that the proxies of a service counted, added up."""
    proxies = list(parts)
    by_group, by_cmd = _latencies(proxies)
    times = [sum(each) for each in zip(*(proxy.times for proxy in proxies), strict=True)]
    return ServiceStat(
        service=service,
        clients=sum(proxy.clients for proxy in proxies),
        workers=_keyed(workers),
        busy_workers=_sum(workers, (proxy.busy for proxy in proxies)),
        idle_workers=_sum(workers, (proxy.idle for proxy in proxies)),
        pending_tasks=_sum(workers, (proxy.pending for proxy in proxies)),
        client_req=sum(proxy.requests for proxy in proxies),
        client_rsp=sum(proxy.answers for proxy in proxies),
        silent=sum(proxy.silent for proxy in proxies),
        worker_req=_sum(workers, (proxy.given for proxy in proxies)),
        worker_rsp=_sum(workers, (proxy.done for proxy in proxies)),
        discard_tasks=_sum(workers, (proxy.discarded for proxy in proxies)),
        tasks_time=dict(zip([*map(str, BENCHMARK), "more"], times or [0] * (len(BENCHMARK) + 1), strict=True)),
        in_flight=_sum(workers, (proxy.in_flight for proxy in proxies)),
        failures=_total(proxy.failures for proxy in proxies),
        drops=_total(proxy.drops for proxy in proxies),
        groups={str(group): _latency(found) for group, found in sorted(by_group.items())},
        cmds={str(cmd): _latency(found) for cmd, found in sorted(by_cmd.items())},
        generation=generation,
        listening=listening,
        not_listening=not_listening,
        proxies=len(proxies),
        uptime_s=round(min((proxy.uptime for proxy in proxies), default=0.0), 1),
        cpu_s=round(sum(proxy.cpu for proxy in proxies), 3),
        slow=_slow(proxies, pids or {}),
    )


def _slow(proxies: Iterable[ProxyFigures], pids: Mapping[int, int]) -> tuple[SlowRequest, ...]:
    found = [
        SlowRequest(
            pid=pids.get(worker, 0),
            group=group,
            cmd=cmd,
            age_s=round(age, 1),
            generation=generation,
            is_draining=is_leaving,
        )
        for proxy in proxies
        for worker, group, cmd, age, generation, is_leaving in proxy.slow
    ]
    return tuple(sorted(found, key=lambda each: -each.age_s)[:SHOWN])


def _latencies(proxies: Iterable[ProxyFigures]) -> tuple[dict[int, Histogram], dict[int, Histogram]]:
    by_group: dict[int, Histogram] = {}
    by_cmd: dict[int, Histogram] = {}
    for proxy in proxies:
        for group, cmd, counts in proxy.latencies:
            by_group.setdefault(group, Histogram()).merge(counts)
            by_cmd.setdefault(cmd, Histogram()).merge(counts)
    return by_group, by_cmd


def _latency(found: Histogram) -> Latency:
    p50, p90, p99 = (found.percentile(percent) / 1000 for percent in (50, 90, 99))
    return Latency(count=found.total(), p50_ms=p50, p90_ms=p90, p99_ms=p99)


def _sum(groups: Iterable[int], parts: Iterable[Mapping[int, int]]) -> dict[str, int]:
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    return _keyed({group: total[group] for group in sorted({*groups, *total})})


def _total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items()))


def _keyed(by_group: Mapping[int, int]) -> dict[str, int]:
    return {str(group): count for group, count in by_group.items()}
