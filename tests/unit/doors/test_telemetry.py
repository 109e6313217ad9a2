"""Metrics for a collector of OpenTelemetry, received as one receives them."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rota.doors.telemetry import Telemetry, send_metrics, wanted


@pytest.mark.parametrize(
    ("environ", "every"),
    [
        pytest.param({}, None, id="nothing is configured"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, 60, id="usual"),
        pytest.param({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, 60, id="metrics alone"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "5000"}, 5, id="often"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "0"}, 60, id="never"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "True"}, None, id="disabled"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, None, id="none"),
    ],
)
def test_the_standard_variables_say_what_is_sent(environ: dict[str, str], every: int | None) -> None:
    found = wanted(environ)
    assert (found and found.every) == (every and timedelta(seconds=every))


@contextmanager
def collector(received: list[ExportMetricsServiceRequest], is_full: threading.Event) -> Iterator[str]:
    """A collector; the address where it listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/metrics"
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()
            is_full.set()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_collector_is_sent_what_prometheus_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    Gauge("rota_leader", "Leads.", registry=registry).set(1)
    Counter("rota_reloads_total", "Reloads.", ["outcome"], registry=registry).labels("done").inc(3)
    latency = Histogram("rota_seconds", "Latency.", ["service"], buckets=(0.1, 1), registry=registry).labels("desk")
    for seconds in (0.05, 0.5, 0.6, 7):
        latency.observe(seconds)
    refreshed: list[int] = []

    async def refresh() -> None:
        refreshed.append(1)

    received: list[ExportMetricsServiceRequest] = []
    is_full = threading.Event()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    with collector(received, is_full) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        sending = asyncio.create_task(
            send_metrics(Telemetry(every=timedelta(milliseconds=10)), registry, "n1", refresh)
        )
        assert await asyncio.to_thread(is_full.wait, 30)
        sending.cancel()
        await asyncio.wait([sending])
    (resource,) = received[0].resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("shop", "n1")
    told: dict[str, Metric] = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert told["rota_leader"].gauge.data_points[0].as_double == 1
    (reloads,) = told["rota_reloads"].sum.data_points
    assert (reloads.as_double, reloads.attributes[0].value.string_value) == (3, "done")
    assert told["rota_reloads"].sum.is_monotonic
    (seconds_told,) = told["rota_seconds"].histogram.data_points
    assert list(seconds_told.bucket_counts) == [1, 2, 1]
    assert list(seconds_told.explicit_bounds) == [0.1, 1]
    assert (seconds_told.count, seconds_told.sum) == (4, 8.15)
    assert refreshed


async def nobody_asks() -> None:
    raise AssertionError("nobody should ask")


async def test_without_the_extra_the_node_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    async with asyncio.timeout(30):
        await send_metrics(Telemetry(), CollectorRegistry(), "n1", nobody_asks)
    assert "pip install 'rota[otel]'" in caplog.records[-1].__dict__["why"]
