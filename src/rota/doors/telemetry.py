"""Telemetry: the node's metrics, sent to an OpenTelemetry collector (OTLP over HTTP).

It is configured by the standard OpenTelemetry variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`; without an endpoint
nothing is sent and nothing is imported. The figures are those of `/metrics`, under the same names, read at each
interval and translated here; nothing is counted twice. Only metrics are sent, no traces and no logs.

`wanted` and `translated` decide, on data; `send_metrics` does it, in a thread, since the exporter blocks. While a
collector is away its figures are lost, and nothing else is affected. Needs the extra `otel`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from rota import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric as Told

log = logging.getLogger(__name__)

USUAL = timedelta(minutes=1)
"""How often metrics are sent, unless OTEL_METRIC_EXPORT_INTERVAL says otherwise."""

ENDPOINTS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


class Telemetry(msgspec.Struct, frozen=True):
    """What is to be sent."""

    every: timedelta = USUAL


def wanted(environ: Mapping[str, str]) -> Telemetry | None:
    """The settings in the standard variables; None if there is no endpoint."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_METRICS_EXPORTER") == "none"
    if is_off or not any(environ.get(name) for name in ENDPOINTS):
        return None
    every = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return Telemetry(timedelta(milliseconds=int(every)) if every.isdigit() and int(every) else USUAL)


async def send_metrics(
    telemetry: Telemetry, registry: CollectorRegistry, node: str, refresh: Callable[[], Awaitable[None]]
) -> None:
    """Send the registry's metrics periodically; `refresh` is awaited before each reading."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        why = f"it needs {error.name}, which is not installed; pip install 'rota[otel]'"
        log.warning("no telemetry", extra={"why": why})
        return
    exporter, began = OTLPMetricExporter(), time.time_ns()
    log.info("telemetry", extra={"every_s": telemetry.every.total_seconds()})
    try:
        while True:
            await asyncio.sleep(telemetry.every.total_seconds())
            await refresh()
            message = _message(translated(registry.collect(), began, time.time_ns()), node)
            await asyncio.to_thread(exporter.export, message)
    finally:
        exporter.shutdown()


def translated(families: Iterable[Metric], began: int, now: int) -> "list[Told]":
    """The Prometheus metrics in OpenTelemetry's form; times are nanoseconds since 1970."""
    return [told for family in families if (told := _translated(family, began, now)) is not None]


def _translated(family: Metric, began: int, now: int) -> "Told | None":
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415  # an extra
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        NumberDataPoint,
        Sum,
    )
    from opentelemetry.sdk.metrics.export import Metric as Told  # noqa: PLC0415

    since_start = AggregationTemporality.CUMULATIVE
    data: Gauge | Sum | Histogram
    if family.type == "histogram":
        data = Histogram([HistogramDataPoint(**each) for each in _histograms(family, began, now)], since_start)
    else:
        suffix = "_total" if family.type == "counter" else ""
        points = [
            NumberDataPoint(sample.labels, began, now, sample.value)
            for sample in family.samples
            if sample.name == f"{family.name}{suffix}"
        ]
        data = Sum(points, since_start, is_monotonic=True) if suffix else Gauge(points)
    return Told(family.name, family.documentation, "", data) if data.data_points else None


def _histograms(family: Metric, began: int, now: int) -> Iterator[dict[str, Any]]:
    """The points of a histogram: one for each set of labels. Prometheus's buckets are cumulative, OpenTelemetry's are
    not."""
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name == f"{family.name}_bucket":
            buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name == f"{family.name}_sum":
            sums[labels] = sample.value
    for labels, found in buckets.items():
        found.sort()
        counted = [0.0, *(count for _, count in found)]
        yield {
            "attributes": dict(labels),
            "start_time_unix_nano": began,
            "time_unix_nano": now,
            "count": int(counted[-1]),
            "sum": sums.get(labels, 0.0),
            "bucket_counts": [int(after - before) for before, after in pairwise(counted)],
            "explicit_bounds": [bound for bound, _ in found[:-1]],
            "min": None,  # Prometheus has no such figures
            "max": None,
        }


def _message(metrics: "list[Told]", node: str) -> Any:
    """The message of one interval."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes first.
    usual = Resource({"service.name": "rota", "service.instance.id": node, "service.version": __version__})
    scope = ScopeMetrics(InstrumentationScope("rota", __version__), metrics, "")
    return MetricsData([ResourceMetrics(usual.merge(_configured()), [scope], "")])


def _configured() -> Any:
    from opentelemetry.sdk.resources import OTELResourceDetector  # noqa: PLC0415

    return OTELResourceDetector().detect()
