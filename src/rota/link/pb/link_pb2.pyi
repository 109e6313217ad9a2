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

class CheckRequest(_message.Message):
    __slots__ = ("meant",)
    MEANT_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ...) -> None: ...

class CheckAnswer(_message.Message):
    __slots__ = ("node", "session")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class AttemptId(_message.Message):
    __slots__ = ("run", "number")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    run: str
    number: int
    def __init__(self, run: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("attempt", "epoch", "job", "payload")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptId
    epoch: int
    job: str
    payload: bytes
    def __init__(self, attempt: _Optional[_Union[AttemptId, _Mapping]] = ..., epoch: _Optional[int] = ..., job: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class StartAnswer(_message.Message):
    __slots__ = ("accepted", "refused")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    accepted: str
    refused: str
    def __init__(self, accepted: _Optional[str] = ..., refused: _Optional[str] = ...) -> None: ...

class DispatchManyRequest(_message.Message):
    __slots__ = ("meant", "starts")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    starts: _containers.RepeatedCompositeFieldContainer[Start]
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[Start, _Mapping]]] = ...) -> None: ...

class DispatchManyAnswer(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[StartAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[StartAnswer, _Mapping]]] = ...) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ("meant", "attempt", "offset")
    MEANT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    meant: Whom
    attempt: AttemptId
    offset: int
    def __init__(self, meant: _Optional[_Union[Whom, _Mapping]] = ..., attempt: _Optional[_Union[AttemptId, _Mapping]] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadLogAnswer(_message.Message):
    __slots__ = ("data", "is_last")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_last: bool
    def __init__(self, data: _Optional[bytes] = ..., is_last: bool = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("family", "message", "node", "session")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    family: str
    message: str
    node: str
    session: str
    def __init__(self, family: _Optional[str] = ..., message: _Optional[str] = ..., node: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...
