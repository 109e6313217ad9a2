"""What holds a stream back, in words."""

from datetime import UTC, datetime, timedelta

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision
from rota.resources.core.records import ResourceStatus
from rota.streams.core.records import StreamError, StreamState, StreamStatus, StreamTaskStatus, StreamWishes, TaskState
from rota.streams.core.why import held

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
CALM = StreamStatus(stream="clicks", state=StreamState.RUNNING, since=NOW)
TASK = StreamTaskStatus(
    stream="clicks", group="g1", slot=0, node=NodeId("a"), epoch=Revision(3), state=TaskState.READING, at=NOW
)


def why(status: StreamStatus | None = CALM, *tasks: StreamTaskStatus, **more: object) -> list[str]:
    given = {"wishes": StreamWishes(), "placed": {}, "now": NOW, "is_led": True, **more}
    return list(held(status=status, tasks=tasks, **given))  # type: ignore[arg-type]


def test_a_stream_that_reads_and_publishes_is_held_back_by_nothing() -> None:
    assert why(CALM, TASK) == []


def test_each_thing_that_holds_a_stream_back_is_named() -> None:
    assert why(is_led=False) == ["no node leads, so the stream is not managed"]
    assert why(None) == ["no leader has looked at it yet"]
    assert why(wishes=StreamWishes(is_suspended=True, by="me")) == [
        "it is suspended by me; go on with: rota streams resume"
    ]
    assert why(replace(CALM, waits="partition 3 waits")) == ["partition 3 waits"]
    ill = StreamError(at=NOW, why="no disk")
    assert why(replace(CALM, state=StreamState.UNHEALTHY_TASKS, errors=(ill,))) == ["unhealthy tasks: no disk"]
    placed = ResourceStatus(
        ID="", Name="g1", AssignedNode="", CreationTime=0, kind="stream:clicks", replicas=2, assigned=1, pending="full"
    )
    assert why(placed={"g1": placed}) == ["group g1 has 1 of 2 tasks placed: full"]
    assert why(CALM, replace(TASK, trouble="Kafka is away")) == ["task 0 of group g1 on a: Kafka is away"]
    silent = replace(TASK, at=NOW - timedelta(minutes=1))
    assert why(CALM, silent) == ["task 0 of group g1 on a has said nothing for 60 s"]
    assert why(CALM, replace(TASK, wants_checkpoint="it has 9 rows")) == [
        "1 tasks wait for a checkpoint: it has 9 rows"
    ]


def test_what_is_read_and_not_published_yet_is_told_from_what_is_not_read() -> None:
    behind = replace(CALM, lag=10, committed={0: 0, 1: 5}, latest={0: 10, 1: 5})
    assert why(behind, replace(TASK, offsets={0: 4, 1: 5}), replace(TASK, slot=1, offsets={0: 6})) == [
        "6 of its 10 records are read, and wait for the next publish"
    ]
