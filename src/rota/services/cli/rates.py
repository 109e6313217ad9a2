"""What a service did per second between two samples. Pure."""

from collections.abc import Mapping

from rota.kit.record import replace
from rota.services.core.records import Latency, ServiceStat


def per_second(before: ServiceStat, after: ServiceStat, seconds: float) -> ServiceStat:
    """Counters per second, from one sample to the next; gauges (clients, workers, queues, percentiles) as they are now.

    The counters of a proxy that was restarted begin at zero, so all they show counts as new.
    """
    is_anew = after.uptime_s < before.uptime_s

    def rate(old: float, new: float) -> float:
        return (new if is_anew else max(0.0, new - old)) / seconds

    def rates(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
        return {name: round(rate(old.get(name, 0), count)) for name, count in new.items()}

    def latencies(old: Mapping[str, Latency], new: Mapping[str, Latency]) -> dict[str, Latency]:
        counts = rates(_counts(old), _counts(new))
        return {name: replace(each, count=counts[name]) for name, each in new.items()}

    return replace(
        after,
        client_req=round(rate(before.client_req, after.client_req)),
        client_rsp=round(rate(before.client_rsp, after.client_rsp)),
        silent=round(rate(before.silent, after.silent)),
        worker_req=rates(before.worker_req, after.worker_req),
        worker_rsp=rates(before.worker_rsp, after.worker_rsp),
        discard_tasks=rates(before.discard_tasks, after.discard_tasks),
        tasks_time=rates(before.tasks_time, after.tasks_time),
        failures=rates(before.failures, after.failures),
        drops=rates(before.drops, after.drops),
        groups=latencies(before.groups, after.groups),
        cmds=latencies(before.cmds, after.cmds),
        cpu_s=rate(before.cpu_s, after.cpu_s),
    )


def _counts(latencies: Mapping[str, Latency]) -> dict[str, int]:
    return {name: latency.count for name, latency in latencies.items()}
