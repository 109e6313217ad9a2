"""The metrics of a node's relay: what it says of itself, in the words of Prometheus. Nothing is counted here.

Counters count since the relay's process began.
"""

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from rota.doors.families import MetricFamily, metric
from rota.relay.core.records import RelayStatus, SinkStatus

SINK = ("sink",)

UP = MetricFamily("rota_relay_up", "gauge", (), "1 if this node's relay runs, 0 if it has none or it does not answer.")
MAP = MetricFamily("rota_relay_map_version", "gauge", (), "Version of the relay map that the relay uses; 0 for none.")
MOVING = MetricFamily(
    "rota_relay_moving", "gauge", (), "1 while a planned move of resources is not finished on this node."
)
LINES = MetricFamily("rota_relay_lines", "gauge", (), "Workers and other relays that send messages to it.")
WINDOW = MetricFamily("rota_relay_window", "gauge", (), "Messages that are remembered, or being sent.")
PASSED_ON = MetricFamily("rota_relay_passed_on_total", "counter", (), "Messages that other relays have accepted.")
RELAY_WAITING = MetricFamily(
    "rota_relay_waiting", "gauge", (), "Messages that wait for another relay, or for the end of a planned move."
)
REFUSED = MetricFamily("rota_relay_refused_total", "counter", ("reason",), "Messages that were refused, by reason.")
SINK_UP = MetricFamily("rota_sink_up", "gauge", SINK, "1 if the sink can be published to, 0 if it is down.")
PUBLISHED = MetricFamily("rota_sink_published_total", "counter", SINK, "Messages handed to the sink.")
CONFIRMED = MetricFamily("rota_sink_confirmed_total", "counter", SINK, "Messages that the sink has confirmed.")
REJECTED = MetricFamily(
    "rota_sink_rejected_total", "counter", ("sink", "reason"), "Messages that can never be delivered, by reason."
)
WAITING = MetricFamily("rota_sink_waiting", "gauge", SINK, "Messages in memory that neither sink nor spool has.")
UNDER_WAY = MetricFamily(
    "rota_sink_under_way", "gauge", SINK, "Messages that the sink has neither confirmed nor rejected yet."
)
SPOOLED = MetricFamily("rota_spool_messages", "gauge", SINK, "Messages on disk that wait for their sink.")
SPOOL = MetricFamily("rota_spool_bytes", "gauge", SINK, "Bytes of the spool.")
LIMIT = MetricFamily("rota_spool_limit_bytes", "gauge", SINK, "Bytes that the spool may have.")

RELAY_METRICS: tuple[MetricFamily, ...] = (
    UP, MAP, MOVING, LINES, WINDOW, PASSED_ON, RELAY_WAITING, REFUSED, SINK_UP, PUBLISHED, CONFIRMED, REJECTED,
    WAITING, UNDER_WAY, SPOOLED, SPOOL, LIMIT,
)  # fmt: skip


def relay_metrics(relay: RelayStatus | None) -> Iterable[Metric]:
    """The metrics of a relay; None is one that is not there."""
    relays = [] if relay is None else [relay]
    sinks = [sink for each in relays for sink in each.sinks]

    def gauge(declared: MetricFamily, figure: Callable[[RelayStatus], float]) -> Metric:
        return metric(declared, (([], figure(each)) for each in relays))

    def by_sink(declared: MetricFamily, figure: Callable[[SinkStatus], float]) -> Metric:
        return metric(declared, (([sink.sink], figure(sink)) for sink in sinks))

    yield metric(UP, [([], len(relays))])
    yield gauge(MAP, lambda each: each.map_version)
    yield gauge(MOVING, lambda each: int(each.is_moving))
    yield gauge(LINES, lambda each: each.lines)
    yield gauge(WINDOW, lambda each: each.window)
    yield gauge(PASSED_ON, lambda each: each.passed_on)
    yield gauge(RELAY_WAITING, lambda each: each.waiting)
    yield metric(REFUSED, (([why], count) for each in relays for why, count in each.refused.items()))
    yield by_sink(SINK_UP, lambda sink: int(not sink.is_down))
    yield by_sink(PUBLISHED, lambda sink: sink.published)
    yield by_sink(CONFIRMED, lambda sink: sink.confirmed)
    yield metric(REJECTED, (([sink.sink, why], count) for sink in sinks for why, count in sink.rejected.items()))
    yield by_sink(WAITING, lambda sink: sink.waiting)
    yield by_sink(UNDER_WAY, lambda sink: sink.under_way)
    yield by_sink(SPOOLED, lambda sink: sink.spool_messages)
    yield by_sink(SPOOL, lambda sink: sink.spool_bytes)
    yield by_sink(LIMIT, lambda sink: sink.spool_limit)
