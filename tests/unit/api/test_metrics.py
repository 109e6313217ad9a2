import re

from prometheus_client import generate_latest

from rota import __version__
from rota.api.metrics import METRICS, Declared, Figures, registry
from tests.kit.process import ROOT

FIGURES = Figures(
    workers={("echo", "ready"): 3, ("echo", "starting"): 1},
    exits={("echo", "crashed"): 2},
    reloads={"done": 4, "failed": 1},
    events_dropped={"the buffer was full": 7},
    leads=True,
    lease_safe_s=6.5,
)


def scrape(figures: Figures) -> str:
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
        f'rota_build_info{{version="{__version__}"}} 1.0',
    ]:
        assert line in text.splitlines()


def test_a_lease_that_is_over_leaves_no_time() -> None:
    assert "rota_lease_safe_seconds 0.0" in scrape(Figures(lease_safe_s=-3.0)).splitlines()


def test_the_process_is_measured_too() -> None:
    text = scrape(Figures())
    assert "process_resident_memory_bytes" in text
    assert "process_open_fds" in text


def test_two_nodes_in_one_process_do_not_meet() -> None:
    one, two = registry(lambda: Figures(leads=True)), registry(Figures)
    assert b"rota_leader 1.0" in generate_latest(one)
    assert b"rota_leader 0.0" in generate_latest(two)


def test_nothing_is_asked_before_a_scrape() -> None:
    asked: list[int] = []

    def ask() -> Figures:
        asked.append(1)
        return Figures()

    made = registry(ask)
    assert asked == []
    generate_latest(made)
    assert asked == [1]


def test_every_declared_metric_is_scraped_and_no_other() -> None:
    found = set(re.findall(r"^# TYPE (rota_\w+)", scrape(FIGURES), re.MULTILINE))
    assert found == {metric.name for metric in METRICS}


def test_the_reference_has_exactly_these_metrics() -> None:
    rows = [line for line in (ROOT / "docs/reference/metrics.md").read_text().splitlines() if line.startswith("| `")]
    assert rows == [
        " ".join(
            f"| {cell}" if cell else "|" for cell in [f"`{metric.name}`", metric.type, labels(metric), metric.doc, ""]
        )
        for metric in METRICS
    ]


def labels(metric: Declared) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)
