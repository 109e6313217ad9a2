"""What a service of a node is doing, in figures.

The first eleven are those of the original control tool, under its names; groups are keyed by their number as text,
because that is what JSON makes of them.
"""

import msgspec


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long requests took from their arrival to the end of their work."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class SlowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a worker has had for a while."""

    pid: int
    """Of the worker; 0 if it is not known."""

    group: int
    cmd: int
    age_s: float
    generation: int
    """Of the worker."""

    is_draining: bool = False
    """Should the worker have ended? It does when this request is done."""


class ServiceStat(msgspec.Struct, frozen=True, kw_only=True):
    """One service of one node, since its proxy started."""

    service: str
    clients: int
    """Connections; clients over UDP are not counted, they have none."""

    workers: dict[str, int]
    """Wanted, by group."""

    busy_workers: dict[str, int]
    """With at least one request."""

    idle_workers: dict[str, int]
    pending_tasks: dict[str, int]
    """Requests that wait."""

    client_req: int
    client_rsp: int
    worker_req: dict[str, int]
    worker_rsp: dict[str, int]
    discard_tasks: dict[str, int]
    """Requests that were refused or dropped before they ran."""

    tasks_time: dict[str, int]
    """How many requests took less than each limit, in milliseconds; `more` has the rest."""

    in_flight: dict[str, int]
    """Requests that workers have."""

    silent: int = 0
    """Requests that were left without an answer on purpose: by their handlers, or because the service does not answer
    failures."""

    failures: dict[str, int] = msgspec.field(default_factory=dict)
    """Requests that no handler answered, by reason: `queue full`, `worker lost` and so on."""

    drops: dict[str, int] = msgspec.field(default_factory=dict)
    """What was dropped, by reason: `late answer`, `answer to a client that is gone` and so on."""

    groups: dict[str, Latency] = msgspec.field(default_factory=dict)
    cmds: dict[str, Latency] = msgspec.field(default_factory=dict)
    generation: int = 0
    listening: tuple[str, ...] = ()
    """Where it listens, like tcp://127.0.0.1:9900."""

    not_listening: str | None = None
    """Why it does not listen, if it does not."""

    proxies: int = 1
    uptime_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of its proxies."""

    slow: tuple[SlowRequest, ...] = ()
    """The requests that workers have had for longest, from 10 s on; one for each worker, ten at most."""
