"""Records of the link as protobuf messages, and back.

`to_…` makes a message, `from_…` reads one. A message that makes no sense is Invalid: peers of another version, or other
programs, may send anything.
"""

from collections.abc import Sequence

from rota.link.pb import link_pb2 as pb
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.model.errors import Invalid
from rota.model.ids import NodeId, Revision, SessionId


def to_whom(whom: Whom | None) -> pb.Whom | None:
    """The node that a request is meant for, as a message."""
    return None if whom is None else pb.Whom(node=whom.node, session=whom.session)


def from_whom(message: pb.CheckRequest | pb.DispatchManyRequest | pb.ReadLogRequest) -> Whom | None:
    """The node that a request is meant for, if it names one."""
    if not message.HasField("meant"):
        return None
    whom = message.meant
    return Whom(node=NodeId(whom.node), session=SessionId(whom.session) if whom.HasField("session") else None)


def to_presence(presence: Presence) -> pb.CheckAnswer:
    """The answer to a check."""
    return pb.CheckAnswer(node=presence.node, session=presence.session)


def from_presence(message: pb.CheckAnswer) -> Presence:
    """The presence in the answer to a check."""
    return Presence(node=NodeId(message.node), session=SessionId(message.session))


def to_start(start: StartAttempt) -> pb.Start:
    """A start among those that travel together."""
    # The job's name is not used, but nodes that do not know ReadLog refuse a start without one.
    return pb.Start(attempt=to_attempt(start.attempt), epoch=start.epoch, job=start.attempt.run, payload=start.payload)


def from_start(message: pb.Start) -> StartAttempt:
    """The start in a request."""
    return StartAttempt(attempt=from_attempt(message.attempt), epoch=Revision(message.epoch), payload=message.payload)


def to_starts(meant: Whom | None, starts: Sequence[StartAttempt]) -> pb.DispatchManyRequest:
    """Starts that travel together."""
    return pb.DispatchManyRequest(meant=to_whom(meant), starts=map(to_start, starts))


def from_all_dispatched(message: pb.DispatchManyAnswer, count: int) -> list[Accepted | AttemptRefused]:
    """The answers to starts that were sent together."""
    if len(message.answers) != count:
        raise Invalid(f"{len(message.answers)} answers to {count} starts; do both nodes run the same Rota?")
    return [from_dispatched(each) for each in message.answers]


def to_dispatched(answer: Accepted | AttemptRefused) -> pb.StartAnswer:
    """The answer to a start."""
    return pb.StartAnswer(refused=answer.why) if isinstance(answer, AttemptRefused) else pb.StartAnswer(accepted="")


def from_dispatched(message: pb.StartAnswer) -> Accepted | AttemptRefused:
    """The answer to a start."""
    match message.WhichOneof("answer"):
        case "accepted":
            return Accepted()
        case "refused":
            return AttemptRefused(why=message.refused)
        case _:
            raise Invalid("the answer to a start says neither yes nor no; do both nodes run the same Rota?")


def to_log_request(meant: Whom | None, attempt: AttemptId, offset: int) -> pb.ReadLogRequest:
    """A request for a piece of a log."""
    return pb.ReadLogRequest(meant=to_whom(meant), attempt=to_attempt(attempt), offset=offset)


def to_log_answer(piece: LogPiece) -> pb.ReadLogAnswer:
    """A piece of a log as an answer."""
    return pb.ReadLogAnswer(data=piece.data, is_last=piece.is_last)


def from_log_answer(message: pb.ReadLogAnswer) -> LogPiece:
    """The piece of a log."""
    return LogPiece(message.data, message.is_last)


def to_attempt(attempt: AttemptId) -> pb.AttemptId:
    """The name of an attempt."""
    return pb.AttemptId(run=attempt.run, number=attempt.number)


def from_attempt(message: pb.AttemptId) -> AttemptId:
    """The attempt of that name."""
    return AttemptId(message.run, message.number)
