"""The metrics of services: what their stat says, in the words of Prometheus. Nothing is counted here.

Counters and percentiles are those since the service's proxy began.
"""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily, Metric

from rota.doors.families import MetricFamily, metric
from rota.services.core.records import ServiceStat

GROUP = ("service", "group")

UP = MetricFamily("rota_service_up", "gauge", ("service",), "1 if the service's proxy answers, 0 if it does not.")
LISTENING = MetricFamily("rota_service_listening", "gauge", ("service",), "1 if the service listens, 0 if it cannot.")
CLIENTS = MetricFamily("rota_service_clients", "gauge", ("service",), "Connections of clients; UDP has none.")
WANTED = MetricFamily("rota_service_workers_wanted", "gauge", GROUP, "Workers that a group should have.")
WORKERS = MetricFamily("rota_service_workers", "gauge", (*GROUP, "state"), "Workers that are busy or idle.")
PENDING = MetricFamily("rota_service_pending", "gauge", GROUP, "Requests that wait for a worker.")
IN_FLIGHT = MetricFamily("rota_service_in_flight", "gauge", GROUP, "Requests that workers have.")
RECEIVED = MetricFamily("rota_service_received_total", "counter", ("service",), "Requests received from clients.")
SENT = MetricFamily("rota_service_sent_total", "counter", ("service",), "Answers sent to clients.")
REQUESTS = MetricFamily("rota_service_requests_total", "counter", GROUP, "Requests that were given to workers.")
ANSWERS = MetricFamily("rota_service_answers_total", "counter", GROUP, "Requests that workers have finished.")
DISCARDED = MetricFamily(
    "rota_service_discarded_total", "counter", GROUP, "Requests refused or dropped before they ran."
)
SILENT = MetricFamily(
    "rota_service_silent_total", "counter", ("service",), "Requests whose handler returned no answer."
)
FAILURES = MetricFamily(
    "rota_service_failures_total", "counter", ("service", "reason"), "Requests that no handler answered, by reason."
)
DROPS = MetricFamily(
    "rota_service_drops_total",
    "counter",
    ("service", "reason"),
    "Frames, answers and connections that were dropped, by reason.",
)
LATENCY = MetricFamily(
    "rota_service_latency_seconds", "gauge", (*GROUP, "quantile"), "How long requests took from arrival to end."
)
DURATION = MetricFamily(
    "rota_service_duration_seconds", "histogram", ("service",), "Requests by how long they took; it has no sum."
)
PROXIES = MetricFamily("rota_service_proxies", "gauge", ("service",), "Proxies of the service.")
CPU = MetricFamily("rota_service_cpu_seconds_total", "counter", ("service",), "CPU time of the service's proxies.")

SERVICE_METRICS: tuple[MetricFamily, ...] = (
    UP, LISTENING, CLIENTS, WANTED, WORKERS, PENDING, IN_FLIGHT, RECEIVED, SENT, REQUESTS, ANSWERS, DISCARDED, SILENT,
    FAILURES, DROPS, LATENCY, DURATION, PROXIES, CPU,
)  # fmt: skip


def service_metrics(services: Mapping[str, ServiceStat | None]) -> Iterable[Metric]:
    """The metrics of these services; None is one that does not answer."""
    stats = [stat for stat in services.values() if stat is not None]
    yield metric(UP, (([name], int(stat is not None)) for name, stat in services.items()))
    yield metric(LISTENING, (([stat.service], int(not stat.not_listening)) for stat in stats))
    yield metric(CLIENTS, (([stat.service], stat.clients) for stat in stats))
    yield _by_part(WANTED, ((stat, stat.workers) for stat in stats))
    yield metric(WORKERS, (sample for stat in stats for sample in _workers(stat)))
    yield _by_part(PENDING, ((stat, stat.pending_tasks) for stat in stats))
    yield _by_part(IN_FLIGHT, ((stat, stat.in_flight) for stat in stats))
    yield metric(RECEIVED, (([stat.service], stat.client_req) for stat in stats))
    yield metric(SENT, (([stat.service], stat.client_rsp) for stat in stats))
    yield _by_part(REQUESTS, ((stat, stat.worker_req) for stat in stats))
    yield _by_part(ANSWERS, ((stat, stat.worker_rsp) for stat in stats))
    yield _by_part(DISCARDED, ((stat, stat.discard_tasks) for stat in stats))
    yield metric(SILENT, (([stat.service], stat.silent) for stat in stats))
    yield _by_part(FAILURES, ((stat, stat.failures) for stat in stats))
    yield _by_part(DROPS, ((stat, stat.drops) for stat in stats))
    yield metric(LATENCY, (sample for stat in stats for sample in _quantiles(stat)))
    yield _durations(stats)
    yield metric(PROXIES, (([stat.service], stat.proxies) for stat in stats))
    yield metric(CPU, (([stat.service], stat.cpu_s) for stat in stats))


def _by_part(declared: MetricFamily, counts: Iterable[tuple[ServiceStat, Mapping[str, int]]]) -> Metric:
    """A metric by service and, within it, by group or by reason."""
    return metric(declared, (([stat.service, part], count) for stat, each in counts for part, count in each.items()))


def _workers(stat: ServiceStat) -> Iterable[tuple[Sequence[str], float]]:
    for state, counts in (("busy", stat.busy_workers), ("idle", stat.idle_workers)):
        yield from (([stat.service, group, state], count) for group, count in counts.items())


def _quantiles(stat: ServiceStat) -> Iterable[tuple[Sequence[str], float]]:
    for group, latency in stat.groups.items():
        if not latency.count:
            continue  # without requests there is no percentile; 0 would read as fast
        for quantile, ms in (("0.5", latency.p50_ms), ("0.9", latency.p90_ms), ("0.99", latency.p99_ms)):
            yield [stat.service, group, quantile], ms / 1000


def _durations(stats: Iterable[ServiceStat]) -> Metric:
    """The buckets, each with all requests that took less; the sum of the durations is not counted."""
    family = HistogramMetricFamily(DURATION.name, DURATION.doc, labels=DURATION.labels)
    for stat in stats:
        bounds = sorted(int(bound) for bound in stat.tasks_time if bound != "more")
        counts = [stat.tasks_time[str(bound)] for bound in bounds]
        buckets = [(str(bound / 1000), float(sum(counts[: at + 1]))) for at, bound in enumerate(bounds)]
        buckets.append(("+Inf", float(sum(stat.tasks_time.values()))))
        family.add_metric([stat.service], buckets, sum_value=None)
    return family
