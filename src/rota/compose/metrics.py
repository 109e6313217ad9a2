"""Metrics: a node's figures in the words of Prometheus.

Nothing is counted or kept here: each scrape calls `ask`, and its `NodeFigures` are rendered as `METRICS` says.
`registry` makes the registry; there is no global one.

Counters count since the node's process began; those of services since their proxy did, those of the relay since its
process did.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from rota import __version__
from rota.doors.families import MetricFamily, metric
from rota.model.node import NodeLoad
from rota.relay.core.records import RelayStatus
from rota.relay.doors.metrics import RELAY_METRICS, relay_metrics
from rota.services.core.records import ServiceStat
from rota.services.doors.metrics import SERVICE_METRICS, service_metrics

BUILD = MetricFamily("rota_build_info", "gauge", ("version",), "Always 1; the label has the version of Rota.")
WORKERS = MetricFamily("rota_workers", "gauge", ("pool", "state"), "Workers of this node.")
EXITS = MetricFamily("rota_worker_exits_total", "counter", ("pool", "reason"), "Workers that ended.")
RELOADS = MetricFamily("rota_reloads_total", "counter", ("outcome",), "Reloads of the app.")
LEADER = MetricFamily("rota_leader", "gauge", (), "1 on the node that leads, 0 on the others.")
LEASE = MetricFamily(
    "rota_lease_safe_seconds",
    "gauge",
    (),
    "Seconds this node may still act unless its lease is renewed; 0 without a lease.",
)
LEAST = MetricFamily(
    "rota_lease_least_left_seconds",
    "gauge",
    (),
    "Least seconds that were left of this session's lease when it was renewed; 0 without a lease.",
)
LOAD = MetricFamily("rota_load_score", "gauge", (), "How busy this node is: 0 idle, 100 busy.")
SHARES = MetricFamily("rota_load_share", "gauge", ("part",), "The part of the machine's cpu and memory in use, 0 to 1.")
EXECUTORS = MetricFamily("rota_executors", "gauge", ("state",), "Executors of this node, used and free.")
PEERS = MetricFamily(
    "rota_peers", "gauge", ("standing",), "The other nodes of the fleet, by their standing as this node sees it."
)
HOOKS = MetricFamily(
    "rota_hook_deliveries_total", "counter", ("outcome",), "Attempts of this node to deliver an event to a hook."
)
DROPPED = MetricFamily(
    "rota_events_dropped_total", "counter", ("reason",), "Events that were lost because the store did not accept them."
)

METRICS: tuple[MetricFamily, ...] = (
    BUILD,
    WORKERS,
    EXITS,
    RELOADS,
    LEADER,
    LEASE,
    LEAST,
    LOAD,
    SHARES,
    EXECUTORS,
    PEERS,
    HOOKS,
    DROPPED,
    *SERVICE_METRICS,
    *RELAY_METRICS,
)
"""Every metric of Rota's own; those of the process, `process_…`, come from the client library."""


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a node at one moment."""

    workers: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """By pool and state."""

    exits: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """By pool and reason."""

    reloads: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By outcome."""

    events_dropped: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By reason."""

    leads: bool = False
    lease_safe_s: float = 0.0
    lease_least_left_s: float = 0.0
    services: Mapping[str, ServiceStat | None] = msgspec.field(default_factory=dict)
    """By name; None for one that does not answer."""

    load: NodeLoad | None = None
    peers: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By standing."""

    hooks: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Tries by outcome."""
    relay: RelayStatus | None = None
    """None if this node has no relay, or it does not answer."""


def registry(ask: Callable[[], NodeFigures]) -> CollectorRegistry:
    """A registry with the node's figures and those of its process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(_Figures(ask))
    ProcessCollector(registry=made)
    return made


class _Figures(Collector):
    """Asks for the figures when the registry is scraped."""

    def __init__(self, ask: Callable[[], NodeFigures]) -> None:
        self._ask = ask

    def describe(self) -> Iterable[Metric]:
        """Empty: nothing is asked before the first scrape."""
        return ()

    def collect(self) -> Iterable[Metric]:
        seen = self._ask()
        yield metric(BUILD, [([__version__], 1)])
        yield metric(WORKERS, seen.workers.items())
        yield metric(EXITS, seen.exits.items())
        yield metric(RELOADS, (([outcome], count) for outcome, count in seen.reloads.items()))
        yield metric(LEADER, [([], int(seen.leads))])
        yield metric(LEASE, [([], max(0.0, seen.lease_safe_s))])
        yield metric(LEAST, [([], max(0.0, seen.lease_least_left_s))])
        yield from _load_metrics(seen.load)
        yield metric(PEERS, (([standing], count) for standing, count in seen.peers.items()))
        yield metric(HOOKS, (([outcome], count) for outcome, count in seen.hooks.items()))
        yield from relay_metrics(seen.relay)
        yield metric(DROPPED, (([reason], count) for reason, count in seen.events_dropped.items()))
        yield from service_metrics(seen.services)


def _load_metrics(load: NodeLoad | None) -> Iterable[Metric]:
    if load is not None:
        yield metric(LOAD, [([], load.score)])
        yield metric(SHARES, [(["cpu"], load.cpu), (["memory"], load.memory)])
        free = load.executors - load.executors_used
        yield metric(EXECUTORS, [(["used"], load.executors_used), (["free"], free)])
