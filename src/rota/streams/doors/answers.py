"""What the operations on streams answer, and how they read what is asked of one. Nothing here asks the store."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args, get_type_hints

import msgspec

from rota.kit.record import replace
from rota.kit.time import durations
from rota.model.errors import Invalid
from rota.model.ids import NodeId, Revision, origin
from rota.model.url import without_passwords
from rota.streams.core.manifest import Manifest
from rota.streams.core.records import (
    Declaration,
    Group,
    MoveRecord,
    Phase,
    Reset,
    SkipRecord,
    StreamError,
    StreamRecord,
    StreamState,
    StreamStatus,
    StreamTaskStatus,
    StreamWishes,
    TaskState,
)
from rota.streams.core.spec import StreamSpec, spec_of
from rota.streams.core.where import where

UNHEALTHY = (StreamState.UNHEALTHY_SUPERVISOR, StreamState.UNHEALTHY_TASKS)
_SPANS = frozenset(name for name, hint in get_type_hints(StreamSpec).items() if timedelta in (hint, *get_args(hint)))
"""Options of a stream that are durations."""

MOST_TASKS = 10_000
"""Task groups that one stream may be asked to have."""


class StreamView(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, what operators asked of it, and its state."""

    name: str
    """The name of the stream."""

    version: Revision
    """The revision its declaration was last written at."""

    app: str
    """The app that declares it."""

    source: str
    """The URL it reads from, without passwords."""

    sink: str
    """The URL it writes to, without passwords."""

    spec: dict[str, Any]
    """The declaration."""

    tasks: int
    """Task groups it should have: as an operator set it, as its lag requires, or as declared."""

    replicas: int
    """Tasks that read each group at the same time."""

    state: StreamState = StreamState.PENDING
    """How it is."""

    healthy: bool = True
    """Is nothing wrong with it?"""

    detail: str = ""
    since: datetime | None = None
    """Since when it is in this state."""

    phases: dict[str, int] = msgspec.field(default_factory=dict)
    """Phase → how many groups are in it."""

    committed: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → up to where it is in the output."""

    latest: dict[int, int] = msgspec.field(default_factory=dict)
    """Partition → where the source ends."""

    lag: int = 0
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Records of published groups that made no rows, by reason; what open groups left out is with their tasks."""

    errors: tuple[StreamError, ...] = ()
    suspended: bool = False
    """Is it suspended?"""

    terminated: bool = False
    """Is it terminated?"""

    hand_off: tuple[int, ...] = ()
    """Groups that an operator asked to end and that have not ended yet."""

    reset: Reset | None = None
    """The offset reset that was requested and not carried out yet."""

    by: str = ""
    """Who last asked for a change."""

    at: datetime | None = None
    """Who asked for a change last, and when."""

    @property
    def is_past(self) -> bool:
        """Is it a backfill that is completed?"""
        return origin(self.name) != self.name and self.state is StreamState.COMPLETED

    @property
    def has_ended(self) -> bool:
        """Was it suspended or terminated, and is all that was read published?"""
        return self.state in (StreamState.SUSPENDED, StreamState.STOPPING) and not self.phases

    @property
    def is_going(self) -> bool:
        """Has the leader heard that it is neither suspended nor terminated?"""
        return self.state not in (StreamState.SUSPENDED, StreamState.STOPPING)


class StreamPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some streams, in the order of the name."""

    streams: tuple[StreamView, ...]
    """The streams of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""

    left_out: int = 0
    """Completed backfills on this page that are left out."""

    not_understood: dict[str, str] = msgspec.field(default_factory=dict)
    """Records that a newer Rota wrote, by name, with what is wrong."""


class StreamTaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A stream task, as it says itself."""

    slot: int
    node: NodeId
    epoch: Revision
    state: TaskState
    started: datetime | None
    offsets: dict[int, int]
    lag: int
    """Records of its partitions that it has not read."""

    rows: int
    dropped: dict[str, int]
    trouble: str
    error: str
    at: datetime


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A task group, and its tasks."""

    id: str
    number: int
    generation: int
    phase: Phase
    since: datetime
    why: str
    partitions: tuple[int, ...]
    starts: dict[int, int]
    ends: dict[int, int]
    """Where it ends as far as is agreed."""

    tasks: tuple[StreamTaskView, ...] = ()
    """Its tasks."""


class StreamDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, its groups, and the records that were skipped or read again."""

    stream: StreamView
    """The stream."""

    groups: tuple[GroupView, ...]
    """Its task groups."""

    skips: tuple[SkipRecord, ...]
    """Records that its source had no more; the newest last."""

    moves: tuple[MoveRecord, ...]
    """Offsets that were set; the newest last."""


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far the output of one partition is behind its source."""

    stream: str
    """The name of the stream."""

    partition: int
    """The partition."""

    committed: int
    """The offset up to which it is in the output."""

    latest: int | None
    """None: the source has no such partition any more, or was not reached yet."""

    lag: int
    """Records that are in the source and not in the output."""


class StreamVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a stream's declaration."""

    at: datetime
    """When this version was declared."""

    node: NodeId
    """The node whose app declared it first."""

    app: str
    """The app that declared it."""

    spec: dict[str, Any]
    """The declaration."""

    changed: dict[str, tuple[Any, Any]]
    """Option → its value before and after; empty for the oldest version that is kept."""


class StreamLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream is behind."""

    partitions: tuple[PartitionLag, ...]
    """The lag of each partition."""


class StreamHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a stream's declaration."""

    versions: tuple[StreamVersion, ...]
    """The declarations, the oldest first."""


class PublishedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some publishes, the oldest first."""

    published: tuple[Manifest, ...]
    """The publishes of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


def stream_view(
    record: StreamRecord, version: Revision, status: StreamStatus | None, wishes: StreamWishes | None
) -> StreamView:
    """A stream as it is shown; Invalid if its declaration is not understood."""
    spec, wished = spec_of(record), wishes or StreamWishes()
    view = StreamView(
        name=record.name,
        version=version,
        app=record.app,
        source=without_passwords(spec.source),
        sink=without_passwords(spec.sink),
        spec=_shown(record.spec),
        tasks=wished.tasks or spec.tasks,
        replicas=spec.replicas,
        suspended=wished.is_suspended,
        terminated=wished.is_terminated,
        hand_off=wished.hand_off,
        reset=wished.reset,
        by=wished.by,
        at=wished.at,
    )
    if status is None:
        return view
    return replace(
        view,
        tasks=wished.tasks or status.tasks or spec.tasks,
        state=status.state,
        healthy=status.state not in UNHEALTHY and not status.waits,
        detail=status.detail,
        since=status.since,
        phases=status.phases,
        committed=status.committed,
        latest=_ends(status),
        lag=status.lag,
        dropped=status.dropped,
        errors=status.errors,
    )


def _ends(status: StreamStatus) -> dict[int, int]:
    """Where each partition ends: at least where its output does, which may have been published after the last look."""
    return {partition: max(end, status.committed.get(partition, end)) for partition, end in status.latest.items()}


def _shown(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A declaration without the passwords that its URLs may have."""
    return {name: _shown_option(name, value) if isinstance(value, str) else value for name, value in spec.items()}


def _shown_option(name: str, value: str) -> str:
    """Durations in Rota's notation, such as `90s`; the store keeps them as ISO 8601."""
    try:
        return durations.render(durations.parse(value)) if name in _SPANS else without_passwords(value)
    except ValueError:  # of a newer Rota
        return value


def group_view(group: Group, tasks: Iterable[StreamTaskStatus]) -> GroupView:
    """A group as it is shown."""
    return GroupView(
        id=group.id,
        number=group.number,
        generation=group.generation,
        phase=group.phase,
        since=group.since,
        why=group.why,
        partitions=group.partitions,
        starts=group.starts,
        ends=group.ends if group.sequences else {},
        tasks=tuple(_task(each) for each in sorted(tasks, key=lambda each: (each.slot, each.epoch))),
    )


def versions(declared: Sequence[Declaration]) -> tuple[StreamVersion, ...]:
    """Declarations, the oldest first, as they are shown: each with what it changed."""
    return tuple(
        StreamVersion(
            at=each.at,
            node=each.node,
            app=each.record.app,
            spec=_shown(each.record.spec),
            changed=_changed(before.record.spec, each.record.spec) if before else {},
        )
        for before, each in zip((None, *declared), declared, strict=False)
    )


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    was, became = _shown(before), _shown(after)
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return {name: (was.get(name), became.get(name)) for name in names}


def lags(view: StreamView) -> tuple[PartitionLag, ...]:
    """The lag of each partition, as the leader last saw it."""
    return tuple(
        PartitionLag(
            stream=view.name,
            partition=partition,
            committed=at,
            latest=view.latest.get(partition),
            lag=max(0, view.latest.get(partition, at) - at),
        )
        for partition, at in sorted(view.committed.items())
    )


def read_offsets(view: StreamView, asked: Mapping[Any, object]) -> dict[int, str]:
    """Partition → where it is to go on; Invalid names the first that is not valid."""
    if not asked:
        raise Invalid(f'stream "{view.name}": say which partitions go on where, like 0=120 or 1=earliest')
    return {_partition(view, each): _place(view, _partition(view, each), value) for each, value in asked.items()}


def read_place(name: str, value: object) -> str:
    """Where all partitions are to go on."""
    if not isinstance(value, str) or isinstance(where(value), int):
        raise Invalid(f'stream "{name}": to is {value}; it must be earliest, latest or a time like 2026-01-31T12:00Z')
    return value


def read_backfill(name: str, value: object) -> bool:
    """Is what is left out to be read by another stream?"""
    if not isinstance(value, bool):
        raise Invalid(f'stream "{name}": backfill is {value}; it must be true or false')
    if value and origin(name) != name:
        raise Invalid(f'stream "{name}" fills a gap itself; reset it without a backfill')
    return value


def read_groups(view: StreamView, groups: Iterable[Group], asked: Iterable[object]) -> tuple[int, ...]:
    """Numbers of the groups that are to end now: the named ones, or all that read."""
    reading = sorted({group.number for group in groups if group.phase in (Phase.READING, Phase.PAUSING)})
    named = list(asked)
    for each in named:
        if each not in reading or isinstance(each, bool):
            there = f"those that do are {', '.join(map(str, reading))}" if reading else "none does"
            raise Invalid(f'stream "{view.name}": no group {each} is reading; {there}')
    return tuple(int(str(each)) for each in named) or tuple(reading)


def read_tasks(name: str, value: object) -> int | None:
    """How many task groups are wanted; None: as many as are declared."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_TASKS):
        return value
    raise Invalid(f'stream "{name}": tasks is {value}; it must be from 1 to {MOST_TASKS}, or null for as declared')


def _task(status: StreamTaskStatus) -> StreamTaskView:
    behind = (status.latest[each] - at for each, at in status.offsets.items() if each in status.latest)
    return StreamTaskView(
        slot=status.slot,
        node=status.node,
        epoch=status.epoch,
        state=status.state,
        started=status.started,
        offsets=status.offsets,
        lag=sum(max(0, each) for each in behind),
        rows=status.rows,
        dropped=status.dropped,
        trouble=status.trouble,
        error=status.error,
        at=status.at,
    )


def _partition(view: StreamView, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17 else value
    if not isinstance(number, int) or isinstance(number, bool) or number not in view.committed:
        known = ", ".join(map(str, sorted(view.committed)))
        there = f"there are {known}" if known else "the leader has not looked at its source yet"
        raise Invalid(f'stream "{view.name}" has no partition {value}; {there}')
    return number


def _place(view: StreamView, partition: int, value: object) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    place, end = where(text), view.latest.get(partition)
    if isinstance(place, int) and end is not None and place > end:
        raise Invalid(f'stream "{view.name}": partition {partition} ends at {end}, before {place}; choose one up to it')
    return text
