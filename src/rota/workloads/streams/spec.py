"""What a user declares of a stream: from where, to where, and by how many. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha1
from typing import Self

import msgspec

from rota.kit.record import replace
from rota.model import adapters
from rota.model.errors import Invalid
from rota.model.stream import StreamRecord
from rota.workloads.checks import Check
from rota.workloads.streams.where import Edge

KIND = "stream"
DIGEST = 15
"""Hexadecimal digits of a declaration's short name."""

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

    pause_timeout: timedelta = timedelta(seconds=10)
    """How long a task may take to stop reading when its group ends or makes a checkpoint."""

    batch_timeout: timedelta = timedelta(minutes=5)
    """How long the function may take for one batch."""

    start: str
    """Where to begin when nothing was committed yet: `earliest`, `latest` or a time."""

    start_delay: timedelta = timedelta()
    """How long a leader that begins to look after the stream waits before it makes a group of it."""

    vanished: str
    """What to do when the source has dropped what comes next: `halt`, or go on at `earliest` or `latest`."""

    labels: dict[str, str]
    """What a node must be labelled with to run such a task."""

    is_async: bool
    checkpoint_rows: int = 5_000_000
    checkpoint_bytes: int = 256 * 1024 * 1024
    checkpoint_every: timedelta | None = None
    """What a group reads is published in parts, whenever a task has so many rows or bytes, or reads for so long."""

    late: timedelta | None = None
    early: timedelta | None = None
    """Records older than their group by `late`, or newer than its end and than now by `early`, are not taken."""

    late_start: datetime | None = None
    """Records from before this are not taken."""

    max_errors: int | None = None
    """A task that cannot read more records than this fails; None: one that cannot read most of them does."""

    idle_after: timedelta | None = None
    """When nothing came for so long, no new groups are made until something does; None: they always are."""

    at_a_time: int | None = None
    """How many groups may publish at the same time before others are left to read on; None: all."""

    batch: int = 2000
    """Records that the function is given at a time, at most."""

    upto: str | None = None
    """Where it ends: `latest`, which is where its source ended when it began, or a time; None: nowhere."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → from which offset up to which one it is read; empty: all is. Of a stream that fills a gap."""

    tasks_most: int | None = None
    """Task groups that there may be while the lag is high; None: as many as `tasks`, always."""

    scale_out_lag: int = 6_000_000
    scale_in_lag: int = 1_000_000
    """Records of lag above which there are more groups, and below which there are fewer again."""

    scale_over: timedelta = timedelta(minutes=10)
    """For how long the lag is looked at before the number of groups changes."""

    @property
    def ends_as(self) -> str:
        """How it was said where the stream ends; nothing if it does not."""
        return "ranges" if self.ranges else self.upto or ""

    @cached_property
    def digest(self) -> str:
        """A short name of where it reads and where it goes; all else may change under way."""
        return sha1(f"{self.source}\n{self.sink}".encode(), usedforsecurity=False).hexdigest()[:DIGEST]

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
        pause_timeout: object = "10s",
        batch_timeout: object = "5m",
        start: object = "latest",
        start_delay: object = "0s",
        vanished: object = "halt",
        labels: object = None,
        checkpoint_rows: object = 5_000_000,
        checkpoint_bytes: object = 256 * 1024 * 1024,
        checkpoint_every: object = None,
        late: object = None,
        early: object = None,
        late_start: object = None,
        max_errors: object = None,
        idle_after: object = None,
        at_a_time: object = None,
        batch: object = 2000,
        upto: object = None,
        tasks_most: object = None,
        scale_out_lag: object = 6_000_000,
        scale_in_lag: object = 1_000_000,
        scale_over: object = "10m",
        is_async: bool,
    ) -> Self:
        """The declaration, checked."""
        check = Check(KIND, name)
        if late is not None and late_start is not None:
            check.fail("late and late_start both say what is too old; give one of them")
        found = cls(
            name=check.name(name),
            source=check.url_to_show("source", source, SOURCES, adapters.SOURCES),
            sink=check.url_to_show("sink", sink, SINKS),
            tasks=check.count("tasks", tasks),
            replicas=check.count("replicas", replicas),
            duration=check.duration("duration", duration, least=timedelta(seconds=1)),
            completion_timeout=check.duration("completion_timeout", completion_timeout, least=timedelta(seconds=1)),
            pause_timeout=check.duration("pause_timeout", pause_timeout, least=timedelta(seconds=1)),
            batch_timeout=check.duration("batch_timeout", batch_timeout, least=timedelta(seconds=1)),
            start=_place(check, "start", start, tuple(Edge)),
            start_delay=check.duration("start_delay", start_delay, least=timedelta()),
            vanished=check.choice("vanished", vanished, ("halt", "earliest", "latest")),
            labels=check.labels("labels", labels),
            checkpoint_rows=check.count("checkpoint_rows", checkpoint_rows),
            checkpoint_bytes=check.count("checkpoint_bytes", checkpoint_bytes),
            checkpoint_every=check.duration_or_none("checkpoint_every", checkpoint_every),
            late=check.duration_or_none("late", late),
            early=check.duration_or_none("early", early),
            late_start=check.moment_or_none("late_start", late_start),
            max_errors=None if max_errors is None else check.count("max_errors", max_errors, least=0),
            idle_after=check.duration_or_none("idle_after", idle_after),
            at_a_time=None if at_a_time is None else check.count("at_a_time", at_a_time),
            batch=check.count("batch", batch),
            upto=None if upto is None else _place(check, "upto", upto, (Edge.LATEST,)),
            tasks_most=None if tasks_most is None else check.count("tasks_most", tasks_most),
            scale_out_lag=check.count("scale_out_lag", scale_out_lag),
            scale_in_lag=check.count("scale_in_lag", scale_in_lag),
            scale_over=check.duration("scale_over", scale_over, least=timedelta(seconds=10)),
            is_async=is_async,
        )
        if found.tasks_most is not None and found.tasks_most < found.tasks:
            check.fail(f"tasks_most is {found.tasks_most}, and tasks is {found.tasks}; give as many or more")
        if found.scale_in_lag >= found.scale_out_lag:
            check.fail("scale_in_lag must be less than scale_out_lag, or groups would be added and removed endlessly")
        return found


def _place(check: Check, option: str, value: object, edges: Sequence[str]) -> str:
    """An end of the source, or a time."""
    if isinstance(value, datetime) or (isinstance(value, str) and value[:1].isdigit()):
        moment = check.moment_or_none(option, value)
        assert moment is not None
        return moment.isoformat()
    return str(check.choice(option, value, edges))


def backfill(spec: StreamSpec, name: str, ranges: dict[int, tuple[int, int]]) -> StreamSpec:
    """A stream of the same kind that reads these ranges, and ends.

    It reads what is old by then, and is not to be stopped by it: records are taken however late they are.
    """
    return replace(spec, name=name, ranges=ranges, upto=None, late=None, early=None, idle_after=None, tasks_most=None)


def declared(app: str, spec: StreamSpec) -> StreamRecord:
    """A declaration as the store keeps it."""
    return StreamRecord(name=spec.name, app=app, digest=spec.digest, spec=msgspec.to_builtins(spec, str_keys=True))


def spec_of(record: StreamRecord) -> StreamSpec:
    """The declaration in a record; Invalid if a newer Rota wrote what nobody here understands."""
    try:
        return msgspec.convert(record.spec, type=StreamSpec, str_keys=True)
    except msgspec.ValidationError as error:
        raise Invalid(
            f'stream "{record.name}": its declaration is not understood ({error}); update this node'
        ) from None
