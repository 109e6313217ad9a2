from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Whom(_message.Message):
    __slots__ = ("node", "session")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("score", "slots", "slots_used", "executors", "executors_used")
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_USED_FIELD_NUMBER: _ClassVar[int]
    score: float
    slots: int
    slots_used: int
    executors: int
    executors_used: int
    def __init__(self, score: _Optional[float] = ..., slots: _Optional[int] = ..., slots_used: _Optional[int] = ..., executors: _Optional[int] = ..., executors_used: _Optional[int] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("meant",)
    MEANT_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ...) -> None: ...

class CheckAnswer(_message.Message):
    __slots__ = ("node", "session", "wall", "load", "relay_map")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WALL_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    RELAY_MAP_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    wall: int
    load: Load
    relay_map: int
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ..., wall: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., relay_map: _Optional[int] = ...) -> None: ...

class TaskChange(_message.Message):
    __slots__ = ("task", "epoch", "phase", "at", "why")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    task: str
    epoch: int
    phase: str
    at: int
    why: str
    def __init__(self, task: _Optional[str] = ..., epoch: _Optional[int] = ..., phase: _Optional[str] = ..., at: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("meant", "node", "session", "sequence", "load", "changes", "digest", "resync")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    node: str
    session: str
    sequence: int
    load: Load
    changes: _containers.RepeatedCompositeFieldContainer[TaskChange]
    digest: bytes
    resync: str
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., node: _Optional[str] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[TaskChange, _Mapping]]] = ..., digest: _Optional[bytes] = ..., resync: _Optional[str] = ...) -> None: ...

class ReportAnswer(_message.Message):
    __slots__ = ("not_leader",)
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    not_leader: NotLeader
    def __init__(self, not_leader: _Optional[_Union[NotLeader, _Mapping]] = ...) -> None: ...

class NotLeader(_message.Message):
    __slots__ = ("term", "leader")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    term: int
    leader: str
    def __init__(self, term: _Optional[int] = ..., leader: _Optional[str] = ...) -> None: ...

class AttemptId(_message.Message):
    __slots__ = ("run", "number")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    run: str
    number: int
    def __init__(self, run: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class DispatchRequest(_message.Message):
    __slots__ = ("meant", "attempt", "epoch", "job", "payload", "timeout")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    attempt: AttemptId
    epoch: int
    job: str
    payload: bytes
    timeout: int
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., attempt: _Optional[_Union[AttemptId, _Mapping]] = ..., epoch: _Optional[int] = ..., job: _Optional[str] = ..., payload: _Optional[bytes] = ..., timeout: _Optional[int] = ...) -> None: ...

class DispatchAnswer(_message.Message):
    __slots__ = ("reservation", "refused")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    reservation: str
    refused: str
    def __init__(self, reservation: _Optional[str] = ..., refused: _Optional[str] = ...) -> None: ...

class DispatchManyRequest(_message.Message):
    __slots__ = ("meant", "starts")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    starts: _containers.RepeatedCompositeFieldContainer[DispatchRequest]
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[DispatchRequest, _Mapping]]] = ...) -> None: ...

class DispatchManyAnswer(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[DispatchAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[DispatchAnswer, _Mapping]]] = ...) -> None: ...

class ControlRequest(_message.Message):
    __slots__ = ("meant", "verb", "task", "attempt", "epoch", "why")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    verb: str
    task: str
    attempt: AttemptId
    epoch: int
    why: str
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., verb: _Optional[str] = ..., task: _Optional[str] = ..., attempt: _Optional[_Union[AttemptId, _Mapping]] = ..., epoch: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class ControlAnswer(_message.Message):
    __slots__ = ("is_here",)
    IS_HERE_FIELD_NUMBER: _ClassVar[int]
    is_here: bool
    def __init__(self, is_here: bool = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("id", "resource", "epoch", "payload", "to")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    resource: str
    epoch: int
    payload: bytes
    to: str
    def __init__(self, id: _Optional[bytes] = ..., resource: _Optional[str] = ..., epoch: _Optional[int] = ..., payload: _Optional[bytes] = ..., to: _Optional[str] = ...) -> None: ...

class HandOverOpening(_message.Message):
    __slots__ = ("meant", "source", "relay_map", "silence")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RELAY_MAP_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    source: str
    relay_map: int
    silence: int
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., source: _Optional[str] = ..., relay_map: _Optional[int] = ..., silence: _Optional[int] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("sequence", "messages")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, sequence: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class HandOverRequest(_message.Message):
    __slots__ = ("opening", "batch")
    OPENING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    opening: HandOverOpening
    batch: Batch
    def __init__(self, opening: _Optional[_Union[HandOverOpening, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class HandOverAnswer(_message.Message):
    __slots__ = ("acked", "refusal")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    acked: int
    refusal: Refusal
    def __init__(self, acked: _Optional[int] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class FollowLogRequest(_message.Message):
    __slots__ = ("meant", "attempt", "offset", "silence")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    attempt: AttemptId
    offset: int
    silence: int
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., attempt: _Optional[_Union[AttemptId, _Mapping]] = ..., offset: _Optional[int] = ..., silence: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("family", "message", "node", "session", "what", "given", "current")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    family: str
    message: str
    node: str
    session: str
    what: str
    given: int
    current: int
    def __init__(self, family: _Optional[str] = ..., message: _Optional[str] = ..., node: _Optional[str] = ..., session: _Optional[str] = ..., what: _Optional[str] = ..., given: _Optional[int] = ..., current: _Optional[int] = ...) -> None: ...
