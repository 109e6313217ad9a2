"""What a user declares of a stream: from where, to where, and by how many. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from rota.workloads.checks import Check

KIND = "stream"
SOURCES = ("kafka", "log", "memory")
SINKS = ("parquet", "postgresql", "mysql", "sqlite", "memory")


@dataclass(frozen=True, kw_only=True)
class StreamSpec:
    """A source, an output, and the tasks between them."""

    name: str
    source: str
    sink: str
    tasks: int
    """Task groups; a partition belongs to group `partition % tasks`."""

    replicas: int
    """Stream tasks per group, on distinct nodes, that read the same records."""

    duration: timedelta
    """How long a group reads before it publishes and the next one starts."""

    completion_timeout: timedelta
    """How long a group may take to publish."""

    start: str
    """Where to begin when nothing was committed yet: `earliest` or `latest`."""

    vanished: str
    """What to do when the source has dropped what comes next: `halt`, or go on at `earliest` or `latest`."""

    labels: dict[str, str]
    """What a node must be labelled with to run such a task."""

    is_async: bool

    @classmethod
    def parse(
        cls,
        *,
        name: object,
        source: object,
        sink: object,
        tasks: object = 1,
        replicas: object = 1,
        duration: object = "1h",
        completion_timeout: object = "30m",
        start: object = "latest",
        vanished: object = "halt",
        labels: object = None,
        is_async: bool,
    ) -> Self:
        """The declaration, checked."""
        check = Check(KIND, name)
        return cls(
            name=check.name(name),
            source=check.url("source", source, SOURCES),
            sink=check.url("sink", sink, SINKS),
            tasks=check.count("tasks", tasks),
            replicas=check.count("replicas", replicas),
            duration=check.duration("duration", duration, least=timedelta(seconds=1)),
            completion_timeout=check.duration("completion_timeout", completion_timeout, least=timedelta(seconds=1)),
            start=check.choice("start", start, ("earliest", "latest")),
            vanished=check.choice("vanished", vanished, ("halt", "earliest", "latest")),
            labels=check.labels("labels", labels),
            is_async=is_async,
        )
