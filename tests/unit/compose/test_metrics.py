import re

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rota import __version__
from rota.compose.metrics import METRICS, NodeFigures, registry
from rota.kit.record import replace
from rota.model.node import NodeLoad
from tests.kit.relay_records import RELAY
from tests.kit.services import MemoryServices

FIGURES = NodeFigures(
    workers={("echo", "ready"): 3, ("echo", "starting"): 1},
    exits={("echo", "crashed"): 2},
    reloads={"done": 4, "failed": 1},
    events_dropped={"the buffer was full": 7},
    leads=True,
    lease_safe_s=6.5,
    load=NodeLoad(score=41.5, cpu=0.5, memory=0.25, executors=8, executors_used=2),
    peers={"online": 2, "suspect": 1, "offline": 0},
    hooks={"delivered": 3},
)


def scrape(figures: NodeFigures) -> str:
    return generate_latest(registry(lambda: figures)).decode()


def test_figures_are_written_as_samples() -> None:
    text = scrape(FIGURES)
    for line in [
        'rota_workers{pool="echo",state="ready"} 3.0',
        'rota_workers{pool="echo",state="starting"} 1.0',
        'rota_worker_exits_total{pool="echo",reason="crashed"} 2.0',
        'rota_reloads_total{outcome="done"} 4.0',
        'rota_events_dropped_total{reason="the buffer was full"} 7.0',
        "rota_leader 1.0",
        "rota_lease_safe_seconds 6.5",
        "rota_load_score 41.5",
        'rota_load_share{part="cpu"} 0.5',
        'rota_executors{state="free"} 6.0',
        'rota_peers{standing="suspect"} 1.0',
        'rota_hook_deliveries_total{outcome="delivered"} 3.0',
        f'rota_build_info{{version="{__version__}"}} 1.0',
    ]:
        assert line in text.splitlines()


async def test_the_figures_of_services_are_samples_too() -> None:
    services = MemoryServices({"logic": {1: 8, 2: 2}})
    services.work("logic", 1, 4, ms=20)
    services.work("logic", 1, 2, ms=200)
    services.work("logic", 1, 1, ms=9000)
    services.enqueue("logic", 2, 5)
    services.failures["worker lost"] = 3
    stat = replace(await services.stat("logic"), drops={"late answer": 2}, busy_workers={"1": 7, "2": 0})
    text = scrape(NodeFigures(services={"logic": stat, "chat": None}))
    for line in [
        'rota_service_up{service="logic"} 1.0',
        'rota_service_up{service="chat"} 0.0',
        'rota_service_listening{service="logic"} 1.0',
        'rota_service_clients{service="logic"} 1.0',
        'rota_service_workers_wanted{group="1",service="logic"} 8.0',
        'rota_service_workers{group="1",service="logic",state="busy"} 7.0',
        'rota_service_workers{group="2",service="logic",state="idle"} 2.0',
        'rota_service_pending{group="2",service="logic"} 5.0',
        'rota_service_in_flight{group="1",service="logic"} 0.0',
        'rota_service_received_total{service="logic"} 12.0',
        'rota_service_sent_total{service="logic"} 7.0',
        'rota_service_requests_total{group="1",service="logic"} 7.0',
        'rota_service_answers_total{group="1",service="logic"} 7.0',
        'rota_service_discarded_total{group="2",service="logic"} 0.0',
        'rota_service_failures_total{reason="worker lost",service="logic"} 3.0',
        'rota_service_drops_total{reason="late answer",service="logic"} 2.0',
        'rota_service_duration_seconds_bucket{le="0.05",service="logic"} 4.0',
        'rota_service_duration_seconds_bucket{le="0.5",service="logic"} 6.0',
        'rota_service_duration_seconds_bucket{le="+Inf",service="logic"} 7.0',
        'rota_service_proxies{service="logic"} 1.0',
        'rota_service_cpu_seconds_total{service="logic"} 0.25',
    ]:
        assert line in sorted_labels(text)
    quantiles = re.findall(
        r'^rota_service_latency_seconds{.*group="(.)".*quantile="(.+?)".*} (.+)$', text, re.MULTILINE
    )
    assert [(group, quantile) for group, quantile, _ in quantiles] == [("1", "0.5"), ("1", "0.9"), ("1", "0.99")]
    assert 0.02 <= float(quantiles[0][2]) <= 0.0213
    assert float(quantiles[2][2]) >= 9


def test_the_figures_of_the_relay_are_samples_too() -> None:
    text = scrape(NodeFigures(relay=RELAY))
    for line in [
        "rota_relay_up{} 1.0",
        "rota_relay_map_version{} 4.0",
        "rota_relay_moving{} 0.0",
        "rota_relay_lines{} 3.0",
        "rota_relay_window{} 40.0",
        "rota_relay_passed_on_total{} 5.0",
        "rota_relay_waiting{} 6.0",
        'rota_relay_refused_total{reason="an earlier epoch"} 2.0',
        'rota_sink_up{sink="amqp://box"} 0.0',
        'rota_sink_published_total{sink="amqp://box"} 30.0',
        'rota_sink_confirmed_total{sink="amqp://box"} 20.0',
        'rota_sink_rejected_total{reason="no queue",sink="amqp://box"} 1.0',
        'rota_sink_waiting{sink="amqp://box"} 2.0',
        'rota_sink_under_way{sink="amqp://box"} 3.0',
        'rota_spool_messages{sink="amqp://box"} 7.0',
        'rota_spool_bytes{sink="amqp://box"} 700.0',
        'rota_spool_limit_bytes{sink="amqp://box"} 1000000.0',
    ]:
        assert line in sorted_labels(text)
    assert "rota_relay_up 0.0" in scrape(NodeFigures()).splitlines()
    assert "rota_sink_up{" not in scrape(NodeFigures())


def sorted_labels(text: str) -> list[str]:
    """The samples, each with its labels in the order of their names."""
    return [
        f"{sample.name}{{{labels}}} {sample.value}"
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for labels in [",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))]
    ]


def test_a_lease_that_is_over_leaves_no_time() -> None:
    assert "rota_lease_safe_seconds 0.0" in scrape(NodeFigures(lease_safe_s=-3.0)).splitlines()


def test_the_process_is_measured_too() -> None:
    text = scrape(NodeFigures())
    assert "process_resident_memory_bytes" in text
    assert "process_open_fds" in text


def test_two_nodes_in_one_process_do_not_meet() -> None:
    one, two = registry(lambda: NodeFigures(leads=True)), registry(NodeFigures)
    assert b"rota_leader 1.0" in generate_latest(one)
    assert b"rota_leader 0.0" in generate_latest(two)


def test_nothing_is_asked_before_a_scrape() -> None:
    asked: list[int] = []

    def ask() -> NodeFigures:
        asked.append(1)
        return NodeFigures()

    made = registry(ask)
    assert asked == []
    generate_latest(made)
    assert asked == [1]


def test_every_declared_metric_is_scraped_and_no_other() -> None:
    found = set(re.findall(r"^# TYPE (rota_\w+)", scrape(FIGURES), re.MULTILINE))
    assert found == {metric.name for metric in METRICS}
