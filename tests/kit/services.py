"""Services in memory: queues and counters behind the agent's door, without a proxy or a worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.kit.histogram import Histogram
from rota.model.errors import NotFound, Unavailable
from rota.model.spec.checks import did_you_mean
from rota.services.core.admin_spec import AdminSpec
from rota.services.core.records import Latency, ServiceStat

BOUNDS = (10, 50, 100, 500, 1000, 5000)


@dataclass
class Group:
    """The workers of one group, and what waits for them."""

    workers: int
    pending: int = 0
    done: int = 0
    discarded: int = 0
    times: Histogram = field(default_factory=Histogram)


class MemoryServices:
    """Services by name; each has the groups given, as {group: workers}."""

    def __init__(self, groups: Mapping[str, Mapping[int, int]], admin: Mapping[str, AdminSpec] | None = None) -> None:
        self.groups = {name: {group: Group(count) for group, count in each.items()} for name, each in groups.items()}
        self.doors: dict[str, AdminSpec] = dict(admin or {})
        self.silent: set[str] = set()
        """Services whose proxy does not answer."""

        self.failures: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def enqueue(self, service: str, group: int, count: int = 1) -> None:
        """Requests come, and wait."""
        self.groups[service][group].pending += count

    def work(self, service: str, group: int, count: int = 1, *, ms: int = 1) -> None:
        """Requests come, and are answered after so many milliseconds each."""
        bucket = next((str(bound) for bound in BOUNDS if ms < bound), "more")
        self._times[bucket] = self._times.get(bucket, 0) + count
        self.groups[service][group].done += count
        for _ in range(count):
            self.groups[service][group].times.add(ms * 1000)

    def names(self) -> list[str]:
        return list(self.groups)

    def admin(self, service: str) -> AdminSpec | None:
        return self.doors.get(service)

    def _known(self, service: str) -> dict[int, Group]:
        if service not in self.groups:
            guess = did_you_mean(service, self.groups) or f"; there are {', '.join(self.groups)}"
            raise NotFound(f'there is no service "{service}"{guess}')
        return self.groups[service]

    async def stat(self, service: str) -> ServiceStat:
        if service in self.silent:
            raise Unavailable(f'the proxy of service "{service}" did not answer within 5 s')
        groups = {str(number): group for number, group in self._known(service).items()}
        done = {name: group.done for name, group in groups.items()}
        return ServiceStat(
            service=service,
            clients=1,
            workers={name: group.workers for name, group in groups.items()},
            busy_workers=dict.fromkeys(groups, 0),
            idle_workers={name: group.workers for name, group in groups.items()},
            pending_tasks={name: group.pending for name, group in groups.items()},
            client_req=sum(group.done + group.pending + group.discarded for group in groups.values()),
            client_rsp=sum(done.values()),
            worker_req=done,
            worker_rsp=done,
            discard_tasks={name: group.discarded for name, group in groups.items()},
            tasks_time=dict(self._times),
            in_flight=dict.fromkeys(groups, 0),
            failures=dict(self.failures),
            drops={"cleared": sum(group.discarded for group in groups.values())},
            groups={name: latency(group.times) for name, group in groups.items()},
            cmds={"101": latency(groups["1"].times)},
            generation=1,
            listening=("tcp://127.0.0.1:9900",),
            uptime_s=12.5,
            cpu_s=0.25,
        )

    async def clear(self, service: str, groups: Sequence[int] | None) -> dict[int, int]:
        wanted = list(self._known(service)) if groups is None else groups
        dropped = {number: self._group(service, number).pending for number in wanted}
        for number, count in dropped.items():
            group = self.groups[service][number]
            group.pending, group.discarded = 0, group.discarded + count
        return dropped

    async def resize(self, service: str, group: int, count: int) -> int:
        found = self._group(service, group)
        before, found.workers = found.workers, count
        return before

    def _group(self, service: str, number: int) -> Group:
        if number not in self._known(service):
            known = ", ".join(map(str, self.groups[service]))
            raise NotFound(f'service "{service}" has no group {number}; there are {known}')
        return self.groups[service][number]


def latency(times: Histogram) -> Latency:
    """The percentiles of a histogram of microseconds."""
    p50, p90, p99 = (times.percentile(percent) / 1000 for percent in (50, 90, 99))
    return Latency(count=times.total(), p50_ms=p50, p90_ms=p90, p99_ms=p99)
