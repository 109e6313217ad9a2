"""Metrics as data: what one is called, what it is, and how its samples are written down."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class MetricFamily(msgspec.Struct, frozen=True):
    """One metric: its name, what it is, its labels and what it means."""

    name: str
    type: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    doc: str


def metric(declared: MetricFamily, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A gauge or a counter with its samples."""
    family = CounterMetricFamily if declared.type == "counter" else GaugeMetricFamily
    made: GaugeMetricFamily | CounterMetricFamily = family(declared.name, declared.doc, labels=declared.labels)
    for labels, value in samples:
        made.add_metric(labels, value)
    return made
