"""What a user declares of a stream: its source, its output, and its task groups. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha1
from typing import Annotated, Literal, Self

import msgspec

from rota.kit.record import replace
from rota.model import adapters
from rota.model.errors import Invalid
from rota.model.spec.checks import Check
from rota.model.spec.option import DERIVED, Said
from rota.model.spec.reading import Own, read
from rota.streams.core.records import StreamRecord
from rota.streams.core.where import Edge

KIND = "stream"
DIGEST = 15
"""Hexadecimal digits of a declaration's short name."""

_SECOND = timedelta(seconds=1)
SOURCES = ("kafka", "log", "memory")
SINKS = ("parquet", "postgresql", "mysql", "sqlite", "memory")


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A source, an output, and the tasks between them."""

    name: str
    """The name of the stream."""

    source: str
    """Where records come from."""

    sink: str
    """Where rows go to."""

    tasks: int = 1
    """Task groups; a partition belongs to group `partition % tasks`."""

    replicas: int = 1
    """Stream tasks per group, on distinct nodes, that read the same records."""

    duration: Annotated[timedelta, Said(least=_SECOND)] = timedelta(hours=1)
    """How long a group reads before it publishes and the next one starts."""

    completion_timeout: Annotated[timedelta, Said(least=_SECOND)] = timedelta(minutes=30)
    """How long a group may take to publish."""

    pause_timeout: Annotated[timedelta, Said(least=_SECOND)] = timedelta(seconds=10)
    """How long a task may take to stop reading when its group ends or makes a checkpoint."""

    batch_timeout: Annotated[timedelta, Said(least=_SECOND)] = timedelta(minutes=5)
    """How long the function may take for one batch."""

    start: str = "latest"
    """Where to begin when nothing was committed yet: `earliest`, `latest` or a time."""

    start_delay: Annotated[timedelta, Said(least=timedelta())] = timedelta()
    """How long a new leader waits before it makes the stream's first group."""

    vanished: Literal["halt", "earliest", "latest"] = "halt"
    """What to do when the source has dropped what comes next: `halt`, or go on at `earliest` or `latest`."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """The labels a node must have to run such a task."""

    is_async: Annotated[bool, DERIVED]
    checkpoint_rows: int = 5_000_000
    """A group publishes what it has read so far whenever one of its tasks has this many rows."""

    checkpoint_bytes: int = 256 * 1024 * 1024
    """A group also publishes when one of its tasks has rows of this many bytes."""

    checkpoint_every: timedelta | None = None
    """A group also publishes when one of its tasks has read for this long since the last publish; None: no limit."""

    late: timedelta | None = None
    """Records that are older than their group by more than this are not taken."""

    early: timedelta | None = None
    """Records that are newer than their group's end and than now by more than this are not taken."""

    late_start: datetime | None = None
    """Records from before this are not taken."""

    max_errors: Annotated[int | None, Said(least=0)] = None
    """A task fails if it cannot read more records than this; None: if it cannot read most of its records."""

    idle_after: timedelta | None = None
    """When no record arrived for this long, no new groups are made until one does; None: they always are."""

    at_a_time: int | None = None
    """How many groups may publish at the same time before others are left to read on; None: all."""

    batch: int = 2000
    """Records that the function is given at a time, at most."""

    upto: str | None = None
    """Where it ends: `latest` (the end of the source when the stream began) or a time; None: it does not end."""

    ranges: Annotated[dict[int, tuple[int, int]], DERIVED] = msgspec.field(default_factory=dict)
    """Partition → the offsets from and up to which a backfill reads it; empty: all is read."""

    tasks_most: int | None = None
    """The most task groups while the lag is high; None: always `tasks`."""

    scale_out_lag: int = 6_000_000
    """Records of lag above which there are more groups."""

    scale_in_lag: int = 1_000_000
    """Records of lag below which there are fewer again."""

    scale_over: Annotated[timedelta, Said(least=10 * _SECOND)] = timedelta(minutes=10)
    """For how long the lag is looked at before the number of groups changes."""

    @property
    def ends_as(self) -> str:
        """How the end of the stream was declared; empty if it does not end."""
        return "ranges" if self.ranges else self.upto or ""

    @cached_property
    def digest(self) -> str:
        """A digest of the source and the output; every other option may change while the stream runs."""
        return sha1(f"{self.source}\n{self.sink}".encode(), usedforsecurity=False).hexdigest()[:DIGEST]

    @classmethod
    def parse(cls, *, is_async: bool, **options: object) -> Self:
        """The declaration, checked."""
        check = Check(KIND, options.get("name"))
        found = read(cls, check, options, own=_OWN, is_async=is_async)
        if found.late is not None and found.late_start is not None:
            check.fail("late and late_start both say what is too old; give one of them")
        if found.tasks_most is not None and found.tasks_most < found.tasks:
            check.fail(f"tasks_most is {found.tasks_most}, and tasks is {found.tasks}; give as many or more")
        if found.scale_in_lag >= found.scale_out_lag:
            check.fail("scale_in_lag must be less than scale_out_lag, or groups would be added and removed endlessly")
        return found


def _source(check: Check, value: object) -> str:
    return check.url_to_show("source", value, SOURCES, adapters.SOURCES)


def _sink(check: Check, value: object) -> str:
    return check.url_to_show("sink", value, SINKS)


def _start(check: Check, value: object) -> str:
    return _place(check, "start", value, tuple(Edge))


def _upto(check: Check, value: object) -> str:
    return _place(check, "upto", value, (Edge.LATEST,))


def _place(check: Check, option: str, value: object, edges: Sequence[str]) -> str:
    """An end of the source, or a time."""
    if isinstance(value, datetime) or (isinstance(value, str) and value[:1].isdigit()):
        return check.moment(option, value).isoformat()
    return str(check.choice(option, value, edges))


_OWN: Own = {"source": _source, "sink": _sink, "start": _start, "upto": _upto}


def backfill(spec: StreamSpec, name: str, ranges: dict[int, tuple[int, int]]) -> StreamSpec:
    """A stream of the same kind that reads these ranges, and ends.

    The records are old by then, so none is dropped for being late.
    """
    return replace(spec, name=name, ranges=ranges, upto=None, late=None, early=None, idle_after=None, tasks_most=None)


def declared(app: str, spec: StreamSpec) -> StreamRecord:
    """A declaration as the store keeps it."""
    return StreamRecord(name=spec.name, app=app, digest=spec.digest, spec=msgspec.to_builtins(spec, str_keys=True))


def spec_of(record: StreamRecord) -> StreamSpec:
    """The declaration in a record; Invalid if a newer Rota wrote it and this one cannot read it."""
    try:
        return msgspec.convert(record.spec, type=StreamSpec, str_keys=True)
    except msgspec.ValidationError as error:
        raise Invalid(
            f'stream "{record.name}": its declaration is not understood ({error}); update this node'
        ) from None
