"""Records of the link as protobuf messages, and back.

`to_…` makes a message, `from_…` reads one. What a message cannot mean is Invalid: peers of another version, or no peers
at all, may send anything.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rota.model.errors import Invalid
from rota.model.ids import NodeId, Revision, SessionId, TermNumber
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    Load,
    Message,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    TaskChange,
    Verb,
    Whom,
)
from rota.rpc.pb import link_pb2 as pb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_whom(whom: Whom | None) -> pb.Whom | None:
    """For whom a request is meant."""
    return None if whom is None else pb.Whom(node=whom.node, session=whom.session)


def from_whom(
    message: pb.CheckRequest
    | pb.ReportRequest
    | pb.DispatchRequest
    | pb.DispatchManyRequest
    | pb.ControlRequest
    | pb.HandOverOpening
    | pb.FollowLogRequest,
) -> Whom | None:
    """Whom a request is meant for, if it says so."""
    if not message.HasField("meant"):
        return None
    whom = message.meant
    return Whom(node=NodeId(whom.node), session=SessionId(whom.session) if whom.HasField("session") else None)


def to_presence(presence: Presence) -> pb.CheckAnswer:
    """The answer to a check."""
    return pb.CheckAnswer(
        node=presence.node,
        session=presence.session,
        wall=_to_time(presence.wall),
        load=_to_load(presence.load),
        relay_map=presence.relay_map,
    )


def from_presence(message: pb.CheckAnswer) -> Presence:
    """Who answered a check."""
    return Presence(
        node=NodeId(message.node),
        session=SessionId(message.session),
        wall=_from_time(message.wall),
        load=_from_load(message.load),
        relay_map=message.relay_map,
    )


def to_report(meant: Whom | None, report: Report) -> pb.ReportRequest:
    """A report as a request."""
    return pb.ReportRequest(
        meant=to_whom(meant),
        node=report.node,
        session=report.session,
        sequence=report.sequence,
        load=_to_load(report.load),
        changes=[
            pb.TaskChange(
                task=change.task, epoch=change.epoch, phase=change.phase, at=_to_time(change.at), why=change.why
            )
            for change in report.changes
        ],
        digest=report.digest,
        resync=report.resync,
    )


def from_report(message: pb.ReportRequest) -> Report:
    """The report of a request."""
    return Report(
        node=NodeId(message.node),
        session=SessionId(message.session),
        sequence=message.sequence,
        load=_from_load(message.load),
        changes=tuple(
            TaskChange(
                task=change.task,
                epoch=Revision(change.epoch),
                phase=change.phase,
                at=_from_time(change.at),
                why=change.why,
            )
            for change in message.changes
        ),
        digest=message.digest,
        resync=message.resync,
    )


def to_reported(answer: NotLeader | None) -> pb.ReportAnswer:
    """The answer to a report."""
    if answer is None:
        return pb.ReportAnswer()
    return pb.ReportAnswer(not_leader=pb.NotLeader(term=answer.term, leader=answer.leader))


def from_reported(message: pb.ReportAnswer) -> NotLeader | None:
    """What the receiver of a report said."""
    if not message.HasField("not_leader"):
        return None
    known = message.not_leader
    return NotLeader(
        term=TermNumber(known.term) if known.HasField("term") else None,
        leader=NodeId(known.leader) if known.HasField("leader") else None,
    )


def to_start(meant: Whom | None, start: Start) -> pb.DispatchRequest:
    """A start as a request."""
    return pb.DispatchRequest(
        meant=to_whom(meant),
        attempt=to_attempt(start.attempt),
        epoch=start.epoch,
        job=start.job,
        payload=start.payload,
        timeout=None if start.timeout is None else to_duration(start.timeout),
    )


def from_start(message: pb.DispatchRequest) -> Start:
    """The start of a request."""
    return Start(
        attempt=from_attempt(message.attempt),
        epoch=Revision(message.epoch),
        job=message.job,
        payload=message.payload,
        timeout=from_duration(message.timeout) if message.HasField("timeout") else None,
    )


def to_starts(meant: Whom | None, starts: Sequence[Start]) -> pb.DispatchManyRequest:
    """Starts that travel together."""
    return pb.DispatchManyRequest(meant=to_whom(meant), starts=[to_start(None, start) for start in starts])


def from_all_dispatched(message: pb.DispatchManyAnswer, count: int) -> list[Accepted | Refused]:
    """What became of starts that travelled together."""
    if len(message.answers) != count:
        raise Invalid(f"{len(message.answers)} answers to {count} starts; do both nodes run the same Rota?")
    return [from_dispatched(each) for each in message.answers]


def to_dispatched(answer: Accepted | Refused) -> pb.DispatchAnswer:
    """The answer to a start."""
    if isinstance(answer, Accepted):
        return pb.DispatchAnswer(reservation=answer.reservation)
    return pb.DispatchAnswer(refused=answer.why)


def from_dispatched(message: pb.DispatchAnswer) -> Accepted | Refused:
    """What became of a start."""
    match message.WhichOneof("answer"):
        case "reservation":
            return Accepted(reservation=message.reservation)
        case "refused":
            return Refused(why=message.refused)
        case _:
            raise Invalid("the answer to a start says neither yes nor no; do both nodes run the same Rota?")


def to_control(meant: Whom | None, control: Control) -> pb.ControlRequest:
    """A control as a request."""
    message = pb.ControlRequest(meant=to_whom(meant), verb=control.verb, epoch=control.epoch, why=control.why)
    if isinstance(control.what, AttemptId):
        message.attempt.CopyFrom(to_attempt(control.what))
    else:
        message.task = control.what
    return message


def from_control(message: pb.ControlRequest) -> Control:
    """The control of a request."""
    try:
        verb = Verb(message.verb)
    except ValueError:
        known = ", ".join(Verb)
        raise Invalid(f'"{message.verb[:40]}" is nothing to do to a task; known are {known}') from None
    what = from_attempt(message.attempt) if message.WhichOneof("what") == "attempt" else message.task
    return Control(verb=verb, what=what, epoch=Revision(message.epoch), why=message.why)


def to_attempt(attempt: AttemptId) -> pb.AttemptId:
    """The name of an attempt."""
    return pb.AttemptId(run=attempt.run, number=attempt.number)


def from_attempt(message: pb.AttemptId) -> AttemptId:
    """The attempt of that name."""
    return AttemptId(message.run, message.number)


def to_batch(batch: Batch) -> pb.HandOverRequest:
    """A batch as a part of a hand-over."""
    messages = [
        pb.Message(
            id=message.id, resource=message.resource, epoch=message.epoch, payload=message.payload, to=message.to
        )
        for message in batch.messages
    ]
    return pb.HandOverRequest(batch=pb.Batch(sequence=batch.sequence, messages=messages))


def from_batch(message: pb.HandOverRequest) -> Batch | None:
    """The batch in a part of a hand-over; None for a sign of life."""
    if message.WhichOneof("part") != "batch":
        return None
    return Batch(
        sequence=message.batch.sequence,
        messages=tuple(
            Message(id=each.id, resource=each.resource, epoch=Revision(each.epoch), payload=each.payload, to=each.to)
            for each in message.batch.messages
        ),
    )


def to_acked(sequence: int) -> pb.HandOverAnswer:
    """An ack."""
    return pb.HandOverAnswer(acked=sequence)


def from_acked(message: pb.HandOverAnswer) -> int | None:
    """The sequence of an ack; None for a sign of life."""
    return message.acked if message.HasField("acked") else None


def to_chunk(chunk: Chunk) -> pb.LogChunk:
    """A chunk of a log."""
    return pb.LogChunk(offset=chunk.offset, data=chunk.data)


def from_chunk(message: pb.LogChunk) -> Chunk | None:
    """The chunk; None for a sign of life."""
    return Chunk(message.offset, message.data) if message.data else None


def to_duration(duration: timedelta) -> int:
    """A duration in microseconds."""
    return duration // _MICROSECOND


def from_duration(microseconds: int) -> timedelta:
    """The duration; whatever fits into a message fits into one."""
    return timedelta(microseconds=microseconds)


def _to_load(load: Load) -> pb.Load:
    return pb.Load(
        score=load.score,
        slots=load.slots,
        slots_used=load.slots_used,
        executors=load.executors,
        executors_used=load.executors_used,
    )


def _from_load(message: pb.Load) -> Load:
    return Load(
        score=message.score,
        slots=message.slots,
        slots_used=message.slots_used,
        executors=message.executors,
        executors_used=message.executors_used,
    )


def _to_time(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _from_time(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise Invalid(f"a time {microseconds} µs from 1970; no calendar has that") from None
