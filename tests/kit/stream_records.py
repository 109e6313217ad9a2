"""Records of streams."""

from datetime import UTC, datetime, timedelta
from typing import Any

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.ids import NodeId, Revision
from rota.store import Put, Store
from rota.streams.core.records import (
    Declaration,
    Group,
    Phase,
    StreamError,
    StreamState,
    StreamStatus,
    StreamTaskStatus,
    TaskState,
)
from rota.streams.core.spec import StreamSpec, declared

NOON = datetime(2026, 1, 16, 12, tzinfo=UTC)


STATUS = StreamStatus(
    stream="clicks",
    state=StreamState.RUNNING,
    since=NOON,
    phases={"reading": 2},
    committed={0: 100, 1: 50},
    latest={0: 130, 1: 50},
    lag=30,
    errors=(StreamError(at=NOON, why="a blip"),),
)


async def put(store: Store, key: str, record: object) -> None:
    await store.commit(Put(key, codec.encode(record)))


async def declare(store: Store, name: str) -> None:
    spec = StreamSpec.parse(name="s", source="log:///data/in", sink="parquet:///data/out", tasks=2, is_async=False)
    spec = replace(spec, name=name)
    await put(store, keys.STREAMS + name, declared("shop", spec))


async def say(store: Store, status: StreamStatus) -> None:
    """What a leader would."""
    await put(store, keys.STREAM_STATUS + status.stream, status)


def group(number: int, phase: Phase = Phase.READING) -> Group:
    return Group(
        stream="clicks",
        id=f"g{number}",
        number=number,
        generation=number + 1,
        partitions=(number,),
        starts={number: 0},
        sequences=({number: 40},) if number else (),
        phase=phase,
        since=NOON,
        created=NOON,
    )


TASK = StreamTaskStatus(
    stream="clicks",
    group="g0",
    slot=0,
    node=NodeId("n1"),
    epoch=Revision(7),
    state=TaskState.READING,
    started=NOON,
    offsets={0: 120},
    latest={0: 130},
    rows=120,
    dropped={"late": 3},
    at=NOON,
)


async def remember(store: Store, *, hours: int, **options: Any) -> None:
    """What a node's app declared once."""
    given = {"name": "clicks", "source": "log:///data/in", "sink": "parquet:///data/out", "is_async": False}
    record = declared("shop", StreamSpec.parse(**{**given, **options}))
    at = NOON + timedelta(hours=hours)
    await put(store, keys.stream_declaration("clicks", at), Declaration(record=record, node=NodeId("n1"), at=at))
